#include "tessera/layout/detail/sharding_lists.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace tessera::layout::detail {
namespace {

PlainLists make_plain_lists(int atoms) {
  PlainLists all;
  all.lists.emplace_back();
  for (std::size_t i = 0; i < all.lists.size(); ++i) {
    for (int bit = 0; bit < atoms; ++bit) {
      const ShardingList parent = all.lists[i];
      if ((parent.mask >> bit & 1) == 0) {
        all.lists.push_back(append(parent, static_cast<std::int16_t>(i), bit + 1, bit, -1));
      }
    }
  }
  all.by_mask.resize(all.lists.size());
  for (std::size_t i = 0; i < all.by_mask.size(); ++i) all.by_mask[i] = static_cast<std::int16_t>(i);
  const auto mask_of = [&](std::int16_t i) { return all.lists[static_cast<std::size_t>(i)].mask; };
  std::stable_sort(all.by_mask.begin(), all.by_mask.end(),
                   [&](std::int16_t a, std::int16_t b) { return mask_of(a) < mask_of(b); });
  all.first_of_mask.resize((std::size_t{1} << atoms) + 1, 0);
  for (const ShardingList& list : all.lists) ++all.first_of_mask[list.mask + 1];
  for (std::size_t i = 1; i < all.first_of_mask.size(); ++i)
    all.first_of_mask[i] = static_cast<std::uint16_t>(all.first_of_mask[i] + all.first_of_mask[i - 1]);
  return all;
}

}  // namespace

ShardingList append(const ShardingList& parent, std::int16_t index, int token, int bit, int dim) {
  ShardingList list = parent;
  list.word |= static_cast<std::uint64_t>(token) << (4 * parent.size);
  list.mask |= Mask{1} << bit;
  list.parent = index;
  list.last = static_cast<std::uint8_t>(token);
  ++list.size;
  list.prefix_mask[list.size] = static_cast<std::uint8_t>(list.mask);
  if (dim >= 0) list.dim = static_cast<std::int8_t>(dim);
  return list;
}

const PlainLists& plain_lists(int atoms) {
  static const std::array<PlainLists, kMaxInPlay + 1> all = [] {
    std::array<PlainLists, kMaxInPlay + 1> made;
    for (int i = 0; i <= kMaxInPlay; ++i) made[static_cast<std::size_t>(i)] = make_plain_lists(i);
    return made;
  }();
  return all[static_cast<std::size_t>(atoms)];
}

}  // namespace tessera::layout::detail
