// Tests loops over operands of any strides: every element once, in the order of the first operand, merged if possible.
#include "tessera/ops/detail/loops.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace tessera::ops::detail {
namespace {

Tensor memory(std::int64_t size) { return Tensor::allocate({size}, DType::kI64, device::Device::get("host")); }

TEST(Loop, DenseTensorsAreOneRun) {
  const Tensor a = Tensor::allocate({3, 4, 5}, DType::kF32, device::Device::get("host"));
  const Loop loop({&a, &a});
  EXPECT_EQ(loop.ndim(), 1U);
  EXPECT_EQ(loop.run(), 60);
  const Tensor turned = memory(60).as_strided({3, 4, 5}, Strides({1, 3, 12}), 0);
  EXPECT_EQ(Loop({&turned, &turned}).ndim(), 1U);
}

TEST(Loop, BackwardsFirstOperandsAreTurnedRound) {
  const Tensor a = memory(4).as_strided({4}, Strides({-1}), 3);
  const Loop loop({&a, &a});
  EXPECT_EQ(loop.step(0), 1);
  loop.for_runs(0, 4, [](const std::int64_t* offsets, std::int64_t n) {
    EXPECT_EQ(offsets[0], -3);
    EXPECT_EQ(n, 4);
  });
}

TEST(Loop, NumbersStayWhereTheyAre) {
  const Tensor a = memory(12).as_strided({3, 4}, Strides({4, 1}), 0);
  const Loop loop({&a, nullptr});
  EXPECT_TRUE(loop.is_constant(1));
  EXPECT_FALSE(loop.is_constant(0));
  EXPECT_EQ(loop.ndim(), 1U);
}

// Random shapes, orders, signs and broadcasts, walked in chunks.
TEST(Loop, MeetsEveryElementOnceWithItsPartner) {
  std::mt19937 random(3);
  for (int round = 0; round < 300; ++round) {
    const std::size_t ndim = random() % 5;
    std::vector<std::int64_t> dims;
    for (std::size_t d = 0; d < ndim; ++d) dims.push_back(1 + static_cast<std::int64_t>(random() % 4));
    const Shape shape{std::span<const std::int64_t>(dims)};
    // First operand: dimensions in random order, some reversed.
    std::vector<std::size_t> order(ndim);
    for (std::size_t d = 0; d < ndim; ++d) order[d] = d;
    std::shuffle(order.begin(), order.end(), random);
    std::vector<std::int64_t> strides(ndim);
    std::int64_t step = 1;
    std::int64_t first = 0;
    for (const std::size_t d : order) {
      const bool is_back = random() % 2 == 0;
      strides[d] = is_back ? -step : step;
      if (is_back) first += step * (dims[d] - 1);
      step *= dims[d] + static_cast<std::int64_t>(random() % 2);
    }
    const Tensor a = memory(step + 1).as_strided(shape, Strides(strides), first);
    // Second operand: some dimensions broadcast.
    std::vector<std::int64_t> other = dims;
    for (auto& dim : other) dim = random() % 3 == 0 ? 1 : dim;
    const Tensor b = Tensor::allocate(Shape(other), DType::kI64, device::Device::get("host"));
    const Loop loop({&a, &b});
    std::set<std::pair<std::int64_t, std::int64_t>> met;
    const std::int64_t piece = 1 + static_cast<std::int64_t>(random() % 7);
    for (std::int64_t begin = 0; begin < loop.numel(); begin += piece) {
      loop.for_runs(begin, std::min(begin + piece, loop.numel()), [&](const std::int64_t* offsets, std::int64_t n) {
        for (std::int64_t i = 0; i < n; ++i) met.emplace(offsets[0] + i * loop.step(0), offsets[1] + i * loop.step(1));
      });
    }
    std::set<std::pair<std::int64_t, std::int64_t>> want;
    for (std::int64_t place = 0; place < shape.numel(); ++place) {
      std::int64_t rest = place;
      std::int64_t of_a = 0;
      std::int64_t of_b = 0;
      for (std::size_t d = ndim; d-- > 0; rest /= dims[d]) {
        of_a += rest % dims[d] * strides[d];
        if (other[d] != 1) of_b += rest % dims[d] * b.strides()[d];
      }
      want.emplace(of_a, of_b);
    }
    ASSERT_EQ(met, want) << to_string(shape) << " " << to_string(a.strides());
  }
}

}  // namespace
}  // namespace tessera::ops::detail
