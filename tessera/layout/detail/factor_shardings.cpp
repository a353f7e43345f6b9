#include "tessera/layout/detail/factor_shardings.h"

#include <algorithm>

#include "tessera/base/error.h"
#include "tessera/layout/detail/chunking.h"

namespace tessera::layout::detail {
namespace {

using tessera::detail::concat;

// The digits of an index, as described in factor_shardings.h. No digit has size 1.
class Digits {
 public:
  struct Digit {
    std::int64_t size = 1;
    std::int32_t atom = -1;  // -1: not split
  };

  explicit Digits(std::int64_t size) {
    if (size != 1) list_.push_back({size, -1});
  }

  [[nodiscard]] const SmallVector<Digit, 12>& list() const { return list_; }

  // Splits each of `blocks` blocks by an atom. Returns false, without changes, if the split is not a digit.
  bool sharding(std::int32_t atom, std::int64_t parts, std::int64_t blocks) {
    std::size_t at = 0;
    std::int64_t inside = 1;  // blocks within the digit that is split
    for (; at < list_.size(); ++at) {
      const Digit& digit = list_[at];
      if (digit.atom >= 0) continue;
      if (blocks % digit.size == 0) {
        blocks /= digit.size;
        continue;
      }
      if (digit.size % blocks != 0) return false;
      inside = blocks;
      blocks = 1;
      break;
    }
    if (at == list_.size() || blocks != 1 || list_[at].size / inside % parts != 0) return false;
    SmallVector<Digit, 12> next;
    const auto add = [&next](Digit digit) {
      if (digit.size != 1) next.push_back(digit);
    };
    for (std::size_t i = 0; i < at; ++i) next.push_back(list_[i]);
    add({inside, -1});
    add({parts, atom});
    add({list_[at].size / inside / parts, -1});
    for (std::size_t i = at + 1; i < list_.size(); ++i) next.push_back(list_[i]);
    list_ = next;
    return true;
  }

  // Splits while the splits are digits. Returns the number of these splits.
  std::size_t shard_all(const Atoms& atoms, const AtomDim& dim) {
    std::size_t done = 0;
    while (done < dim.shardings.size() &&
           sharding(dim.shardings[done].atom, atoms.size(dim.shardings[done].atom), dim.shardings[done].blocks)) {
      ++done;
    }
    return done;
  }

 private:
  SmallVector<Digit, 12> list_;
};

// The digits of one factor.
struct Share {
  std::size_t factor = 0;
  std::int64_t unsharded = 1;  // number of local indices of a rank
};

std::string join(std::span<const SizedFactor> factors) {
  std::string out;
  for (const SizedFactor& each : factors) {
    if (each.size != 1 || factors.size() == 1) out += concat(out.empty() ? "" : " x ", each.name, " (", each.size, ")");
  }
  return out;
}

std::int64_t product(std::span<const SizedFactor> factors) {
  std::int64_t whole = 1;
  for (const SizedFactor& each : factors) whole *= each.size;
  return whole;
}

// Returns the one factor that takes all splits, if there is only one candidate; otherwise -1.
int sole_factor(std::span<const SizedFactor> factors) {
  int sole = static_cast<int>(factors.size()) - 1;
  int nontrivial = 0;
  for (std::size_t f = 0; f < factors.size(); ++f) {
    if (factors[f].size == 0) return static_cast<int>(f);  // no elements: any factor is correct
    if (factors[f].size == 1) continue;
    ++nontrivial;
    sole = static_cast<int>(f);
  }
  return nontrivial <= 1 ? sole : -1;
}

// Assigns digits to factors. Returns false if a digit crosses the boundary between two factors.
bool share_digits(const Atoms& atoms, const Digits& digits, std::span<const SizedFactor> factors,
                  std::span<AtomDim> out, SmallVector<Share, 8>& shares, AtomSplit& split, std::string& why) {
  SmallVector<Digits::Digit, 12> list = digits.list();
  std::size_t at = 0;
  for (std::size_t f = 0; f < factors.size(); ++f) {
    if (factors[f].size == 1) continue;
    Share share{f, 1};
    std::int64_t rest = factors[f].size;
    while (rest > 1) {
      Digits::Digit& digit = list[at];
      const bool splits = digit.atom < 0 && digit.size > rest;
      if (splits ? digit.size % rest != 0 : rest % digit.size != 0) {
        if (digit.atom >= 0 && digit.size % rest == 0) split = {digit.atom, rest};
        const std::string what = digit.atom < 0 ? concat("blocks") : concat(atom_name(atoms, digit.atom));
        why = concat(what,
                     digit.atom < 0 ? " do not align with " : concat(" (", digit.size, " shards) does not align with "),
                     join(factors), digit.atom < 0 ? "" : concat(": ", rest, " of ", factors[f].name, " remain"));
        return false;
      }
      if (digit.atom >= 0) {
        out[f].shardings.push_back({digit.atom, share.unsharded});
        rest /= digit.size;
        ++at;
      } else if (splits) {
        share.unsharded *= rest;
        digit.size /= rest;
        rest = 1;
      } else {
        share.unsharded *= digit.size;
        rest /= digit.size;
        ++at;
      }
    }
    shares.push_back(share);
  }
  return true;
}

// Assigns the splits from the first uneven one: to the last factor, or a single split to an earlier factor if its
// chunks are complete chunks of that factor.
bool share_tail(const Atoms& atoms, std::span<const AtomSharding> tail, std::span<const SizedFactor> factors,
                std::span<AtomDim> out, const SmallVector<Share, 8>& shares, std::string& why) {
  std::int64_t before = 1;
  for (std::size_t s = 0; s + 1 < shares.size(); ++s) before *= shares[s].unsharded;
  const bool in_last =
      std::ranges::all_of(tail, [&](const AtomSharding& sharding) { return sharding.blocks % before == 0; });
  if (in_last) {
    for (const AtomSharding& sharding : tail)
      out[shares[shares.size() - 1].factor].shardings.push_back({sharding.atom, sharding.blocks / before});
    return true;
  }
  std::int64_t blocks = tail[0].blocks;
  const std::int64_t parts = atoms.size(tail[0].atom);
  for (std::size_t s = 0; s < shares.size() && tail.size() == 1; ++s) {
    const std::int64_t unsharded = shares[s].unsharded;
    if (blocks % unsharded == 0) {
      blocks /= unsharded;
      continue;
    }
    std::int64_t behind = 1;
    for (std::size_t t = s + 1; t < shares.size(); ++t) behind *= shares[t].unsharded;
    const std::int64_t each = unsharded / blocks;
    if (unsharded % blocks == 0 && chunk_of(each * behind, parts) == chunk_of(each, parts) * behind) {
      out[shares[s].factor].shardings.push_back({tail[0].atom, blocks});
      return true;
    }
    break;
  }
  why = concat(atom_name(atoms, tail[0].atom), " shards ", product(factors), " = ", join(factors), " into ", parts,
               " shards that are not complete shards of one factor");
  return false;
}

}  // namespace

std::string atom_name(const Atoms& atoms, std::int32_t atom) {
  const SubAxis& by = atoms.list[static_cast<std::size_t>(atom)];
  const Axis& axis = atoms.mesh.axis(by.axis);
  if (axis.size == by.size) return "axis " + axis.name;
  return concat("sub-axis of axis ", axis.name, " (", by.size, " of ", axis.size, ")");
}

AtomDim canonical_shardings(const Atoms& atoms, const AtomDim& shardings, std::int64_t size) {
  const bool is_plain =
      std::ranges::all_of(shardings.shardings, [](const AtomSharding& sharding) { return sharding.blocks == 1; });
  if (is_plain || shardings.sizes || size == 0 || shardings.shardings.size() == 1) return shardings;
  Digits digits(size);
  const std::size_t even = digits.shard_all(atoms, shardings);
  AtomDim out;
  std::int64_t unsharded = 1;
  for (const Digits::Digit& digit : digits.list()) {
    if (digit.atom >= 0) {
      out.shardings.push_back({digit.atom, unsharded});
    } else {
      unsharded *= digit.size;
    }
  }
  for (std::size_t c = even; c < shardings.shardings.size(); ++c) out.shardings.push_back(shardings.shardings[c]);
  return out;
}

bool split_shardings(const Atoms& atoms, const AtomDim& shardings, std::span<const SizedFactor> factors,
                     std::span<AtomDim> out, AtomSplit& split, std::string& why) {
  if (shardings.shardings.empty()) return true;
  if (factors.empty()) {
    why = concat(atom_name(atoms, shardings.shardings[0].atom), " shards a dimension of size 1 that is broadcast");
    return false;
  }
  if (const int sole = sole_factor(factors); sole >= 0) {
    const auto f = static_cast<std::size_t>(sole);
    out[f] = canonical_shardings(atoms, shardings, factors[f].size);
    return true;
  }
  if (shardings.sizes) {
    why = concat(atom_name(atoms, shardings.shardings[0].atom), " shards ", join(factors),
                 " into explicit sizes, which cannot be split into factors");
    return false;
  }
  Digits digits(product(factors));
  const std::size_t even = digits.shard_all(atoms, shardings);
  SmallVector<Share, 8> shares;
  if (!share_digits(atoms, digits, factors, out, shares, split, why)) return false;
  if (even == shardings.shardings.size()) return true;
  return share_tail(atoms, std::span<const AtomSharding>(shardings.shardings).subspan(even), factors, out, shares, why);
}

bool merge_shardings(const Atoms& atoms, std::span<const AtomDim* const> shardings,
                     std::span<const SizedFactor> factors, AtomDim& out, std::string& why) {
  std::size_t last = 0;  // the last factor that is sharded
  std::size_t count = 0;
  for (std::size_t f = 0; f < factors.size(); ++f) {
    if (shardings[f]->shardings.empty()) continue;
    last = f;
    ++count;
  }
  if (count == 0) return true;
  if (count == 1 && sole_factor(factors) == static_cast<int>(last)) {
    out = *shardings[last];
    return true;
  }
  const std::int64_t whole = product(factors);
  std::int64_t unsharded = 1;  // of the factors so far
  for (std::size_t f = 0; f <= last; ++f) {
    if (shardings[f]->shardings.empty()) {
      unsharded *= factors[f].size;
      continue;
    }
    if (whole == 0 || factors[f].size == 1) {  // parsing the result would shard another factor
      why = concat(atom_name(atoms, shardings[f]->shardings[0].atom), " shards factor ", factors[f].name, " (",
                   factors[f].size, "), which cannot be expressed in ", join(factors));
      return false;
    }
    for (const AtomSharding& sharding : shardings[f]->shardings)
      out.shardings.push_back({sharding.atom, sharding.blocks * unsharded});
    Digits digits(factors[f].size);
    const std::size_t even = shardings[f]->sizes ? 0 : digits.shard_all(atoms, *shardings[f]);
    std::int64_t rest = 1;
    for (const Digits::Digit& digit : digits.list()) rest *= digit.atom < 0 ? digit.size : 1;
    unsharded *= rest;
    if (even == shardings[f]->shardings.size()) continue;
    std::int64_t behind = 1;
    for (std::size_t g = f + 1; g < factors.size(); ++g) behind *= factors[g].size;
    const AtomSharding& odd = shardings[f]->shardings[even];
    const std::int64_t parts = atoms.size(odd.atom);
    if (!shardings[f]->sizes && f == last) {
      if (behind == 1) continue;
      const std::int64_t each = rest / odd.blocks;
      const bool is_last_sharding = even + 1 == shardings[f]->shardings.size();
      if (is_last_sharding && chunk_of(each * behind, parts) == chunk_of(each, parts) * behind) continue;
    }
    why = shardings[f]->sizes
              ? concat(atom_name(atoms, odd.atom), " shards factor ", factors[f].name, " (", factors[f].size,
                       ") into explicit sizes, which cannot be merged with ", join(factors))
              : concat(atom_name(atoms, odd.atom), " shards factor ", factors[f].name, " (", factors[f].size, ") into ",
                       parts, " uneven shards; merged with ", join(factors.subspan(f + 1)),
                       " they would not be ceil-chunks of ", whole);
    return false;
  }
  return true;
}

bool is_sharded_in_blocks(const Atoms& atoms, const AtomDim& shardings, std::int64_t size, std::int64_t block) {
  SmallVector<std::int64_t, 8> pieces{size};  // the distinct chunk sizes so far
  for (std::size_t c = 0; c < shardings.shardings.size(); ++c) {
    SmallVector<std::int64_t, 8> next;
    const auto add = [&next](std::int64_t piece) {
      if (piece > 0 && std::ranges::find(next, piece) == next.end()) next.push_back(piece);
    };
    if (c == 0 && shardings.sizes) {
      for (const std::int64_t each : *shardings.sizes) {
        if (each % block != 0) return false;
        add(each);
      }
    } else {
      for (const std::int64_t piece : pieces) {
        const std::int64_t blocks = shardings.shardings[c].blocks;
        const std::int64_t each = piece / blocks;
        const std::int64_t chunk = chunk_of(each, atoms.size(shardings.shardings[c].atom));
        if (each % block != 0 || chunk % block != 0) return false;
        add(chunk * blocks);
        add(each % std::max<std::int64_t>(chunk, 1) * blocks);
      }
    }
    pieces = next;
  }
  return true;
}

}  // namespace tessera::layout::detail
