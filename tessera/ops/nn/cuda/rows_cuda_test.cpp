// Tests row operators on a GPU: rows of all lengths, with and without vectors, in every dtype, many rows, strides.
#include "tessera/ops/create/create.h"
#include "tessera/ops/create/random.h"
#include "tessera/ops/nn/norm.h"
#include "tessera/ops/nn/rope.h"
#include "tessera/ops/nn/softmax.h"
#include "tessera/ops/pointwise/activations.h"
#include "tessera/ops/pointwise/pointwise.h"
#include "tessera/ops/shape/shape.h"
#include "tessera/ops/testing/on_cuda.h"

namespace tessera::ops {
namespace {

using testing::expect_near;
using testing::expect_same_bits;

constexpr DType kFloats[] = {DType::kF32, DType::kF64, DType::kBF16, DType::kF16};

double tolerance_of(DType dtype) {
  switch (dtype) {
    case DType::kF64: return 1e-11;
    case DType::kBF16: return 1.0 / 64;
    case DType::kF16: return 1.0 / 512;
    default: return 2e-5;
  }
}

class RowsOnCuda : public testing::OnCuda {
 protected:
  // Calls body(x, grad, weight, tolerance) for rows of all lengths, in every dtype.
  template <class F>
  void for_lengths(const F& body) {
    for (const DType dtype : kFloats) {
      for (const std::int64_t n :
           {1, 7, 31, 32, 33, 64, 256, 768, 1000, 1024, 1025, 2056, 4097, 8192, 20'000, 50'304, 100'000, 131'072}) {
        SCOPED_TRACE(tessera::detail::concat(dtype, " rows of ", n));
        const std::int64_t rows = n > 5000 ? 3 : 17;
        body(randn({rows, n}, {.dtype = dtype}), randn({rows, n}, {.dtype = dtype}), randn({n}, {.dtype = dtype}),
             tolerance_of(dtype));
        if (HasFatalFailure()) return;
      }
    }
  }

  // Expects equal bits of `results` in 20 runs, and from a replayed graph.
  template <class F>
  void expect_equal_runs(const F& results) {
    const std::vector<Tensor> first = results();
    const std::vector<Tensor> want = on_host(first);
    for (int i = 0; i < 20; ++i) expect_equal(on_host(results()), want);
    std::vector<Tensor> kept;
    for (const Tensor& each : first) kept.push_back(empty_like(each));
    const memory::CapturedGraph graph = captured([&] {
      const std::vector<Tensor> all = results();
      for (std::size_t i = 0; i < all.size(); ++i) copy_(kept[i], all[i]);
    });
    for (int i = 0; i < 2; ++i) {
      for (const Tensor& each : kept) fill_(each, 7);
      graph.replay(stream());
      expect_equal(on_host(kept), want);
    }
  }

  static std::vector<Tensor> on_host(const std::vector<Tensor>& all) {
    std::vector<Tensor> made;
    for (const Tensor& each : all) made.push_back(here(each));
    return made;
  }
  static void expect_equal(const std::vector<Tensor>& got, const std::vector<Tensor>& want) {
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      if (std::memcmp(got[i].data(), want[i].data(), want[i].nbytes()) != 0) expect_same_bits(got[i], want[i]);
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
    expect_near(here(rms_norm(there(x), there(weight))), rms_norm(x, weight), 2 * tolerance);
    expect_near(here(rms_norm(there(x))), rms_norm(x), tolerance);
    const bool is_double = x.dtype() == DType::kF64;
    const Tensor rstd = rand({x.size(0)}, {.dtype = is_double ? DType::kF64 : DType::kF32});
    const NormGradients want = rms_norm_backward(grad, x, weight, rstd);
    const NormGradients got = rms_norm_backward(there(grad), there(x), there(weight), there(rstd));
    expect_near(here(got.x), want.x, 10 * tolerance);
    expect_near(here(got.weight), want.weight, 10 * tolerance);
  });
}

TEST_F(RowsOnCuda, LayerNormAndItsGradients) {
  for_lengths([&](const Tensor& x, const Tensor& grad, const Tensor& weight, double tolerance) {
    const Tensor bias = randn({x.size(1)}, {.dtype = x.dtype()});
    expect_near(here(layer_norm(there(x), there(weight), there(bias))), layer_norm(x, weight, bias), 4 * tolerance);
    expect_near(here(layer_norm(there(x))), layer_norm(x), 4 * tolerance);
    const bool is_double = x.dtype() == DType::kF64;
    const Tensor mean = rand({x.size(0)}, {.dtype = is_double ? DType::kF64 : DType::kF32});
    const Tensor rstd = rand({x.size(0)}, {.dtype = is_double ? DType::kF64 : DType::kF32});
    const NormGradients want = layer_norm_backward(grad, x, weight, mean, rstd);
    const NormGradients got = layer_norm_backward(there(grad), there(x), there(weight), there(mean), there(rstd));
    expect_near(here(got.x), want.x, 20 * tolerance);
    expect_near(here(got.weight), want.weight, 20 * tolerance);
    expect_near(here(got.bias), want.bias, 20 * tolerance);
  });
}

// Blocks take several rows each; sums over rows are those of many blocks.
TEST_F(RowsOnCuda, NormsOfManyRows) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const std::int64_t n : {8, 96, 768, 1032, 4096, 8192}) {
      SCOPED_TRACE(tessera::detail::concat(dtype, " rows of ", n));
      const std::int64_t rows = n > 1000 ? 1501 : 5003;
      const Tensor x = randn({rows, n}, {.dtype = dtype});
      const Tensor grad = randn({rows, n}, {.dtype = dtype});
      const Tensor weight = randn({n}, {.dtype = dtype});
      const Tensor mean = rand({rows});
      const Tensor rstd = rand({rows});
      const NormGradients want = layer_norm_backward(grad, x, weight, mean, rstd);
      const NormGradients got = layer_norm_backward(there(grad), there(x), there(weight), there(mean), there(rstd));
      const double tolerance = 20 * tolerance_of(dtype);
      expect_near(here(got.x), want.x, tolerance);
      expect_near(here(got.weight), want.weight, tolerance);
      expect_near(here(got.bias), want.bias, tolerance);
      const NormGradients plain = rms_norm_backward(there(grad), there(x), {}, there(rstd));
      const NormGradients plain_want = rms_norm_backward(grad, x, {}, rstd);
      expect_near(here(plain.x), plain_want.x, tolerance);
      expect_near(here(plain.weight), plain_want.weight, tolerance);
      if (HasFatalFailure()) return;
    }
  }
}

// Rows of vectors whose dimensions cannot be merged, such as the heads of a part of a merged projection.
TEST_F(RowsOnCuda, RowsOfSlices) {
  for (const DType dtype : kFloats) {
    SCOPED_TRACE(tessera::detail::concat(dtype));
    const Tensor packed = randn({3, 50, 5, 192}, {.dtype = dtype});
    const auto part = [](const Tensor& x) { return slice(slice(x, 3, 64, 128), 2, 1, 4); };
    const Tensor x = part(packed);
    const Tensor on_device = part(there(packed));
    const Tensor weight = randn({64}, {.dtype = dtype});
    const double tolerance = 10 * tolerance_of(dtype);
    expect_near(here(softmax(on_device, 3)), softmax(x, 3), tolerance);
    expect_near(here(layer_norm(on_device, there(weight))), layer_norm(x, weight), tolerance);
    const Tensor rstd = rand({3, 50, 3}, {.dtype = dtype == DType::kF64 ? DType::kF64 : DType::kF32});
    const NormGradients want = rms_norm_backward(x, x, weight, rstd);
    const NormGradients got = rms_norm_backward(on_device, on_device, there(weight), there(rstd));
    expect_near(here(got.x), want.x, tolerance);
    expect_near(here(got.weight), want.weight, 10 * tolerance);
  }
}

TEST_F(RowsOnCuda, EqualRunsGiveEqualBitsEagerAndReplayed) {
  const Tensor rstd = there(rand({2000}));
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF64}) {
    for (const std::int64_t n : {96, 1000}) {
      const Tensor x = there(randn({2000, n}, {.dtype = dtype}));
      const Tensor grad = there(randn({2000, n}, {.dtype = dtype}));
      const Tensor weight = there(randn({n}, {.dtype = dtype}));
      expect_equal_runs([&]() -> std::vector<Tensor> {
        const NormGradients layer = layer_norm_backward(grad, x, weight, rstd, rstd);
        const NormGradients rms = rms_norm_backward(grad, x, weight, rstd);
        const SwigluGradients gates = swiglu_backward(grad, x, x);
        const Tensor y = softmax(x, 1);
        return {layer_norm(x, weight),
                rms_norm(x, weight),
                layer.x,
                layer.weight,
                layer.bias,
                rms.x,
                rms.weight,
                swiglu(x, grad),
                gates.a,
                gates.b,
                rope(x),
                y,
                softmax_backward(grad, y, 1),
                log_softmax(x, 1)};
      });
      if (HasFatalFailure()) return;
    }
  }
}

TEST_F(RowsOnCuda, RowsAlongAnyDimension) {
  const Tensor x = randn({5, 40, 6});
  for (const std::int64_t dim : {0, 1, 2}) expect_near(here(softmax(there(x), dim)), softmax(x, dim), 1e-5);
  for (const Shape& shape : {Shape{3000, 3}, Shape{200, 333}, Shape{7, 100, 65}, Shape{2, 70'000}}) {
    const Tensor rows = randn(shape);
    const Tensor y = softmax(rows, 0);
    expect_near(here(softmax(there(rows), 0)), y, 1e-5);
    expect_near(here(softmax_backward(there(rows), there(y), 0)), softmax_backward(rows, y, 0), 2e-5);
    expect_near(here(log_softmax(there(rows), -2)), log_softmax(rows, -2), 2e-5);
  }
  const Tensor padded = randn({9, 33});  // rows start at unaligned addresses
  expect_near(here(softmax(slice(there(padded), 1, 1), 1)), softmax(slice(padded, 1, 1), 1), 1e-5);
}

TEST_F(RowsOnCuda, NormsOfStridedRows) {
  for (const DType dtype : kFloats) {
    const Tensor wide = randn({40, 3, 96}, {.dtype = dtype});
    const Tensor weight = randn({64}, {.dtype = dtype});
    const auto middle = [](const Tensor& x) { return slice(x, 2, 16, 80); };    // rows of vectors with gaps
    const auto unaligned = [](const Tensor& x) { return slice(x, 2, 3, 67); };  // no vectors
    const auto turned = [](const Tensor& x) { return permute(slice(x, 0, 0, 64 / 2), {1, 2, 0}); };
    const double tolerance = 8 * tolerance_of(dtype);
    expect_near(here(layer_norm(middle(there(wide)), there(weight))), layer_norm(middle(wide), weight), tolerance);
    expect_near(here(rms_norm(unaligned(there(wide)), there(weight))), rms_norm(unaligned(wide), weight), tolerance);
    expect_near(here(layer_norm(turned(there(wide)))), layer_norm(turned(wide)), tolerance);
    const Tensor rstd = rand({40, 3}, {.dtype = dtype == DType::kF64 ? DType::kF64 : DType::kF32});
    const NormGradients want = rms_norm_backward(middle(wide), unaligned(wide), weight, rstd);
    const NormGradients got =
        rms_norm_backward(middle(there(wide)), unaligned(there(wide)), there(weight), there(rstd));
    expect_near(here(got.x), want.x, tolerance);
    expect_near(here(got.weight), want.weight, 2 * tolerance);
    const NormGradients dense = rms_norm_backward(middle(there(wide)), middle(there(wide)), there(weight), there(rstd));
    expect_near(here(dense.weight), rms_norm_backward(middle(wide), middle(wide), weight, rstd).weight, 2 * tolerance);
  }
}

TEST_F(RowsOnCuda, RowsOfMinusInfinityLeaveOutWhatIsMasked) {
  for (const std::int64_t n : {40, 5000, 20'000}) {
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

TEST_F(RowsOnCuda, RopeRotatesAsOnTheHost) {
  layout::IndexMap blocks;  // positions 4 to 7, 12 to 15 and so on
  blocks.offset = 4;
  blocks.block = 4;
  blocks.levels.push_back({50, 8});
  RopeAttributes sharded{.offset = 3};
  sharded.index = {blocks};
  const RopeAttributes all[] = {{},
                                {.is_interleaved = true},
                                {.is_inverse = true, .offset = 100'000},
                                {.width = 32, .base = 500000, .factor = 8, .original_context = 64},
                                {.width = 6, .is_interleaved = true, .is_inverse = true},
                                {.width = 0, .factor = 2},
                                sharded};
  for (const DType dtype : kFloats) {
    for (const std::int64_t width : {6, 24, 64, 72, 128, 800}) {
      const Tensor x = randn({2, 3, 200, width}, {.dtype = dtype});
      for (RopeAttributes how : all) {
        if (how.width > width) continue;
        SCOPED_TRACE(tessera::detail::concat(dtype, " vectors of ", width, ", ", how.width, " rotated"));
        expect_near(here(rope(there(x), how)), rope(x, how), tolerance_of(dtype));
        const Tensor heads = permute(x, {0, 2, 1, 3});
        how.dim = 1;
        expect_near(here(rope(permute(there(x), {0, 2, 1, 3}), how)), rope(heads, how), tolerance_of(dtype));
        expect_near(here(rope(slice(there(heads), 3, 0, width / 2 * 2), how)), rope(heads, how), tolerance_of(dtype));
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_F(RowsOnCuda, RopeTakesPositionsAndStrides) {
  testing::Random random(5);
  const Tensor packed = randn({3, 50, 2, 192}, {.dtype = DType::kBF16});  // queries, keys and values of a row
  const auto keys = [](const Tensor& x) { return slice(x, 3, 64, 128); };
  for (const DType dtype : {DType::kI64, DType::kI32}) {
    const Tensor batched = testing::to_tensor(testing::integers(random, {3, 50}, 0, 5000).value, dtype);
    const Tensor list = testing::to_tensor(testing::integers(random, {50}, 0, 5000).value, dtype);
    for (const Tensor& positions : {batched, list}) {
      expect_near(here(rope(keys(there(packed)), {.dim = 1}, there(positions))),
                  rope(keys(packed), {.dim = 1}, positions), 1.0 / 64);
    }
    const auto turned = [](const Tensor& x) { return transpose(x, 0, 1); };
    expect_near(
        here(rope(turned(there(packed)), {.dim = 1}, turned(there(batched).as_strided({3, 50}, Strides({50, 1}), 0)))),
        rope(turned(packed), {.dim = 1}, turned(batched)), 1.0 / 64);
  }
}

TEST_F(RowsOnCuda, SwigluAndItsGradients) {
  const Shape shapes[] = {{1}, {7}, {100'003}, {64, 4096}, {33, 1000}, {3, 5, 7}};
  for (const DType dtype : kFloats) {
    for (const Shape& shape : shapes) {
      SCOPED_TRACE(tessera::detail::concat(dtype, " ", shape));
      const double tolerance = 4 * tolerance_of(dtype);
      const Tensor a = mul(randn(shape, {.dtype = dtype}), 4);
      const Tensor b = randn(shape, {.dtype = dtype});
      const Tensor grad = randn(shape, {.dtype = dtype});
      expect_near(here(swiglu(there(a), there(b))), swiglu(a, b), tolerance);
      const SwigluGradients want = swiglu_backward(grad, a, b);
      const SwigluGradients got = swiglu_backward(there(grad), there(a), there(b));
      expect_near(here(got.a), want.a, tolerance);
      expect_near(here(got.b), want.b, tolerance);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_F(RowsOnCuda, SwigluOfMergedRowsBroadcastAndMixed) {
  const Tensor merged = randn({50, 2048}, {.dtype = DType::kBF16});
  const auto gate = [](const Tensor& x) { return slice(x, 1, 0, 1024); };
  const auto up = [](const Tensor& x) { return slice(x, 1, 1024); };
  expect_near(here(swiglu(gate(there(merged)), up(there(merged)))), swiglu(gate(merged), up(merged)), 1.0 / 32);
  const Tensor grad = randn({50, 1024}, {.dtype = DType::kBF16});
  const SwigluGradients got = swiglu_backward(there(grad), gate(there(merged)), up(there(merged)));
  const SwigluGradients want = swiglu_backward(grad, gate(merged), up(merged));
  expect_near(here(got.a), want.a, 1.0 / 16);
  expect_near(here(got.b), want.b, 1.0 / 16);
  const Tensor row = randn({1024});
  expect_near(here(swiglu(gate(there(merged)), there(row))), swiglu(gate(merged), row), 1e-5);
  const Tensor turned = transpose(randn({1024, 50}), 0, 1);
  expect_near(here(swiglu(there(turned), there(row))), swiglu(turned, row), 1e-5);
}

TEST_F(RowsOnCuda, SwigluOfInfinitiesAndNans) {
  testing::Array values(Shape({8}), {-INFINITY, INFINITY, NAN, -1e30, 1e30, 0, -100, 100});
  for (const DType dtype : {DType::kF32, DType::kF64}) {
    const Tensor a = testing::to_tensor(values, dtype);
    const Tensor ones = testing::to_tensor(testing::Array(Shape({8}), 1), dtype);
    const auto expect_alike = [](const Tensor& got, const Tensor& want) {
      const testing::Array x = testing::to_array(got);
      const testing::Array y = testing::to_array(want);
      for (std::size_t i = 0; i < y.values.size(); ++i) {
        if (std::isfinite(y.values[i])) {
          EXPECT_NEAR(x.values[i], y.values[i], 1e-5 * std::max(1.0, std::abs(y.values[i]))) << i;
        } else {
          EXPECT_TRUE(std::isnan(y.values[i]) ? std::isnan(x.values[i]) : x.values[i] == y.values[i]) << i;
        }
      }
    };
    expect_alike(here(swiglu(there(a), there(ones))), swiglu(a, ones));
    const SwigluGradients got = swiglu_backward(there(ones), there(a), there(ones));
    const SwigluGradients want = swiglu_backward(ones, a, ones);
    expect_alike(here(got.a), want.a);
    expect_alike(here(got.b), want.b);
  }
}

}  // namespace
}  // namespace tessera::ops
