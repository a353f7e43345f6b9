// Products of bf16 matrices against a plain loop: layouts, strides, results in bf16 and f32; and several threads at
// once.
#include "tessera/ops/matrix/detail/bf16_product.h"

#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>
#include <vector>

#include "tessera/ops/matrix/detail/product_library.h"

namespace tessera::ops::detail {
namespace {

class Bf16Product : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_fast_bf16()) GTEST_SKIP() << "this processor has no fast instructions for bf16";
  }
};

// Small whole numbers, which bf16 holds and every order of summation adds exactly; with a gap after each line.
struct Matrix {
  Matrix(std::int64_t rows, std::int64_t cols, bool transposed, std::mt19937& random)
      : stride((transposed ? rows : cols) + 3), is_transposed(transposed) {
    data.resize(static_cast<std::size_t>((transposed ? cols : rows) * stride));
    for (bf16& each : data) each = bf16(static_cast<float>(static_cast<int>(random() % 5) - 2));
  }
  [[nodiscard]] float at(std::int64_t i, std::int64_t j) const {
    return static_cast<float>(data[static_cast<std::size_t>(is_transposed ? j * stride + i : i * stride + j)]);
  }
  [[nodiscard]] ProductOperand<bf16> operand() const { return {data.data(), stride, is_transposed}; }

  std::vector<bf16> data;
  std::int64_t stride;
  bool is_transposed;
};

template <class C>
void expect_product(const GemmSizes& s, const Matrix& a, const Matrix& b, bool is_added) {
  const std::int64_t stride = s.n + 5;
  std::vector<C> c(static_cast<std::size_t>(s.m * stride), C(3.0F));
  multiply_bf16(s, a.operand(), b.operand(), is_added, dtype_of<C>(), c.data(), stride);
  for (std::int64_t i = 0; i < s.m; ++i) {
    for (std::int64_t j = 0; j < stride; ++j) {
      float want = j >= s.n || is_added ? 3.0F : 0.0F;
      for (std::int64_t x = 0; j < s.n && x < s.k; ++x) want += a.at(i, x) * b.at(x, j);
      ASSERT_EQ(static_cast<float>(c[static_cast<std::size_t>(i * stride + j)]), static_cast<float>(C(want)))
          << s.m << " x " << s.n << " x " << s.k << " at " << i << ", " << j;
    }
  }
}

TEST_F(Bf16Product, EqualsAPlainLoop) {
  std::mt19937 random(7);
  const std::int64_t sizes[][3] = {{1, 1, 1}, {5, 7, 3}, {6, 16, 300}, {97, 33, 257}, {1, 40, 9}, {40, 1, 9}};
  for (const auto& [m, n, k] : sizes) {
    for (int transposed = 0; transposed < 4; ++transposed) {
      const Matrix a(m, k, (transposed & 1) != 0, random);
      const Matrix b(k, n, (transposed & 2) != 0, random);
      expect_product<float>({m, n, k}, a, b, false);
      expect_product<float>({m, n, k}, a, b, true);
      expect_product<bf16>({m, n, k}, a, b, false);
    }
  }
}

TEST_F(Bf16Product, RoundsALongSumOnce) {
  const std::vector<bf16> ones(3000, bf16(1.0F));
  const std::vector<bf16> small(3000, bf16(1.0F / 256));
  bf16 c;
  multiply_bf16({1, 1, 3000}, {ones.data(), 3000, false}, {small.data(), 1, false}, false, DType::kBF16, &c, 1);
  EXPECT_EQ(static_cast<float>(c), static_cast<float>(bf16(3000.0F / 256)));
}

TEST_F(Bf16Product, GivesTheSameBitsBesideOtherThreads) {
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 32; ++t) {
    threads.emplace_back([&wrong, t] {
      std::mt19937 random(static_cast<unsigned>(t));
      const std::int64_t rows = 5 + t % 29;
      const Matrix a(rows, 48, t % 2 == 0, random);
      const Matrix b(48, 35, t % 3 == 0, random);
      const auto run = [&] {
        std::vector<float> c(static_cast<std::size_t>(rows * 35));
        multiply_bf16({rows, 35, 48}, a.operand(), b.operand(), false, DType::kF32, c.data(), 35);
        return c;
      };
      const std::vector<float> alone = run();
      for (int i = 0; i < 200; ++i) wrong += run() != alone ? 1 : 0;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace tessera::ops::detail
