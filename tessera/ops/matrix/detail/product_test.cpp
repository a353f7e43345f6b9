// Products against a plain loop: all element types, transposed operands, strides, scales; and several threads at once.
#include "tessera/ops/matrix/detail/product.h"

#include <gtest/gtest.h>
#include <sys/time.h>

#include <atomic>
#include <cmath>
#include <csignal>
#include <limits>
#include <random>
#include <thread>
#include <type_traits>
#include <vector>

namespace tessera::ops::detail {
namespace {

template <class T>
T value_of(std::mt19937& random) {
  const int whole = static_cast<int>(random() % 17) - 8;
  if constexpr (std::is_same_v<T, std::complex<float>>) {
    return {static_cast<float>(whole), static_cast<float>(static_cast<int>(random() % 17) - 8)};
  } else {
    return static_cast<T>(whole);
  }
}

// A matrix of small whole numbers, which every order of summation adds exactly, with a gap after each line.
template <class T>
struct Matrix {
  Matrix(std::int64_t rows, std::int64_t cols, bool transposed, std::mt19937& random)
      : stride((transposed ? rows : cols) + 3), is_transposed(transposed) {
    data.resize(static_cast<std::size_t>((transposed ? cols : rows) * stride));
    for (T& each : data) each = value_of<T>(random);
  }
  [[nodiscard]] T at(std::int64_t i, std::int64_t j) const {
    return data[static_cast<std::size_t>(is_transposed ? j * stride + i : i * stride + j)];
  }
  [[nodiscard]] ProductOperand<T> operand() const { return {data.data(), stride, is_transposed}; }

  std::vector<T> data;
  std::int64_t stride;
  bool is_transposed;
};

template <class T>
class Products : public ::testing::Test {};
using Types = ::testing::Types<float, double, std::complex<float>, std::int64_t>;
TYPED_TEST_SUITE(Products, Types);

TYPED_TEST(Products, EqualAPlainLoop) {
  using T = TypeParam;
  std::mt19937 random(7);
  // The last six are small products of f32 (small_product.h): tiles with and without remainders in each dimension.
  const std::int64_t sizes[][3] = {{1, 1, 1},     {5, 7, 3},     {6, 16, 300}, {97, 33, 257}, {1, 40, 9},
                                   {40, 1, 9},    {13, 520, 4},  {64, 64, 64}, {23, 45, 37},  {19, 16, 255},
                                   {31, 31, 256}, {16, 100, 17}, {18, 8, 1}};
  for (const auto& [m, n, k] : sizes) {
    for (int transposed = 0; transposed < 4; ++transposed) {
      const Matrix<T> a(m, k, (transposed & 1) != 0, random);
      const Matrix<T> b(k, n, (transposed & 2) != 0, random);
      for (const T beta : {T(0), T(1), T(3)}) {
        const Matrix<T> before(m, n, false, random);
        std::vector<T> c = before.data;
        multiply({m, n, k}, T(2), a.operand(), b.operand(), beta, c.data(), before.stride);
        for (std::int64_t i = 0; i < m; ++i) {
          for (std::int64_t j = 0; j < before.stride; ++j) {
            T want = before.at(i, j);
            if (j < n) {
              T sum = T(0);
              for (std::int64_t x = 0; x < k; ++x) sum += a.at(i, x) * b.at(x, j);
              want = T(2) * sum + beta * want;
            }
            ASSERT_EQ(c[static_cast<std::size_t>(i * before.stride + j)], want)
                << m << " x " << n << " x " << k << ", transposed " << transposed << " at " << i << ", " << j;
          }
        }
      }
    }
  }
}

TYPED_TEST(Products, WithoutADepthScaleTheResult) {
  using T = TypeParam;
  std::vector<T> c = {T(1), T(2), T(3), T(4)};
  multiply({2, 2, 0}, T(1), {c.data(), 1, false}, {c.data(), 2, false}, T(3), c.data(), 2);
  EXPECT_EQ(c, (std::vector<T>{T(3), T(6), T(9), T(12)}));
  multiply({2, 2, 0}, T(1), {c.data(), 1, false}, {c.data(), 2, false}, T(0), c.data(), 2);
  EXPECT_EQ(c, std::vector<T>(4, T(0)));
}

template <class T>
void expect_no_read_of_result() {
  const std::vector<T> ones(64 * 64, T(1));
  std::vector<T> c(64 * 64, std::numeric_limits<T>::quiet_NaN());
  multiply({64, 64, 64}, T(1), {ones.data(), 64, false}, {ones.data(), 64, false}, T(0), c.data(), 64);
  EXPECT_EQ(c, std::vector<T>(64 * 64, T(64)));
}

TEST(Product, DoesNotReadTheResultIfBetaIsZero) {
  expect_no_read_of_result<float>();
  expect_no_read_of_result<double>();
}

// Scales take another way through the end of a tile.
TEST(Product, WithoutScalesEqualsAPlainLoop) {
  std::mt19937 random(11);
  for (const std::int64_t n : {8, 16, 31, 47, 64, 79}) {
    const Matrix<float> a(21, 40, false, random);
    const Matrix<float> b(40, n, false, random);
    Matrix<float> c(21, n, false, random);
    const Matrix<float> before = c;
    multiply({21, n, 40}, 1.0F, a.operand(), b.operand(), 0.0F, c.data.data(), c.stride);
    for (std::int64_t i = 0; i < 21; ++i) {
      for (std::int64_t j = 0; j < c.stride; ++j) {
        float want = j < n ? 0 : before.at(i, j);
        for (std::int64_t x = 0; j < n && x < 40; ++x) want += a.at(i, x) * b.at(x, j);
        ASSERT_EQ(c.at(i, j), want) << n << " columns at " << i << ", " << j;
      }
    }
  }
}

template <class T>
void expect_nan_and_infinity() {
  std::vector<T> a(32 * 32, T(1));
  const std::vector<T> b(32 * 32, T(0));
  a[5] = std::numeric_limits<T>::infinity();  // times 0
  a[40] = std::numeric_limits<T>::quiet_NaN();
  std::vector<T> c(32 * 32);
  multiply({32, 32, 32}, T(1), {a.data(), 32, false}, {b.data(), 32, false}, T(0), c.data(), 32);
  EXPECT_TRUE(std::isnan(c[0]) && std::isnan(c[31]) && std::isnan(c[32]) && std::isnan(c[63]));
  EXPECT_EQ(c[64], T(0));
}

TEST(Product, KeepsNanAndInfinity) {
  expect_nan_and_infinity<float>();
  expect_nan_and_infinity<double>();
}

// Half a million wrong values were seen with a library that hands out its work memory without a lock.
template <class T>
void expect_equal_bits_beside_others() {
  constexpr int kThreads = 64;
  constexpr int kTimes = 200;
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&wrong, t] {
      const std::int64_t rows = 5 + t % 29;
      std::vector<T> a(static_cast<std::size_t>(rows * 48)), b(48 * 35);
      for (std::size_t i = 0; i < a.size(); ++i) a[i] = static_cast<T>(0.37 * static_cast<double>(i) + t);
      for (std::size_t i = 0; i < b.size(); ++i) b[i] = static_cast<T>(0.11 * static_cast<double>(i) - t);
      const auto run = [&] {
        std::vector<T> c(static_cast<std::size_t>(rows * 35));
        multiply({rows, 35, 48}, T(1), {a.data(), 48, false}, {b.data(), 35, false}, T(0), c.data(), 35);
        return c;
      };
      const std::vector<T> alone = run();
      for (int i = 0; i < kTimes; ++i) wrong += run() != alone ? 1 : 0;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Product, GivesTheSameBitsBesideOtherThreads) {
  expect_equal_bits_beside_others<float>();
  expect_equal_bits_beside_others<double>();
}

// The frame of a handler must not be written over the heap (product_library.h). Without the protection this aborts in
// the heap's own checks within a second.
TEST(Product, LeavesTheHeapAloneWhenSignalsArrive) {
  struct sigaction handler = {};
  handler.sa_handler = [](int) {};
  handler.sa_flags = SA_RESTART;
  struct sigaction before = {};
  ASSERT_EQ(::sigaction(SIGALRM, &handler, &before), 0);
  const itimerval often{{0, 50}, {0, 50}};
  ASSERT_EQ(::setitimer(ITIMER_REAL, &often, nullptr), 0);
  constexpr std::int64_t kMax = 260;
  constexpr std::int64_t kCols = 160;  // too many for small_product.h at either depth
  const std::vector<float> a(64 * kMax, 1.0F);
  const std::vector<float> b(kMax * kCols, 1.0F);
  std::vector<std::vector<char>> churn(50);
  int wrong = 0;
  for (std::size_t i = 0; i < 40'000; ++i) {
    const std::int64_t depth = i % 2 == 0 ? kMax : 64;  // 64: the longest that needs no protection
    const bool is_a_transposed = i % 4 >= 2;
    const bool is_b_transposed = i % 8 >= 4;
    std::vector<float> c(64 * kCols);
    multiply({64, kCols, depth}, 1.0F, {a.data(), is_a_transposed ? 64 : depth, is_a_transposed},
             {b.data(), is_b_transposed ? depth : kCols, is_b_transposed}, 0.0F, c.data(), kCols);
    wrong += c.front() != static_cast<float>(depth) || c.back() != static_cast<float>(depth) ? 1 : 0;
    churn[i % churn.size()] = std::vector<char>(100 + i % 3000);
  }
  const itimerval never = {};
  ::setitimer(ITIMER_REAL, &never, nullptr);
  ::sigaction(SIGALRM, &before, nullptr);
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace tessera::ops::detail
