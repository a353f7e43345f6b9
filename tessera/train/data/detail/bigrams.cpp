#include "tessera/train/data/detail/bigrams.h"

#include <cmath>

namespace tessera::train::detail {
namespace {

constexpr std::uint64_t kMaxForTable = 1024;

}  // namespace

Bigrams::Bigrams(std::int64_t vocabulary)
    : vocabulary_(static_cast<std::uint64_t>(vocabulary)),
      table_(vocabulary_ <= kMaxForTable ? vocabulary_ * vocabulary_ : 0) {}

void Bigrams::add(std::span<const std::int32_t> tokens) {
  for (std::size_t i = 0; i + 1 < tokens.size(); ++i) {
    const auto first = static_cast<std::uint64_t>(tokens[i]);
    const std::uint64_t pair = first * vocabulary_ + static_cast<std::uint64_t>(tokens[i + 1]);
    ++(table_.empty() ? pairs_[pair] : table_[pair]);
  }
}

double Bigrams::entropy() const {
  std::unordered_map<std::uint64_t, std::uint64_t> firsts;
  std::uint64_t total = 0;
  const auto for_each = [&](const auto& body) {
    for (std::size_t pair = 0; pair < table_.size(); ++pair) {
      if (table_[pair] != 0) body(pair / vocabulary_, table_[pair]);
    }
    for (const auto& [pair, count] : pairs_) body(pair / vocabulary_, count);
  };
  for_each([&](std::uint64_t first, std::uint64_t count) {
    firsts[first] += count;
    total += count;
  });
  double sum = 0;
  for_each([&](std::uint64_t first, std::uint64_t count) {
    const auto times = static_cast<double>(count);
    sum -= times * std::log(times / static_cast<double>(firsts.at(first)));
  });
  return total == 0 ? 0 : sum / static_cast<double>(total);
}

}  // namespace tessera::train::detail
