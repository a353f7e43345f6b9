// Products on a GPU compared with the host, for unusual strides. Plain ones are in reference_cuda_test.
#include <gmock/gmock.h>

#include "tessera/ops/create/create.h"
#include "tessera/ops/create/random.h"
#include "tessera/ops/matrix/cuda/cublaslt.h"
#include "tessera/ops/matrix/matrix.h"
#include "tessera/ops/pointwise/convert.h"
#include "tessera/ops/shape/arrange.h"
#include "tessera/ops/shape/shape.h"
#include "tessera/ops/testing/on_cuda.h"

namespace tessera::ops {
namespace {

using testing::expect_near;
using testing::expect_same_bits;

class MatmulOnCuda : public testing::OnCuda {
 protected:
  void SetUp() override {
    testing::OnCuda::SetUp();
    if (IsSkipped()) return;
    if (!cuda::why_no_cublaslt().empty()) GTEST_SKIP() << cuda::why_no_cublaslt();
  }
};

// Sums of k products of standard normal numbers.
double tolerance_of(DType dtype, std::int64_t k) {
  const double size = std::sqrt(static_cast<double>(k)) + 1;
  switch (dtype) {
    case DType::kF64: return 1e-13 * size;
    case DType::kBF16: return 1.0 / 64;
    case DType::kF16: return 1.0 / 512;
    default: return 3e-6 * size;  // TF32 is a hundred times off
  }
}

constexpr DType kDTypes[] = {DType::kF32, DType::kF64, DType::kBF16, DType::kF16};

TEST_F(MatmulOnCuda, OddAndLargeSizes) {
  for (const DType dtype : kDTypes) {
    for (const auto& [m, n, k] : std::initializer_list<std::tuple<int, int, int>>{
             {1, 1, 1}, {1, 7, 1000}, {255, 1, 3}, {129, 257, 511}, {640, 320, 512}, {7, 1000, 1}}) {
      SCOPED_TRACE(tessera::detail::concat(dtype, " ", m, " ", n, " ", k));
      const Tensor a = randn({m, k}, {.dtype = dtype});
      const Tensor b = randn({k, n}, {.dtype = dtype});
      expect_near(here(mm(there(a), there(b))), mm(a, b), tolerance_of(dtype, k));
    }
  }
}

TEST_F(MatmulOnCuda, ReadsTransposedOperandsWhereTheyLie) {
  const Tensor a = randn({65, 33});
  const Tensor b = randn({33, 77});
  const Tensor want = mm(a, b);
  const auto turned = [&](const Tensor& x) { return transpose(there(contiguous(transpose(x, 0, 1))), 0, 1); };
  for (const Tensor& left : {there(a), turned(a)}) {
    for (const Tensor& right : {there(b), turned(b)}) {
      expect_near(here(mm(left, right)), want, 1e-5);
      const Tensor out = turned(want);
      mm(left, right, {.out = out});
      expect_near(here(out), want, 1e-5);
    }
  }
}

TEST_F(MatmulOnCuda, OperandsMayBeginAtAnyElement) {
  for (const DType dtype : kDTypes) {
    SCOPED_TRACE(to_string(dtype));
    const Tensor a = randn({64, 65}, {.dtype = dtype});
    const Tensor b = randn({65, 64}, {.dtype = dtype});
    const Tensor want = mm(slice(a, 1, 1), slice(b, 0, 1));
    const Tensor out = there(randn({65, 65}, {.dtype = dtype}));
    const Tensor inner = slice(slice(out, 1, 1), 0, 1);
    mm(slice(there(a), 1, 1), slice(there(b), 0, 1), {.out = inner});
    expect_near(here(inner), want, tolerance_of(dtype, 64));
  }
}

TEST_F(MatmulOnCuda, OperandsWithGapsAreCopied) {
  const Tensor a = randn({40, 60});
  const Tensor b = randn({60, 50});
  const auto thin = [](const Tensor& x) { return slice(slice(x, 0, 0, INT64_MAX, 2), 1, 0, INT64_MAX, 2); };
  const Tensor left = thin(a);
  const Tensor right = thin(b);
  const Tensor out = thin(there(randn({40, 50})));
  mm(thin(there(a)), thin(there(b)), {.out = out});
  expect_near(here(out), mm(left, right), 1e-5);
}

TEST_F(MatmulOnCuda, BatchesAreBroadcastByStridesOfZero) {
  const Tensor a = randn({1, 9, 17});
  const Tensor b = randn({6, 17, 5});
  const Tensor want = bmm(contiguous(expand(a, Shape({6, 9, 17}).values())), b);
  expect_near(here(bmm(expand(there(a), Shape({6, 9, 17}).values()), there(b))), want, 1e-5);
  const Tensor c = randn({3, 4, 9, 17});
  const Tensor d = randn({4, 17, 5});
  expect_near(here(matmul(there(c), there(d))), matmul(c, d), 1e-5);
  expect_near(here(einsum("bqhd,bkhd->bhqk", {there(randn({0, 3, 2, 4})), there(randn({0, 5, 2, 4}))})),
              randn({0, 2, 3, 5}), 1e-5);
  const Tensor q = randn({2, 3, 4, 8});
  const Tensor k = randn({2, 5, 4, 8});
  expect_near(here(einsum("bqhd,bkhd->bhqk", {there(q), there(k)})), einsum("bqhd,bkhd->bhqk", {q, k}), 1e-5);
}

TEST_F(MatmulOnCuda, EmptySumsAreZeros) {
  const Tensor out = there(randn({5, 3}));
  mm(there(randn({5, 0})), there(randn({0, 3})), {.out = out});
  for (const double value : testing::to_array(here(out)).values) EXPECT_EQ(value, 0);
  EXPECT_EQ(here(mm(there(randn({0, 4})), there(randn({4, 3})))).numel(), 0);
}

TEST_F(MatmulOnCuda, IntegersAreSummedIn64Bits) {
  testing::Random random(5);
  const auto integers = [&](const Shape& shape, DType dtype) {
    return testing::to_tensor(testing::integers(random, shape, -100, 100).value, dtype);
  };
  for (const DType dtype : {DType::kI64, DType::kI32, DType::kI8}) {
    const Tensor a = integers({7, 300}, dtype);
    const Tensor b = integers({300, 9}, dtype);
    expect_same_bits(here(mm(there(a), there(b))), mm(a, b));
  }
}

TEST_F(MatmulOnCuda, AddsProductsToSums) {
  const auto expect_added = [&](const Tensor& sum, const Tensor& a, const Tensor& b, double tolerance) {
    const Tensor want = clone(sum);
    contract_add_(want, a, b, "ki,kj->ij");
    const Tensor got = there(sum);
    contract_add_(got, there(a), there(b), "ki,kj->ij");
    expect_near(here(got), want, tolerance);
    const Tensor turned = transpose(there(contiguous(transpose(sum, 0, 1))), 0, 1);
    contract_add_(turned, there(a), there(b), "ki,kj->ij");
    expect_near(here(contiguous(turned)), want, tolerance);
    // Every other column of something wider.
    const Tensor wide = there(cat({unsqueeze(sum, 2), unsqueeze(sum, 2)}, 2));
    contract_add_(select(wide, 2, 1), there(a), there(b), "ki,kj->ij");
    expect_near(here(contiguous(select(wide, 2, 1))), want, tolerance);
    expect_near(here(contiguous(select(wide, 2, 0))), sum, 0);
  };
  for (const DType dtype : kDTypes) {
    SCOPED_TRACE(to_string(dtype));
    const Tensor a = randn({300, 40}, {.dtype = dtype});
    const Tensor b = randn({300, 50}, {.dtype = dtype});
    expect_added(randn({40, 50}, {.dtype = dtype}), a, b, tolerance_of(dtype, 300));
    if (dtype == DType::kF64) continue;
    expect_added(randn({40, 50}), a, b, 1e-4);  // half types may be added to f32
  }
  testing::Random random(6);
  const auto integers = [&](const Shape& shape) {
    return testing::to_tensor(testing::integers(random, shape, -100, 100).value, DType::kI32);
  };
  expect_added(integers({4, 5}), integers({30, 4}), integers({30, 5}), 0);
}

TEST_F(MatmulOnCuda, SumsOfOnesAreTheirLength) {
  for (const std::int64_t k : {100, 1000, 8192 + 8, 50257}) {
    const Tensor a = there(ones({64, k}, {.dtype = DType::kBF16}));
    const Tensor sum = there(zeros({64, 64}));
    contract_add_(sum, a, a, "ik,jk->ij");
    for (const double value : testing::to_array(here(sum)).values) ASSERT_EQ(value, static_cast<double>(k));
  }
}

TEST_F(MatmulOnCuda, TheSameCallGivesTheSameBits) {
  const Tensor a = there(randn({64, 8192}, {.dtype = DType::kBF16}));
  const Tensor b = there(randn({8192, 64}, {.dtype = DType::kBF16}));
  const Tensor first = here(mm(a, b));
  for (int i = 0; i < 5; ++i) expect_same_bits(here(mm(a, b)), first);
}

TEST_F(MatmulOnCuda, IsCapturedWithItsWorkspace) {
  const Tensor a = randn({64, 8192}, {.dtype = DType::kBF16});  // few tiles, long sums: cut, with a workspace
  const Tensor b = randn({8192, 64}, {.dtype = DType::kBF16});
  const Tensor left = there(a);
  const Tensor right = there(b);
  const Tensor eager = here(mm(left, right));
  Tensor out;
  const memory::CapturedGraph graph = captured([&] { out = mm(left, right); });
  std::vector<std::string> labels;
  for (const device::NodeInfo& node : graph.graph().nodes()) labels.push_back(node.label);
  EXPECT_THAT(labels, ::testing::Contains("mm"));
  for (int replay = 0; replay < 2; ++replay) {
    graph.replay(stream());
    expect_same_bits(here(out), eager);
  }
  copy_(left, randn({64, 8192}, {.dtype = DType::kBF16}));
  graph.replay(stream());
  expect_same_bits(here(out), here(mm(left, right)));
}

TEST_F(MatmulOnCuda, WorkBehindAProductWaitsForIt) {
  const device::Stream side = gpu_.create_stream({.name = "side"});
  const Tensor a = there(randn({1024, 1024}));
  const Tensor want = here(mm(a, a));
  Tensor product;
  product = mm(a, a);
  const device::Event done = gpu_.create_event();
  stream().record(done);
  side.wait(done);
  Tensor copy = Tensor::allocate(product.shape(), product.dtype(), gpu_);
  side.copy(copy.data(), product.data(), product.nbytes());
  side.synchronize();
  expect_same_bits(here(copy), want);
}

}  // namespace
}  // namespace tessera::ops
