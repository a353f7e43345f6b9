// Tests row operators on a GPU over rows of all length classes: short and long, with and without vectors.
#include "tessera/ops/create/random.h"
#include "tessera/ops/nn/norm.h"
#include "tessera/ops/nn/softmax.h"
#include "tessera/ops/shape/shape.h"
#include "tessera/ops/testing/on_cuda.h"

namespace tessera::ops {
namespace {

using testing::expect_near;
using testing::expect_same_bits;

class RowsOnCuda : public testing::OnCuda {
 protected:
  // Calls body(x, grad, weight, tolerance) for rows of all lengths, in every dtype.
  template <class F>
  void for_lengths(const F& body) {
    for (const DType dtype : {DType::kF32, DType::kF64, DType::kBF16, DType::kF16}) {
      for (const std::int64_t n : {1, 7, 31, 32, 33, 256, 1000, 1024, 1025, 4097, 8192, 100'000}) {
        SCOPED_TRACE(tessera::detail::concat(dtype, " rows of ", n));
        const std::int64_t rows = n > 5000 ? 3 : 17;
        const double tolerance = dtype == DType::kF64    ? 1e-11
                                 : dtype == DType::kBF16 ? 1.0 / 64
                                 : dtype == DType::kF16  ? 1.0 / 512
                                                         : 2e-5;
        body(randn({rows, n}, {.dtype = dtype}), randn({rows, n}, {.dtype = dtype}), randn({n}, {.dtype = dtype}),
             tolerance);
        if (HasFatalFailure()) return;
      }
    }
  }
};

TEST_F(RowsOnCuda, SoftmaxAndItsGradient) {
  for_lengths([&](const Tensor& x, const Tensor& grad, const Tensor&, double tolerance) {
    const Tensor y = softmax(x, 1);
    expect_near(here(softmax(there(x), 1)), y, tolerance);
    expect_near(here(softmax_backward(there(grad), there(y), 1)), softmax_backward(grad, y, 1), tolerance);
    const Tensor log = log_softmax(x, 1);
    expect_near(here(log_softmax(there(x), 1)), log, tolerance);
    // The sum of a long row in f32 is not more accurate on the host than on the device.
    expect_near(here(log_softmax_backward(there(grad), there(log), 1)), log_softmax_backward(grad, log, 1),
                10 * tolerance);
  });
}

TEST_F(RowsOnCuda, RmsNormAndItsGradients) {
  for_lengths([&](const Tensor& x, const Tensor& grad, const Tensor& weight, double tolerance) {
    expect_near(here(rms_norm(there(x), there(weight))), rms_norm(x, weight), tolerance);
    expect_near(here(rms_norm(there(x))), rms_norm(x), tolerance);
    const bool is_double = x.dtype() == DType::kF64;
    const Tensor rstd = rand({x.size(0)}, {.dtype = is_double ? DType::kF64 : DType::kF32});
    const NormGradients want = rms_norm_backward(grad, x, weight, rstd);
    const NormGradients got = rms_norm_backward(there(grad), there(x), there(weight), there(rstd));
    expect_near(here(got.x), want.x, 10 * tolerance);
    expect_near(here(got.weight), want.weight, 10 * tolerance);
  });
}

TEST_F(RowsOnCuda, SumsOverManyRowsHaveTheSameBitsEachTime) {
  const Tensor x = there(randn({5000, 96}));
  const Tensor grad = there(randn({5000, 96}));
  const Tensor rstd = there(rand({5000}));
  const Tensor first = here(rms_norm_backward(grad, x, {}, rstd).weight);
  for (int i = 0; i < 3; ++i) expect_same_bits(here(rms_norm_backward(grad, x, {}, rstd).weight), first);
}

TEST_F(RowsOnCuda, RowsAlongAnyDimension) {
  const Tensor x = randn({5, 40, 6});
  for (const std::int64_t dim : {0, 1, 2}) expect_near(here(softmax(there(x), dim)), softmax(x, dim), 1e-5);
  const Tensor long_rows = randn({3000, 3});
  expect_near(here(softmax(there(long_rows), 0)), softmax(long_rows, 0), 1e-5);
  const Tensor padded = randn({9, 33});  // rows start at unaligned addresses
  expect_near(here(softmax(slice(there(padded), 1, 1), 1)), softmax(slice(padded, 1, 1), 1), 1e-5);
}

TEST_F(RowsOnCuda, RowsOfMinusInfinityLeaveOutWhatIsMasked) {
  for (const std::int64_t n : {40, 5000}) {
    testing::Array values(Shape({2, n}), -INFINITY);
    values.values[3] = 1;
    values.values[static_cast<std::size_t>(n) - 1] = 1;  // the second row is masked completely
    const Tensor x = testing::to_tensor(values, DType::kF32);
    const testing::Array got = testing::to_array(here(softmax(there(x), 1)));
    EXPECT_NEAR(got.values[3], 0.5, 1e-6);
    EXPECT_EQ(got.values[4], 0);
    EXPECT_TRUE(std::isnan(got.values[static_cast<std::size_t>(n)]));
  }
}

}  // namespace
}  // namespace tessera::ops
