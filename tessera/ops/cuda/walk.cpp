#include "tessera/ops/cuda/walk.h"

#include <bit>

#include "tessera/base/error.h"
#include "tessera/ops/detail/loops.h"

namespace tessera::ops::cuda {
namespace {

constexpr std::int64_t kSmall = std::int64_t{1} << 31;

}  // namespace

// Exact for divisors up to 2^31 and numbers below 2^31; no intermediate sum exceeds 2^32.
Divider divider_of(std::int64_t size) {
  if (size <= 0 || size > kSmall) return {0, 0};  // unused
  const auto divisor = static_cast<std::uint64_t>(size);
  const auto shift = static_cast<std::uint32_t>(std::bit_width(divisor - 1));
  const std::uint64_t magic = ((std::uint64_t{1} << 32) * ((std::uint64_t{1} << shift) - divisor)) / divisor + 1;
  return {static_cast<std::uint32_t>(magic), shift};
}

Walk empty_walk() {
  Walk walk{};
  walk.numel = 1;
  walk.is_small = true;
  return walk;
}

void Walk::add(std::int64_t size, const std::int64_t* along, int count) {
  TESSERA_CHECK_AS(NotSupported, ndim < kMaxDims, "a tensor must have fewer than ", kMaxDims,
                   " dimensions that cannot be merged; make it contiguous or split it");
  sizes[ndim] = size;
  dividers[ndim] = divider_of(size);
  for (int o = 0; o < count; ++o) steps[ndim][o] = along[o];
  ++ndim;
  numel *= size;
  is_small = numel < kSmall;
}

Walk walk_of(const detail::Loop& loop, std::int64_t width) {
  const auto count = static_cast<int>(loop.operands());
  TESSERA_CHECK(count <= Walk::kMaxOperands, "a kernel must have at most ", Walk::kMaxOperands, " operands, got ",
                count);
  Walk walk = empty_walk();
  for (int o = 0; o < count; ++o) walk.first[o] = loop.first(static_cast<std::size_t>(o));
  for (std::size_t d = loop.ndim(); d-- > 0;) {
    std::int64_t along[Walk::kMaxOperands] = {};
    const std::int64_t taken = d + 1 == loop.ndim() ? width : 1;
    for (int o = 0; o < count; ++o) along[o] = loop.stride(static_cast<std::size_t>(o), d) * taken;
    walk.add(loop.size(d) / taken, along, count);
  }
  if (walk.ndim == 0) {  // one element
    const std::int64_t along[Walk::kMaxOperands] = {};
    walk.add(1, along, count);
  }
  return walk;
}

std::int64_t items_together(const Walk& walk, std::int64_t item, std::initializer_list<const void*> moved) {
  const auto count = static_cast<int>(moved.size());
  const auto fits = [&](std::int64_t together) {
    bool all = walk.ndim > 0 && walk.sizes[0] % together == 0;
    int o = 0;
    for (const void* address : moved) {
      all = all && walk.steps[0][o] == 1 && walk.first[o] % together == 0 &&
            reinterpret_cast<std::uintptr_t>(address) % static_cast<std::uintptr_t>(item * together) == 0;
      for (int d = 1; all && d < walk.ndim; ++d) all = walk.steps[d][o] % together == 0;
      ++o;
    }
    for (; all && o < Walk::kMaxOperands; ++o) all = walk.steps[0][o] == 0;
    return all;
  };
  std::int64_t together = 1;
  while (count > 0 && item * together < 16 && fits(2 * together)) together *= 2;
  return together;
}

Walk in_groups(const Walk& walk, std::int64_t together, int moved) {
  Walk groups = empty_walk();
  for (int o = 0; o < Walk::kMaxOperands; ++o) groups.first[o] = walk.first[o] / (o < moved ? together : 1);
  for (int d = 0; d < walk.ndim; ++d) {
    std::int64_t along[Walk::kMaxOperands];
    for (int o = 0; o < Walk::kMaxOperands; ++o) {
      along[o] = walk.steps[d][o] / (d > 0 && o < moved ? together : 1);
    }
    groups.add(walk.sizes[d] / (d == 0 ? together : 1), along, Walk::kMaxOperands);
  }
  return groups;
}

bool has_vectors(const detail::Loop& loop, std::int64_t width) {
  if (loop.ndim() == 0 || loop.run() % width != 0) return false;
  for (std::size_t o = 0; o < loop.operands(); ++o) {
    if (loop.step(o) != 1 && (o == 0 || loop.step(o) != 0)) return false;
    if (loop.first(o) % width != 0) return false;
    for (std::size_t d = 0; d + 1 < loop.ndim(); ++d) {
      // An operand that is constant along the innermost dimension is read one element at a time.
      if (loop.step(o) == 1 && loop.stride(o, d) % width != 0) return false;
    }
  }
  return true;
}

}  // namespace tessera::ops::cuda
