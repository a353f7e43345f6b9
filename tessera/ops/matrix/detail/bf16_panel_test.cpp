// Panels of f32 from bf16 against a plain loop, and products that read them.
#include "tessera/ops/matrix/detail/bf16_panel.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>
#include <vector>

#include "tessera/ops/matrix/detail/gemm.h"
#include "tessera/ops/parallel.h"

namespace tessera::ops::detail {
namespace {

// All bits, with NaNs and subnormal numbers among them.
std::vector<bf16> any_bits(std::int64_t count) {
  std::mt19937 random(3);
  std::vector<bf16> values(static_cast<std::size_t>(count));
  for (bf16& each : values) each = std::bit_cast<bf16>(static_cast<std::uint16_t>(random()));
  return values;
}

void expect_panel(std::int64_t rows, std::int64_t depth, bool is_along_depth) {
  const std::int64_t gap = 3;
  const std::int64_t line = (is_along_depth ? depth : rows) + gap;
  const std::vector<bf16> from = any_bits((is_along_depth ? rows : depth) * line);
  const Bf16Lines lines{from.data(), is_along_depth ? line : 1, is_along_depth ? 1 : line};
  const std::int64_t stride = panel_stride(rows);
  ASSERT_GE(stride, rows);
  std::vector<float> to(static_cast<std::size_t>(stride * depth), -7.0F);
  widen_panel(to.data(), lines, rows, depth);
  for (std::int64_t x = 0; x < depth; ++x) {
    for (std::int64_t i = 0; i < stride; ++i) {
      const float want = i < rows ? static_cast<float>(lines.data[i * lines.row + x * lines.depth]) : -7.0F;
      ASSERT_EQ(std::bit_cast<std::uint32_t>(to[static_cast<std::size_t>(x * stride + i)]),
                std::bit_cast<std::uint32_t>(want))
          << rows << " x " << depth << " at " << i << ", " << x;
    }
  }
}

TEST(Bf16Panel, HoldsTheBitsOfAPlainLoop) {
  const std::int64_t sizes[] = {1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 40, 64, 100};
  for (const std::int64_t rows : sizes) {
    for (const std::int64_t depth : sizes) {
      expect_panel(rows, depth, true);
      expect_panel(rows, depth, false);
    }
  }
}

// Small whole numbers: every order of summation gives the same sum.
template <class T>
std::vector<T> whole_numbers(std::int64_t count) {
  std::mt19937 random(5);
  std::vector<T> values(static_cast<std::size_t>(count));
  for (T& each : values) each = T(static_cast<float>(static_cast<int>(random() % 5) - 2));
  return values;
}

// c[i, j] of bf16 a and f32 b; no processor multiplies these as they are stored.
std::vector<float> mixed_product(const GemmSizes& s, std::vector<bf16>& a, std::vector<float>& b, bool is_a_by_rows) {
  std::vector<float> c(static_cast<std::size_t>(s.m * s.n), -1.0F);
  Gemm gemm;
  gemm.sizes = s;
  gemm.a = {reinterpret_cast<std::byte*>(a.data()), is_a_by_rows ? s.k : 1, is_a_by_rows ? 1 : s.m, DType::kBF16};
  gemm.b = {reinterpret_cast<std::byte*>(b.data()), s.n, 1, DType::kF32};
  gemm.c = {reinterpret_cast<std::byte*>(c.data()), s.n, 1, DType::kF32};
  run_gemm(gemm);
  return c;
}

TEST(Bf16Panel, GivesProductsOverSeveralTilesForAnyNumberOfThreads) {
  const int threads = thread_budget();
  for (const GemmSizes& s : {GemmSizes{7, 5, 3}, GemmSizes{70, 50, 900}, GemmSizes{530, 33, 401}}) {
    std::vector<bf16> a = whole_numbers<bf16>(s.m * s.k);
    std::vector<float> b = whole_numbers<float>(s.k * s.n);
    for (const bool is_by_rows : {true, false}) {
      set_thread_budget(1);
      const std::vector<float> alone = mixed_product(s, a, b, is_by_rows);
      set_thread_budget(4);
      EXPECT_EQ(mixed_product(s, a, b, is_by_rows), alone);
      for (std::int64_t i = 0; i < s.m; ++i) {
        for (std::int64_t j = 0; j < s.n; ++j) {
          float want = 0;
          for (std::int64_t x = 0; x < s.k; ++x) {
            want += static_cast<float>(a[static_cast<std::size_t>(is_by_rows ? i * s.k + x : x * s.m + i)]) *
                    b[static_cast<std::size_t>(x * s.n + j)];
          }
          ASSERT_EQ(alone[static_cast<std::size_t>(i * s.n + j)], want) << s.m << " x " << s.n << " x " << s.k;
        }
      }
    }
  }
  set_thread_budget(threads);
}

}  // namespace
}  // namespace tessera::ops::detail
