// The digits of a map: its levels, then the index in a run, each (count, stride), major to minor. A local index is a
// number in this mixed radix. A split keeps a range of the minor digits.
#include "tessera/layout/detail/chunking.h"

#include "tessera/base/error.h"

namespace tessera::layout::detail {
namespace {

using StrideLevel = IndexMap::StrideLevel;
using Digits = SmallVector<StrideLevel, 6>;

Digits digits_of(const IndexMap& map) {
  Digits digits;
  digits.append(map.levels);
  digits.push_back({map.block, 1});
  return digits;
}

// Splits the digits so that the last ones have the product `size`, and returns the index of the first of these. Returns
// -1 if a digit does not divide.
int split_at(Digits& digits, std::int64_t size) {
  std::int64_t needed = size;
  for (std::size_t i = digits.size(); i-- > 0;) {
    if (needed == 1) return static_cast<int>(i) + 1;
    const StrideLevel digit = digits[i];
    if (needed % digit.count == 0) {
      needed /= digit.count;
      continue;
    }
    if (digit.count % needed != 0) return -1;
    Digits split;
    split.append(std::span(digits.data(), i));
    split.push_back({digit.count / needed, digit.stride * needed});
    split.push_back({needed, digit.stride});
    split.append(std::span(digits.data() + i + 1, digits.size() - i - 1));
    digits = split;
    return static_cast<int>(i) + 1;
  }
  return 0;
}

// Converts to the canonical form of a map: no digit of count 1. Two digits never form one progression: a split into two
// or more never keeps all of a block that has more than one index.
void set_digits(IndexMap& map, const Digits& digits) {
  map.levels.clear();
  map.block = 1;
  for (const StrideLevel& digit : digits) {
    if (digit.count == 1) continue;
    if (digit.stride == 1) {
      map.block = digit.count;  // the last one: strides decrease
    } else {
      map.levels.push_back(digit);
    }
  }
}

}  // namespace

bool keep_range(IndexMap& map, std::int64_t blocks, Range range) {
  std::int64_t unit = map.size() / blocks;
  Digits digits = digits_of(map);
  const int begin = split_at(digits, unit);
  if (begin < 0) return false;
  for (auto i = static_cast<std::size_t>(begin); i < digits.size(); ++i) {
    StrideLevel& digit = digits[i];
    unit /= digit.count;
    const std::int64_t place = range.lo / unit;
    map.offset += place * digit.stride;
    if (range.lo % unit == 0 && range.hi % unit == 0) {
      digit.count = (range.hi - range.lo) / unit;
      break;
    }
    if ((range.hi - 1) / unit != place) return false;
    digit.count = 1;
    range = {range.lo - place * unit, range.hi - place * unit};
  }
  set_digits(map, digits);
  return true;
}

Holdings::Holdings(std::int64_t size) {
  if (size > 0) forms_.push_back({0, size, {}});
}

void Holdings::add(const IndexMap& form) {
  if (form.size() > 0 && std::find(forms_.begin(), forms_.end(), form) == forms_.end()) forms_.push_back(form);
}

bool Holdings::all_divide_by(std::int64_t blocks, std::int64_t pieces) const {
  return std::all_of(forms_.begin(), forms_.end(), [&](const IndexMap& form) {
    return form.size() % blocks == 0 && form.size() / blocks % pieces == 0;
  });
}

std::int64_t Holdings::largest() const {
  std::int64_t largest = 0;
  for (const IndexMap& form : forms_) largest = std::max(largest, form.size());
  return largest;
}

void Holdings::sharding(std::span<const std::int64_t> sizes) {
  std::vector<std::int64_t> different(sizes.begin(), sizes.end());
  std::sort(different.begin(), different.end());
  different.erase(std::unique(different.begin(), different.end()), different.end());
  forms_.clear();
  for (const std::int64_t size : different) {
    if (size > 0) forms_.push_back({0, size, {}});
  }
}

std::string Holdings::sharding(std::int64_t pieces, std::int64_t blocks) {
  using tessera::detail::concat;
  std::vector<IndexMap> before;
  before.swap(forms_);
  for (const IndexMap& form : before) {
    if (form.size() % blocks != 0) {
      return concat("some rank has ", form.size(), " elements, which is not a multiple of ", blocks, " blocks");
    }
    const std::int64_t block = form.size() / blocks;
    const std::int64_t chunk = chunk_of(block, pieces);
    const std::int64_t wholes = block / chunk;
    // Every full chunk must keep runs: for each digit, it is a multiple of the count or divides it.
    Digits digits = digits_of(form);
    const int begin = split_at(digits, block);
    bool fits = begin >= 0;
    std::int64_t unit = block;
    for (auto i = static_cast<std::size_t>(std::max(begin, 0)); i < digits.size() && fits; ++i) {
      unit /= digits[i].count;
      if (chunk % unit == 0) break;
      fits = unit % chunk == 0;
    }
    if (!fits) {
      return concat("shards of ", chunk, " would split the runs of an earlier sharding with blocks, ", form.block,
                    " long");
    }
    IndexMap whole = form;
    IndexMap rest = form;
    fits = keep_range(whole, blocks, {0, chunk});
    const bool has_rest = wholes < pieces && block % chunk != 0;
    if (has_rest) fits = fits && keep_range(rest, blocks, {chunk * wholes, block});
    TESSERA_CHECK(fits, "cutting: a shard splits runs, which a previous check should have rejected");
    whole.offset = 0;
    rest.offset = 0;
    add(whole);
    if (has_rest) add(rest);
  }
  return {};
}

}  // namespace tessera::layout::detail
