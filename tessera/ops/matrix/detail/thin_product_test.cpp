// Thin products against a plain loop: remainders in each dimension, gaps, sums, both dtypes and any number of threads.
#include "tessera/ops/matrix/detail/thin_product.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "tessera/ops/matrix/detail/gemm.h"
#include "tessera/ops/parallel.h"

namespace tessera::ops::detail {
namespace {

// Small whole numbers: every order of summation gives the same sum.
template <class T>
std::vector<T> whole_numbers(std::int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<T> values(static_cast<std::size_t>(count));
  for (T& each : values) each = T(static_cast<float>(static_cast<int>(random() % 5) - 2));
  return values;
}

template <class T>
class ThinProducts : public ::testing::Test {};
using Types = ::testing::Types<float, bf16>;
TYPED_TEST_SUITE(ThinProducts, Types);

TYPED_TEST(ThinProducts, EqualAPlainLoop) {
  using T = TypeParam;
  for (const std::int64_t m : {1, 2, 3, 4, 5, 6, 7, 8, 9, 16}) {
    for (const std::int64_t n : {32, 35, 101}) {
      for (const std::int64_t k : {64, 67, 403}) {
        const std::int64_t a_stride = k + 3;
        const std::int64_t b_stride = k + 5;
        const std::int64_t c_stride = n + 2;
        const std::vector<T> a = whole_numbers<T>(m * a_stride, 1);
        const std::vector<T> b = whole_numbers<T>(n * b_stride, 2);
        for (const bool is_added : {false, true}) {
          std::vector<float> c(static_cast<std::size_t>(m * c_stride), 7.0F);
          multiply_thin(ThinProduct<T>{m, n, k, a.data(), a_stride, b.data(), b_stride, c.data(), c_stride, is_added});
          for (std::int64_t i = 0; i < m; ++i) {
            for (std::int64_t j = 0; j < c_stride; ++j) {
              float want = j < n && !is_added ? 0.0F : 7.0F;
              for (std::int64_t x = 0; x < k && j < n; ++x) {
                want += static_cast<float>(a[static_cast<std::size_t>(i * a_stride + x)]) *
                        static_cast<float>(b[static_cast<std::size_t>(j * b_stride + x)]);
              }
              ASSERT_EQ(c[static_cast<std::size_t>(i * c_stride + j)], want)
                  << m << " x " << n << " x " << k << " at " << i << ", " << j;
            }
          }
        }
      }
    }
  }
}

// The bits of a row must not depend on the rows beside it: a batch of sequences gives each the tokens that it has
// alone.
TYPED_TEST(ThinProducts, HaveTheSameBitsForAnyNumberOfRowsAndThreads) {
  using T = TypeParam;
  constexpr std::int64_t kWidth = 771;
  constexpr std::int64_t kCols = 300;
  std::mt19937 random(3);
  std::uniform_real_distribution<float> of(-1, 1);
  std::vector<T> a(16 * kWidth);
  std::vector<T> b(kCols * kWidth);
  for (T& each : a) each = T(of(random));
  for (T& each : b) each = T(of(random));
  const DType dtype = std::is_same_v<T, float> ? DType::kF32 : DType::kBF16;
  const auto product = [&](std::int64_t rows) {
    std::vector<T> c(static_cast<std::size_t>(rows * kCols));
    Gemm gemm;
    gemm.sizes = {rows, kCols, kWidth};
    gemm.a = {reinterpret_cast<std::byte*>(a.data()), kWidth, 1, dtype};
    gemm.b = {reinterpret_cast<std::byte*>(b.data()), 1, kWidth, dtype};
    gemm.c = {reinterpret_cast<std::byte*>(c.data()), kCols, 1, dtype};
    run_gemm(gemm);
    std::vector<float> out(c.begin(), c.end());
    return out;
  };
  const int threads = thread_budget();
  set_thread_budget(1);
  const std::vector<float> all = product(16);
  set_thread_budget(4);
  for (std::int64_t rows = 1; rows <= 16; ++rows) {
    ASSERT_EQ(product(rows), std::vector<float>(all.begin(), all.begin() + rows * kCols)) << rows << " rows";
  }
  set_thread_budget(threads);
  double want = 0;
  for (std::size_t x = 0; x < kWidth; ++x)
    want += static_cast<double>(static_cast<float>(a[x])) * static_cast<double>(static_cast<float>(b[x]));
  const double tolerance = dtype == DType::kF32 ? 1e-4 : 0.1;
  EXPECT_NEAR(all[0], want, tolerance);
}

}  // namespace
}  // namespace tessera::ops::detail
