// Tests the walks of kernels on the host.
#include "tessera/ops/cuda/walk.h"

#include <gtest/gtest.h>

#include <random>

#include "tessera/ops/detail/loops.h"
#include "tessera/ops/shape/detail/strided_loop.h"

namespace tessera::ops::cuda {
namespace {

std::uint32_t divided(std::uint32_t n, const Divider& by) {
  return static_cast<std::uint32_t>((std::uint64_t{n} * by.magic >> 32) + n) >> by.shift;
}

Walk one_dim(std::int64_t size) {
  Walk walk = empty_walk();
  const std::int64_t step = 1;
  walk.add(size, &step, 1);
  return walk;
}

TEST(Walk, DividesEveryNumberBelow2To31) {
  std::mt19937 random(3);
  for (int i = 0; i < 20000; ++i) {
    const std::uint32_t size = i < 70 ? static_cast<std::uint32_t>(i) + 1 : (random() >> (random() % 31) >> 1) + 1;
    const Divider divider = one_dim(size).dividers[0];
    for (const std::uint32_t n : {0U, 1U, size - 1, size, size + 1, 2 * size - 1, 0x7fffffffU, 0x7ffffffeU,
                                  static_cast<std::uint32_t>(random() >> 1)}) {
      if (n > 0x7fffffffU) continue;
      ASSERT_EQ(divided(n, divider), n / size) << n << " by " << size;
    }
  }
}

TEST(Walk, IsSmallBelow2To31Elements) {
  EXPECT_TRUE(one_dim((std::int64_t{1} << 31) - 1).is_small);
  EXPECT_FALSE(one_dim(std::int64_t{1} << 31).is_small);
}

// Computes the offsets of an element, one index at a time.
std::vector<std::int64_t> offsets_at(const Walk& walk, std::int64_t element, std::size_t operands) {
  std::vector<std::int64_t> at(walk.first, walk.first + operands);
  for (int d = 0; d < walk.ndim; element /= walk.sizes[d++]) {
    for (std::size_t o = 0; o < operands; ++o) at[o] += element % walk.sizes[d] * walk.steps[d][o];
  }
  return at;
}

TEST(Walk, GoesWhereTheLoopGoes) {
  const device::Device host = device::Device::get("host");
  const Tensor out = Tensor::allocate({4, 6, 8}, DType::kF32, host);
  const Tensor other = Tensor::allocate({8, 6, 4}, DType::kF32, host);
  const Tensor turned = other.as_strided({4, 6, 8}, Strides({1, 4, 24}), 0);
  const Tensor row = Tensor::allocate({8}, DType::kF32, host);
  const detail::Loop loop({&out, &turned, &row});
  const Walk walk = walk_of(loop);
  EXPECT_EQ(walk.numel, 4 * 6 * 8);
  std::int64_t element = 0;
  loop.for_runs(0, loop.numel(), [&](const std::int64_t* offsets, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i, ++element) {
      const auto at = offsets_at(walk, element, 3);
      for (std::size_t o = 0; o < 3; ++o) ASSERT_EQ(at[o], offsets[o] + i * loop.step(o));
    }
  });
  EXPECT_FALSE(has_vectors(loop, 4)) << "the second operand is turned";
}

TEST(Walk, TakesVectorsOfRows) {
  const device::Device host = device::Device::get("host");
  const Tensor out = Tensor::allocate({6, 8}, DType::kF32, host);
  const Tensor row = Tensor::allocate({8}, DType::kF32, host);
  const Tensor column = Tensor::allocate({6, 1}, DType::kF32, host);
  const detail::Loop loop({&out, &row, &column});
  ASSERT_TRUE(has_vectors(loop, 4));
  const Walk walk = walk_of(loop, 4);
  EXPECT_EQ(walk.numel, 12);
  EXPECT_EQ(offsets_at(walk, 3, 3), (std::vector<std::int64_t>{12, 4, 1}));
  EXPECT_FALSE(has_vectors(loop, 16));
  const Tensor odd = Tensor::allocate({6, 9}, DType::kF32, host).as_strided({6, 8}, Strides({9, 1}), 0);
  EXPECT_FALSE(has_vectors(detail::Loop({&out, &odd}), 4)) << "rows do not begin at multiples of 4";
}

TEST(Walk, GroupsAdjacentItems) {
  detail::StridedLoop<3> loop;  // two arrays of items, and an operand per row
  loop.add(6, {8, 24, 1});
  loop.add(8, {1, 1, 0});
  loop.collapse();
  const Walk walk = walk_of(loop);
  alignas(16) std::byte memory[64];
  EXPECT_EQ(items_together(walk, 2, {memory, memory + 32}), 8);
  EXPECT_EQ(items_together(walk, 4, {memory, memory + 32}), 4);
  EXPECT_EQ(items_together(walk, 16, {memory, memory}), 1);
  EXPECT_EQ(items_together(walk, 2, {memory, memory + 4}), 2) << "the second array is aligned to 4 bytes";
  EXPECT_EQ(items_together(walk, 2, {memory}), 1) << "the second operand is not an array, but not constant";
  const Walk groups = in_groups(walk, 4, 2);
  EXPECT_EQ(groups.numel, 12);
  EXPECT_EQ(offsets_at(groups, 5, 3), (std::vector<std::int64_t>{5, 13, 2}));
  EXPECT_EQ(offsets_at(groups, 4, 3), (std::vector<std::int64_t>{4, 12, 2}));
}

}  // namespace
}  // namespace tessera::ops::cuda
