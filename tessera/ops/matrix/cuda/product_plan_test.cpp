// Plans of products, executed by plain loops. Each plan must give the result of the host, and operands that can be read
// in place must not be copied.
#include "tessera/ops/matrix/cuda/product_plan.h"

#include <gtest/gtest.h>

#include <memory>

#include "tessera/ops/create/random.h"
#include "tessera/ops/matrix/detail/contraction.h"
#include "tessera/ops/matrix/matrix.h"
#include "tessera/ops/pointwise/convert.h"
#include "tessera/ops/shape/shape.h"
#include "tessera/ops/testing/op_case.h"

namespace tessera::ops::cuda {
namespace {

using testing::to_array;

void carry_out(const StridedMove& move) {
  for (std::int64_t i = 0; i < move.numel; ++i) {
    std::int64_t rest = i;
    std::int64_t to = 0;
    std::int64_t from = 0;
    for (int d = move.ndim; d-- > 0; rest /= move.sizes[d]) {
      to += rest % move.sizes[d] * move.to_steps[d];
      from += rest % move.sizes[d] * move.from_steps[d];
    }
    static_cast<double*>(move.to)[to] = move.from != nullptr ? static_cast<const double*>(move.from)[from] : 0;
  }
}

// The rules of cuBLASLt for its arguments: strides are those of columns, and at least as large.
void carry_out(const LtProduct& of) {
  const auto check = [](const LtMatrix& matrix, std::int64_t rows, std::int64_t cols) {
    ASSERT_GE(matrix.stride, matrix.is_transposed ? cols : rows);
  };
  check(of.a, of.m, of.k);
  check(of.b, of.k, of.n);
  check(of.c, of.m, of.n);
  ASSERT_FALSE(of.c.is_transposed);
  const auto at = [](const LtMatrix& matrix, std::int64_t batch, std::int64_t i, std::int64_t j) -> double& {
    const std::int64_t place = matrix.is_transposed ? j + i * matrix.stride : i + j * matrix.stride;
    return reinterpret_cast<double*>(matrix.data)[batch * matrix.batch_stride + place];
  };
  for (std::int64_t batch = 0; batch < of.batch; ++batch) {
    for (std::int64_t i = 0; i < of.m; ++i) {
      for (std::int64_t j = 0; j < of.n; ++j) {
        double sum = of.is_added ? at(of.c, batch, i, j) : 0;
        for (std::int64_t k = 0; k < of.k; ++k) sum += at(of.a, batch, i, k) * at(of.b, batch, k, j);
        at(of.c, batch, i, j) = sum;
      }
    }
  }
}

struct Counts {
  std::size_t moves = 0;
  std::size_t calls = 0;
};

// Plans and executes "ik,kj->ij", compares the result with the host, and returns the number of steps.
Counts run(const detail::ContractionLabels& labels, const Tensor& a, const Tensor& b, const Tensor& out,
           bool is_added = false) {
  testing::Array want = to_array(contract(a, b, labels.a + "," + labels.b + "->" + labels.c));
  const testing::Array before = to_array(out);
  for (std::size_t i = 0; is_added && i < want.values.size(); ++i) want.values[i] += before.values[i];
  a.device().synchronize();
  std::vector<std::unique_ptr<double[]>> held;
  detail::Gemm gemm = detail::plan_contraction(labels, a, b, out);
  gemm.is_added = is_added;
  const ProductPlan plan = plan_product("mm", gemm, [&](std::size_t nbytes) {
    held.push_back(std::make_unique<double[]>(nbytes / sizeof(double)));
    return reinterpret_cast<std::byte*>(held.back().get());
  });
  for (const StridedMove& move : plan.before) carry_out(move);
  for (const LtProduct& product : plan.products) carry_out(product);
  if (plan.after) carry_out(*plan.after);
  const testing::Array got = to_array(out);
  EXPECT_EQ(got.shape, want.shape);
  for (std::size_t i = 0; i < want.values.size(); ++i) EXPECT_NEAR(got.values[i], want.values[i], 1e-12) << i;
  return {plan.before.size() + (plan.after ? 1 : 0), plan.products.size()};
}

Tensor numbers(const Shape& shape) { return randn(shape, {.dtype = DType::kF64}); }
Tensor turned(const Shape& shape, int i, int j) { return transpose(contiguous(transpose(numbers(shape), i, j)), i, j); }
// Every other element of each dimension of something larger.
Tensor gapped(const Shape& shape) {
  tensor::IntList sizes;
  for (const std::int64_t size : shape) sizes.push_back(2 * size);
  Tensor x = numbers(Shape(std::span<const std::int64_t>(sizes)));
  for (int d = 0; d < shape.ndim(); ++d) x = slice(x, d, 0, INT64_MAX, 2);
  return x;
}

const detail::ContractionLabels kMm = {"ik", "kj", "ij"};

TEST(ProductPlan, ReadsRowsAndColumnsWhereTheyLie) {
  for (const auto& [m, n, k] : std::initializer_list<std::tuple<int, int, int>>{
           {5, 7, 3}, {1, 7, 3}, {5, 1, 3}, {5, 7, 1}, {1, 1, 3}, {1, 7, 1}, {5, 1, 1}, {1, 1, 1}}) {
    for (const bool turn_a : {false, true}) {
      for (const bool turn_b : {false, true}) {
        for (const bool turn_c : {false, true}) {
          SCOPED_TRACE(tessera::detail::concat(m, n, k, turn_a, turn_b, turn_c));
          const Counts counts =
              run(kMm, turn_a ? turned({m, k}, 0, 1) : numbers({m, k}), turn_b ? turned({k, n}, 0, 1) : numbers({k, n}),
                  turn_c ? turned({m, n}, 0, 1) : numbers({m, n}));
          EXPECT_EQ(counts.moves, 0U);
          EXPECT_EQ(counts.calls, 1U);
        }
      }
    }
  }
}

TEST(ProductPlan, CopiesWhatHasGapsAlone) {
  EXPECT_EQ(run(kMm, gapped({5, 3}), numbers({3, 7}), numbers({5, 7})).moves, 1U);
  EXPECT_EQ(run(kMm, numbers({5, 3}), gapped({3, 7}), numbers({5, 7})).moves, 1U);
  EXPECT_EQ(run(kMm, numbers({5, 3}), numbers({3, 7}), gapped({5, 7})).moves, 1U);
  EXPECT_EQ(run(kMm, gapped({5, 3}), gapped({3, 7}), gapped({5, 7})).moves, 3U);
  const Tensor row = expand(numbers({1, 3}), Shape({5, 3}).values());
  EXPECT_EQ(run(kMm, row, numbers({3, 7}), numbers({5, 7})).moves, 1U);
  const Tensor padded = slice(numbers({5, 9}), 1, 1, 4);
  EXPECT_EQ(run(kMm, padded, numbers({3, 7}), slice(numbers({5, 9}), 1, 2)).moves, 0U);
}

TEST(ProductPlan, EmptySumsAreZeros) {
  EXPECT_EQ(run(kMm, numbers({5, 0}), numbers({0, 7}), numbers({5, 7})).calls, 0U);
  EXPECT_EQ(run(kMm, numbers({5, 0}), numbers({0, 7}), gapped({5, 7})).calls, 0U);
  EXPECT_EQ(run({"nik", "nkj", "nij"}, numbers({2, 5, 0}), numbers({2, 0, 7}), numbers({2, 5, 7})).calls, 0U);
}

TEST(ProductPlan, AddsToTheResultInPlace) {
  EXPECT_EQ(run(kMm, numbers({5, 3}), numbers({3, 7}), numbers({5, 7}), true).moves, 0U);
  EXPECT_EQ(run(kMm, numbers({5, 3}), gapped({3, 7}), turned({5, 7}, 0, 1), true).moves, 1U);
  EXPECT_EQ(run(kMm, numbers({5, 3}), numbers({3, 7}), gapped({5, 7}), true).moves, 2U) << "to and from a dense result";
  run({"abk", "jk", "abj"}, numbers({2, 5, 3}), numbers({7, 3}), gapped({2, 5, 7}), true);
  const Counts none = run(kMm, numbers({5, 0}), numbers({0, 7}), numbers({5, 7}), true);
  EXPECT_EQ(none.calls + none.moves, 0U) << "an empty sum changes nothing";
}

TEST(ProductPlan, BatchesAreOneCall) {
  const detail::ContractionLabels bmm = {"nik", "nkj", "nij"};
  EXPECT_EQ(run(bmm, numbers({4, 5, 3}), numbers({4, 3, 7}), numbers({4, 5, 7})).calls, 1U);
  EXPECT_EQ(run(bmm, turned({4, 5, 3}, 1, 2), turned({4, 3, 7}, 1, 2), turned({4, 5, 7}, 1, 2)).moves, 0U);
  EXPECT_EQ(run(bmm, turned({4, 5, 3}, 0, 1), turned({4, 3, 7}, 0, 1), turned({4, 5, 7}, 0, 1)).moves, 0U);
  const Tensor same = expand(numbers({1, 5, 3}), Shape({4, 5, 3}).values());
  EXPECT_EQ(run(bmm, same, numbers({4, 3, 7}), numbers({4, 5, 7})).calls, 1U);
  EXPECT_EQ(run(bmm, gapped({4, 5, 3}), gapped({4, 3, 7}), gapped({4, 5, 7})).moves, 3U);
  EXPECT_EQ(run({"abk", "jk", "abj"}, numbers({2, 5, 3}), numbers({7, 3}), numbers({2, 5, 7})).calls, 1U);
}

TEST(ProductPlan, SeveralLoopsAndSeveralReducedDimensions) {
  // Attention: two loops that do not merge.
  EXPECT_EQ(run({"bqhd", "bkhd", "bhqk"}, numbers({2, 3, 4, 6}), numbers({2, 5, 4, 6}), numbers({2, 4, 3, 5})).calls,
            2U);
  run({"bhqk", "bkhd", "bqhd"}, numbers({2, 4, 3, 5}), numbers({2, 5, 4, 6}), numbers({2, 3, 4, 6}));
  // k is two dimensions that do not merge in one operand.
  run({"iab", "bja", "ij"}, numbers({3, 4, 5}), numbers({5, 6, 4}), numbers({3, 6}));
  run({"niab", "nbja", "nij"}, gapped({2, 3, 4, 5}), numbers({2, 5, 6, 4}), turned({2, 3, 6}, 1, 2));
  run({"iab", "jab", "ij"}, numbers({3, 4, 5}), numbers({6, 4, 5}), gapped({3, 6}));
  run({"i", "j", "ij"}, numbers({3}), numbers({6}), numbers({3, 6}));
  run({"i", "i", ""}, numbers({8}), numbers({8}), numbers({}));
  run({"abi", "bj", "jbai"}, numbers({2, 3, 4}), numbers({3, 5}), numbers({5, 3, 2, 4}));
}

}  // namespace
}  // namespace tessera::ops::cuda
