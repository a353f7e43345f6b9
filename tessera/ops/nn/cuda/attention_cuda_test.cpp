// Tests attention on a GPU against the host: several tiles and fractions of one, all masks, widths and dtypes, by the
// kernels of Tessera and by cuDNN.
#include <gmock/gmock.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "tessera/ops/create/random.h"
#include "tessera/ops/nn/attention.h"
#include "tessera/ops/nn/cuda/attention_backend.h"
#include "tessera/ops/nn/paged_attention.h"
#include "tessera/ops/shape/shape.h"
#include "tessera/ops/testing/on_cuda.h"

namespace tessera::ops {
namespace {

using testing::expect_near;
using testing::expect_same_bits;

constexpr DType kDTypes[] = {DType::kF32, DType::kF64, DType::kBF16, DType::kF16};

struct Widths {
  std::int64_t d, e;
};

struct Mask {
  std::string name;
  AttentionBias bias;
  std::int64_t batch = 2, queries = 150, keys = 200;
  bool is_packed = false;
};

const std::vector<Mask>& masks() {
  static const std::vector<Mask> all = {
      {.name = "none", .bias = {}},
      {.name = "causal", .bias = {.is_causal = true}},
      {.name = "bottom right", .bias = {.is_causal = true, .is_bottom_right = true}},
      {.name = "queries without keys", .bias = {.is_causal = true, .is_bottom_right = true}, .keys = 70},
      {.name = "windows", .bias = {.window_left = 30, .window_right = 9, .scale = 0.2}},
      {.name = "packed", .bias = {.is_causal = true}, .batch = 1, .is_packed = true},
      {.name = "packed windows",
       .bias = {.is_causal = true, .is_bottom_right = true, .window_left = 40},
       .batch = 1,
       .is_packed = true},
  };
  return all;
}

Tensor list(const Shape& shape, const std::vector<double>& values) {
  return testing::to_tensor(testing::Array(shape, values), DType::kI64);
}

// The operands of a call and its gradient. Heads are views of [batch, sequence, heads, width].
struct Operands {
  Tensor q = {}, k = {}, v = {}, grad = {}, grad_logsumexp = {};
  SequenceOffsets offsets = {};
  AttentionBias bias = {};

  [[nodiscard]] AttentionResult forward() const { return attention_with_logsumexp(q, k, v, bias, offsets); }
  [[nodiscard]] AttentionGradients backward(const AttentionResult& of) const {
    return scaled_dot_product_attention_backward({grad, grad_logsumexp}, q, k, v, of, bias, offsets);
  }
};

Operands draw(const Mask& mask, Widths widths, DType dtype) {
  const auto heads = [&](std::int64_t sequence, std::int64_t count, std::int64_t width) {
    return transpose(randn({mask.batch, sequence, count, width}, {.dtype = dtype}), 1, 2);
  };
  Operands of{.q = heads(mask.queries, 4, widths.d),
              .k = heads(mask.keys, 2, widths.d),
              .v = heads(mask.keys, 2, widths.e),
              .grad = heads(mask.queries, 4, widths.e),
              .grad_logsumexp =
                  randn({mask.batch, 4, mask.queries}, {.dtype = dtype == DType::kF64 ? DType::kF64 : DType::kF32}),
              .bias = mask.bias};
  if (mask.is_packed) of.offsets = {list({5}, {0, 60, 60, 61, 150}), list({5}, {0, 64, 70, 70, 200})};
  return of;
}

double tolerance_of(DType dtype) {
  return dtype == DType::kF64 ? 1e-11 : dtype == DType::kF32 ? 2e-5 : dtype == DType::kBF16 ? 1.0 / 32 : 1.0 / 256;
}

class AttentionOnCuda : public testing::OnCuda {
 protected:
  void SetUp() override {
    OnCuda::SetUp();
    set_attention_options({.backend = AttentionBackend::kTiled});
  }
  void TearDown() override { set_attention_options(before_); }

  // Returns the same operands on the GPU, with their memory order.
  [[nodiscard]] Operands there_of(const Operands& from) const {
    const auto heads = [&](const Tensor& x) { return transpose(there(contiguous(transpose(x, 1, 2))), 1, 2); };
    Operands of{.q = heads(from.q),
                .k = heads(from.k),
                .v = heads(from.v),
                .grad = heads(from.grad),
                .grad_logsumexp = from.grad_logsumexp ? there(from.grad_logsumexp) : Tensor(),
                .bias = from.bias};
    if (from.offsets.q) of.offsets = {there(from.offsets.q), there(from.offsets.k)};
    return of;
  }

  // Expects the bits of eager runs in 20 runs and in replays.
  void expect_same_bits_always(const Operands& of) const {
    const AttentionResult result = of.forward();
    const AttentionGradients gradients = of.backward(result);
    const auto all = [&](const AttentionResult& a, const AttentionGradients& b) {
      return std::vector<Tensor>{here(a.out), here(a.logsumexp), here(b.q), here(b.k), here(b.v)};
    };
    const std::vector<Tensor> want = all(result, gradients);
    const auto expect_same = [&](const AttentionResult& a, const AttentionGradients& b) {
      const std::vector<Tensor> got = all(a, b);
      for (std::size_t i = 0; i < want.size(); ++i) expect_same_bits(contiguous(got[i]), contiguous(want[i]));
    };
    for (int run = 0; run < 20 && !HasFatalFailure(); ++run) {
      const AttentionResult again = of.forward();
      expect_same(again, of.backward(again));
    }
    AttentionResult replayed;
    AttentionGradients replayed_gradients;
    const memory::CapturedGraph graph = captured([&] {
      replayed = of.forward();
      replayed_gradients = of.backward(replayed);
    });
    for (int replay = 0; replay < 2; ++replay) {
      graph.replay(stream());
      expect_same(replayed, replayed_gradients);
    }
  }

  void expect_as_on_host(const Operands& host, double tolerance) const {
    const Operands gpu = there_of(host);
    const AttentionResult want = host.forward();
    const AttentionResult got = gpu.forward();
    expect_near(here(got.out), want.out, tolerance);
    expect_near(here(got.logsumexp), want.logsumexp, tolerance);
    const AttentionGradients gradients = host.backward(want);
    const AttentionGradients found = gpu.backward({there(want.out), there(want.logsumexp)});
    expect_near(here(found.q), gradients.q, 4 * tolerance);  // sums over the width, such as 256
    expect_near(here(found.k), gradients.k, 4 * tolerance);
    expect_near(here(found.v), gradients.v, 4 * tolerance);
  }

 private:
  AttentionOptions before_ = attention_options();
};

TEST_F(AttentionOnCuda, EveryMaskGivesTheResultOfTheHost) {
  for (const DType dtype : kDTypes) {
    for (const Mask& mask : masks()) {
      SCOPED_TRACE(tessera::detail::concat(dtype, " ", mask.name));
      expect_as_on_host(draw(mask, {64, 64}, dtype), tolerance_of(dtype));
      if (HasFatalFailure()) return;
    }
  }
}

TEST_F(AttentionOnCuda, EveryWidthGivesTheResultOfTheHost) {
  for (const DType dtype : kDTypes) {
    for (const Widths widths : {Widths{8, 16}, {20, 12}, {80, 128}, {128, 128}, {192, 128}, {256, 256}, {300, 70}}) {
      for (const Mask* mask : {&masks()[1], &masks()[4], &masks()[6]}) {
        SCOPED_TRACE(tessera::detail::concat(dtype, " widths ", widths.d, " and ", widths.e, ", ", mask->name));
        expect_as_on_host(draw(*mask, widths, dtype), tolerance_of(dtype));
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_F(AttentionOnCuda, SmallAndEmptySequences) {
  for (const DType dtype : kDTypes) {
    for (const auto& [queries, keys] : {std::pair{1, 1}, {1, 500}, {64, 64}, {65, 63}, {5, 0}, {0, 5}}) {
      SCOPED_TRACE(tessera::detail::concat(dtype, " ", queries, " queries, ", keys, " keys"));
      expect_as_on_host(draw({.name = "", .bias = {}, .queries = queries, .keys = keys}, {64, 64}, dtype),
                        tolerance_of(dtype));
      if (HasFatalFailure()) return;
    }
  }
}

TEST_F(AttentionOnCuda, OperandsWithGapsGiveTheResultOfTheHost) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    Operands of = draw(masks()[1], {64, 64}, dtype);
    of.grad_logsumexp = {};
    const AttentionResult want = of.forward();
    // One buffer of q, k and v, whose rows are not aligned to words.
    const auto gaps = [&](const Tensor& x) {
      const Tensor wide = randn({x.size(0), x.size(1), x.size(2), 67}, {.dtype = dtype});
      const Tensor at = narrow(there(wide), 3, 1, 64);
      copy_(at, there(x));
      return at;
    };
    const Operands gpu{.q = gaps(of.q), .k = gaps(of.k), .v = gaps(of.v), .grad = gaps(of.grad), .bias = of.bias};
    const AttentionResult got = gpu.forward();
    expect_near(here(got.out), want.out, tolerance_of(dtype));
    const AttentionGradients gradients = of.backward(want);
    const AttentionGradients found = gpu.backward({there(want.out), there(want.logsumexp)});
    expect_near(here(found.q), gradients.q, tolerance_of(dtype));
    expect_near(here(found.k), gradients.k, 4 * tolerance_of(dtype));
    expect_near(here(found.v), gradients.v, 4 * tolerance_of(dtype));
  }
}

TEST_F(AttentionOnCuda, TwentyRunsAndReplaysGiveTheSameBits) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const Mask* mask : {&masks()[1], &masks()[5]}) {
      SCOPED_TRACE(tessera::detail::concat(dtype, " ", mask->name));
      expect_same_bits_always(there_of(draw(*mask, {64, 64}, dtype)));
    }
  }
}

TEST_F(AttentionOnCuda, InvalidOffsetsGiveNan) {
  Operands of = draw(masks()[5], {64, 64}, DType::kBF16);
  for (const std::vector<double>& keys :
       {std::vector<double>{0, 64, 70, 70, 300}, {0, 64, 30, 20, 200}, {0, -1, 70, 70, 200}}) {
    of.offsets.k = list({5}, keys);
    const testing::Array got = testing::to_array(here(there_of(of).forward().out));
    EXPECT_TRUE(std::isnan(got.values.front()) || std::isnan(got.values[60 * 64])) << keys[1];
  }
}

// Pages of sequences with the lengths `starts`; the contents of other pages are nan.
struct Pages {
  Tensor q, keys, values, tables, starts;
};

Pages draw_pages(DType dtype, std::int64_t heads, std::int64_t kv_heads, std::int64_t tokens, Widths widths) {
  constexpr std::int64_t kColumns = 40;
  constexpr std::int64_t kPage = 16;
  std::vector<double> tables;
  for (std::int64_t i = 0; i < 2 * kColumns; ++i) tables.push_back(static_cast<double>(i * 37 % (2 * kColumns)));
  return {.q = transpose(randn({2, tokens, heads, widths.d}, {.dtype = dtype}), 1, 2),
          .keys = randn({2 * kColumns, kv_heads, kPage, widths.d}, {.dtype = dtype}),
          .values = randn({2 * kColumns, kv_heads, kPage, widths.e}, {.dtype = dtype}),
          .tables = list({2, kColumns}, tables),
          .starts = list({2}, {580, 3})};
}

TEST_F(AttentionOnCuda, PagesGiveTheResultOfTheHost) {
  for (const DType dtype : kDTypes) {
    for (const auto& [heads, tokens] : {std::pair{4, 1}, {2, 1}, {16, 3}, {4, 50}}) {
      for (const Widths widths : {Widths{64, 64}, {128, 128}, {20, 12}}) {
        for (const std::int64_t window : {-1, 33}) {
          SCOPED_TRACE(tessera::detail::concat(dtype, " ", heads, " heads, ", tokens, " tokens, width ", widths.d));
          const Pages of = draw_pages(dtype, heads, 2, tokens, widths);
          const Tensor want = paged_attention(of.q, of.keys, of.values, of.tables, of.starts, {.window_left = window});
          const Tensor got = paged_attention(there(of.q), there(of.keys), there(of.values), there(of.tables),
                                             there(of.starts), {.window_left = window});
          expect_near(here(got), want, tolerance_of(dtype));
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST_F(AttentionOnCuda, PagesThatDoNotExistGiveNan) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const Pages of = draw_pages(dtype, 4, 2, 1, {64, 64});
    const auto is_nan = [&](const Tensor& tables, const Tensor& starts) {
      const Tensor got = paged_attention(there(of.q), there(of.keys), there(of.values), there(tables), there(starts));
      return std::isnan(testing::to_array(here(got)).values.front());
    };
    EXPECT_FALSE(is_nan(of.tables, of.starts));
    EXPECT_TRUE(is_nan(of.tables, list({2}, {-1, 3}))) << "negative length";
    EXPECT_TRUE(is_nan(of.tables, list({2}, {640, 3}))) << "beyond the table";
    EXPECT_TRUE(is_nan(list({2, 40}, std::vector<double>(80, 80)), of.starts)) << "beyond the pages";
  }
}

class CudnnAttentionOnCuda : public AttentionOnCuda {
 protected:
  void SetUp() override {
    AttentionOnCuda::SetUp();
    if (IsSkipped()) return;
    if (const std::string_view why = cuda::why_no_cudnn(); !why.empty()) GTEST_SKIP() << why;
    set_attention_options({.backend = AttentionBackend::kCudnn});
  }
};

// Returns operands without packed sequences or a gradient of logsumexp, which cuDNN does not have.
Operands draw_for_cudnn(const AttentionBias& bias, Widths widths, DType dtype) {
  Operands of = draw({.name = "", .bias = bias}, widths, dtype);
  of.grad_logsumexp = {};
  return of;
}

TEST_F(CudnnAttentionOnCuda, GivesTheResultOfTheHost) {
  const AttentionBias biases[] = {{},
                                  {.is_causal = true},
                                  {.is_causal = true, .is_bottom_right = true},
                                  {.is_causal = true, .window_left = 30, .scale = 0.2}};
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    for (const Widths widths : {Widths{64, 64}, {128, 128}, {80, 80}, {192, 128}, {256, 256}}) {
      for (const AttentionBias& bias : biases) {
        SCOPED_TRACE(tessera::detail::concat(dtype, " widths ", widths.d, " and ", widths.e, " causal ", bias.is_causal,
                                             " window ", bias.window_left));
        expect_as_on_host(draw_for_cudnn(bias, widths, dtype), tolerance_of(dtype));
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_F(CudnnAttentionOnCuda, DeterministicRunsAndReplaysGiveTheSameBits) {
  set_attention_options({.backend = AttentionBackend::kCudnn, .is_deterministic = true});
  expect_same_bits_always(there_of(draw_for_cudnn({.is_causal = true}, {64, 64}, DType::kBF16)));
}

TEST_F(CudnnAttentionOnCuda, LabelsNameTheBackend) {
  const Operands of = there_of(draw_for_cudnn({.is_causal = true}, {64, 64}, DType::kBF16));
  const auto labels = [&] {
    (void)of.forward();
    const memory::CapturedGraph graph = captured([&] { (void)of.forward(); });
    std::string all;
    for (const device::NodeInfo& node : graph.graph().nodes()) all += node.label + ",";
    return all;
  };
  EXPECT_THAT(labels(), ::testing::HasSubstr("scaled_dot_product_attention (cudnn)"));
  set_attention_options({.backend = AttentionBackend::kTiled});
  EXPECT_THAT(labels(), ::testing::Not(::testing::HasSubstr("cudnn")));
}

TEST_F(CudnnAttentionOnCuda, ACaptureNeedsAnEarlierCall) {
  Mask mask = masks()[1];
  mask.queries = mask.keys = 72;  // sizes of no other test
  const Operands of = there_of(draw(mask, {64, 64}, DType::kBF16));
  memory::GraphCapture capture(memory::Allocator::of(gpu_), stream());
  EXPECT_THAT([&] { (void)of.forward(); },
              ::testing::ThrowsMessage<NotSupported>(::testing::HasSubstr("make the same call once before it")));
}

TEST_F(CudnnAttentionOnCuda, ACallThatItCannotComputeIsAnError) {
  const Operands of = there_of(draw(masks()[1], {20, 20}, DType::kBF16));
  EXPECT_THAT([&] { (void)of.forward(); },
              ::testing::ThrowsMessage<NotSupported>(::testing::HasSubstr("multiples of 8 up to 256")));
  set_attention_options({});
  (void)of.forward();
}

}  // namespace
}  // namespace tessera::ops
