// Tests cross_entropy and linear_cross_entropy on a GPU: many classes, all reductions, shards of the classes, several
// chunks of rows, targets out of range.
#include "tessera/layout/arithmetic.h"
#include "tessera/ops/create/create.h"
#include "tessera/ops/create/random.h"
#include "tessera/ops/nn/cross_entropy.h"
#include "tessera/ops/pointwise/pointwise.h"
#include "tessera/ops/shape/arrange.h"
#include "tessera/ops/shape/shape.h"
#include "tessera/ops/testing/on_cuda.h"
#include "tessera/tensor/call.h"

namespace tessera::ops {
namespace {

using testing::expect_near;
using testing::expect_same_bits;

constexpr DType kFloats[] = {DType::kF32, DType::kF64, DType::kBF16, DType::kF16};

double tolerance_of(DType dtype) {
  switch (dtype) {
    case DType::kF64: return 1e-11;
    case DType::kBF16: return 1.0 / 64;
    case DType::kF16: return 1.0 / 256;
    default: return 2e-5;
  }
}

// Targets of `rows` rows; every seventh row is ignored.
Tensor some_targets(std::int64_t rows, std::int64_t classes, DType dtype = DType::kI64, std::int64_t ignored = -100) {
  testing::Random random(11);
  testing::Array values = testing::integers(random, {rows}, 0, classes).value;
  for (std::size_t i = 3; i < values.values.size(); i += 7) values.values[i] = static_cast<double>(ignored);
  return testing::to_tensor(values, dtype);
}

class LossOnCuda : public testing::OnCuda {
 protected:
  void expect_loss(const Tensor& logits, const Tensor& targets, const CrossEntropyAttributes& how) {
    const double tolerance = tolerance_of(logits.dtype());
    const double of_sums = logits.dtype() == DType::kF64 ? 1e-11 : 1e-4;  // f32, whatever the logits
    const CrossEntropyResult want = cross_entropy_with_logsumexp(logits, targets, how);
    const CrossEntropyResult got = cross_entropy_with_logsumexp(there(logits), there(targets), how);
    expect_near(here(got.loss), want.loss, of_sums);
    expect_near(here(got.logsumexp), want.logsumexp, of_sums);
    const bool is_none = how.reduction == "none";
    const CrossEntropyResult grad = {randn(want.loss.shape(), {.dtype = want.loss.dtype()}),
                                     is_none ? randn(targets.shape(), {.dtype = want.loss.dtype()}) : Tensor()};
    const CrossEntropyResult grad_there = {there(grad.loss), is_none ? there(grad.logsumexp) : Tensor()};
    expect_near(here(cross_entropy_backward(grad_there, there(logits), there(targets), there(want.logsumexp), how)),
                cross_entropy_backward(grad, logits, targets, want.logsumexp, how), tolerance);
  }
};

const CrossEntropyAttributes kHow[] = {{},
                                       {.reduction = "sum"},
                                       {.reduction = "none"},
                                       {.label_smoothing = 0.1, .reduction = "mean"},
                                       {.ignore_index = 0, .label_smoothing = 0.25, .reduction = "none"},
                                       {.reduction = "mean", .count = 5}};

TEST_F(LossOnCuda, LossesAndGradientsOfRowsOfAnyLength) {
  for (const DType dtype : kFloats) {
    for (const std::int64_t classes : {1, 7, 33, 1000, 1024, 4099, 50'304, 131'072}) {
      const std::int64_t rows = classes > 5000 ? 5 : 67;
      for (const CrossEntropyAttributes& how : kHow) {
        SCOPED_TRACE(tessera::detail::concat(dtype, " ", classes, " classes, ", how.reduction));
        expect_loss(randn({rows, classes}, {.dtype = dtype}),
                    some_targets(rows, classes, DType::kI32, how.ignore_index), how);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_F(LossOnCuda, LogitsAndTargetsMayBeStrided) {
  const Tensor wide = randn({30, 2, 80});
  const Tensor logits = slice(wide, 2, 8, 72);
  const Tensor targets = testing::to_tensor(testing::Array(Shape({2, 30}), 5), DType::kI64);
  for (const auto& view : {slice(there(wide), 2, 8, 72), slice(there(contiguous(transpose(wide, 0, 2))), 0, 8, 72)}) {
    const Tensor x = view.size(0) == 30 ? view : transpose(view, 0, 2);
    expect_near(here(cross_entropy(x, transpose(there(targets), 0, 1))),
                cross_entropy(logits, transpose(targets, 0, 1)), 1e-5);
  }
}

// Rows of an odd length begin at every element of a vector.
TEST_F(LossOnCuda, RowsMayBeginAtAnyAddress) {
  for (const DType dtype : kFloats) {
    for (const std::int64_t classes : {3, 50, 257, 50'257}) {
      const std::int64_t rows = classes > 1000 ? 9 : 40;
      const Tensor all = randn({rows * classes + 1}, {.dtype = dtype});
      const auto view = [&](const Tensor& x) { return x.as_strided({rows, classes}, Strides({classes, 1}), 1); };
      for (const CrossEntropyAttributes& how : kHow) {
        const Tensor targets = some_targets(rows, classes, DType::kI64, how.ignore_index);
        SCOPED_TRACE(tessera::detail::concat(dtype, " ", classes, " classes, ", how.reduction));
        const CrossEntropyResult want = cross_entropy_with_logsumexp(view(all), targets, how);
        const CrossEntropyResult got = cross_entropy_with_logsumexp(view(there(all)), there(targets), how);
        expect_near(here(got.loss), want.loss, 1e-4);
        expect_near(here(got.logsumexp), want.logsumexp, 1e-4);
        expect_loss(contiguous(view(all)), targets, how);
        if (HasFatalFailure()) return;
      }
    }
  }
}

// The losses of all shards and the logsumexp over all classes add up to the loss.
TEST_F(LossOnCuda, ShardsOfTheClassesAddUp) {
  const std::int64_t classes = 96;
  const Tensor logits = randn({20, classes});
  const Tensor targets = some_targets(20, classes);
  for (const bool is_blocked : {false, true}) {
    for (const double smoothing : {0.0, 0.2}) {
      for (const std::int64_t rank : {0, 1}) {
        layout::IndexMap map;
        map.offset = rank * (is_blocked ? 8 : 48);
        map.block = is_blocked ? 8 : 48;
        if (is_blocked) map.levels.push_back({6, 16});
        std::vector<Tensor> columns;
        for (std::int64_t i = 0; i < 48; ++i) columns.push_back(slice(logits, 1, map.global(i), map.global(i) + 1));
        const Tensor part = cat(columns, 1);
        expect_loss(part, targets,
                    {.label_smoothing = smoothing, .reduction = "none", .classes = classes, .class_map = map});
      }
    }
  }
}

TEST_F(LossOnCuda, ATargetOutOfRangeGivesNan) {
  const Tensor logits = there(randn({4, 10}));
  for (const double bad : {10.0, -1.0}) {
    testing::Array values(Shape({4}), 3);
    values.values[2] = bad;
    const Tensor targets = there(testing::to_tensor(values, DType::kI64));
    const testing::Array losses = testing::to_array(here(cross_entropy(logits, targets, {.reduction = "none"})));
    EXPECT_TRUE(std::isnan(losses.values[2]));
    EXPECT_TRUE(std::isfinite(losses.values[1]));
    EXPECT_TRUE(std::isnan(testing::to_array(here(cross_entropy(logits, targets))).values[0]));
  }
}

TEST_F(LossOnCuda, TargetsAreCountedOnTheDevice) {
  for (const std::int64_t rows : {0, 1, 1023, 100'003}) {
    for (const DType dtype : {DType::kI64, DType::kI32}) {
      const Tensor targets = some_targets(rows, 50, dtype);
      for (const DType of : {DType::kF32, DType::kF64}) {
        expect_same_bits(here(count_targets(there(targets), -100, of)), count_targets(targets, -100, of));
      }
    }
  }
}

// The index of the last logit does not fit in 32 bits.
TEST_F(LossOnCuda, MoreThan2To31Logits) {
  const std::int64_t classes = 50'304;
  const std::int64_t rows = (std::int64_t{1} << 31) / classes + 5;
  const Tensor logits = zeros({rows, classes}, {.dtype = DType::kBF16, .device = gpu_});
  const Tensor last = randn({1, classes}, {.dtype = DType::kBF16});
  copy_(slice(logits, 0, rows - 1), last);
  const Tensor targets = there(testing::to_tensor(testing::Array(Shape({rows}), 17), DType::kI64));
  const Tensor target = testing::to_tensor(testing::Array(Shape({1}), 17), DType::kI64);
  const CrossEntropyAttributes how{.reduction = "none"};
  const CrossEntropyResult got = cross_entropy_with_logsumexp(logits, targets, how);
  const CrossEntropyResult want = cross_entropy_with_logsumexp(last, target, how);
  expect_near(here(slice(got.loss, 0, rows - 1)), want.loss, 1e-4);
  const Tensor dx = cross_entropy_backward({ones({rows}, {.device = gpu_}), {}}, logits, targets, got.logsumexp, how);
  expect_near(here(slice(dx, 0, rows - 1)), cross_entropy_backward({ones({1}), {}}, last, target, want.logsumexp, how),
              1.0 / 64);
}

struct Linear {
  Tensor x, weight, targets;
};

class LinearLossOnCuda : public testing::OnCuda {
 protected:
  static std::vector<Tensor> all_of(const Linear& of, const CrossEntropyAttributes& how) {
    const Tensor inputs[] = {of.x, of.weight, of.targets};
    std::vector<Tensor> outputs(3);
    Tensor forward[2];
    tensor::call_into({tensor::find_op("linear_cross_entropy"), inputs, how, forward});
    const LinearCrossEntropyGradients back =
        linear_cross_entropy_backward({ones_like(forward[0]), {}}, of.x, of.weight, of.targets, forward[1], how);
    std::vector<Tensor> all = {forward[0], forward[1], back.x, back.weight};
    if (how.reduction == "none") return all;
    tensor::call_into({tensor::find_op("linear_cross_entropy_with_gradients"), inputs, how, outputs});
    all.insert(all.end(), outputs.begin(), outputs.end());
    return all;
  }
  void expect_same(const Linear& on_host, const Linear& on_gpu, const CrossEntropyAttributes& how) {
    const std::vector<Tensor> want = all_of(on_host, how);
    const std::vector<Tensor> got = all_of(on_gpu, how);
    const DType dtype = on_host.x.dtype();
    for (std::size_t i = 0; i < want.size(); ++i) {
      SCOPED_TRACE(tessera::detail::concat("result ", i));
      // Sums over thousands of rows round differently.
      expect_near(here(got[i]), want[i], (itemsize(dtype) == 2 ? 2 : 8) * tolerance_of(dtype));
      if (HasFatalFailure()) return;
    }
  }
};

TEST_F(LinearLossOnCuda, ChunksOfRowsGiveWhatTheHostGives) {
  struct Sizes {
    std::int64_t rows, classes, features;
  };
  for (const DType dtype : kFloats) {
    // One row, odd sizes, and three chunks.
    for (const Sizes& sizes :
         {Sizes{1, 8, 8}, Sizes{130, 33, 5}, Sizes{0, 4, 3}, Sizes{20'000, 64, 32}, Sizes{1500, 40'000, 16}}) {
      if (sizes.classes > 1000 && dtype == DType::kF64) continue;
      const Linear of = {mul(randn({sizes.rows, sizes.features}, {.dtype = dtype}), 0.5),
                         mul(randn({sizes.classes, sizes.features}, {.dtype = dtype}), 0.5),
                         some_targets(sizes.rows, sizes.classes)};
      const Linear on_gpu = {there(of.x), there(of.weight), there(of.targets)};
      for (const char* reduction : {"sum", "mean", "none"}) {
        SCOPED_TRACE(tessera::detail::concat(dtype, " [", sizes.rows, ", ", sizes.classes, "] ", reduction));
        expect_same(of, on_gpu, {.label_smoothing = 0.1, .reduction = reduction});
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_F(LinearLossOnCuda, OperandsMayBeStrided) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const Tensor x = randn({24, 5, 40}, {.dtype = dtype});
    const Tensor weight = randn({40, 33}, {.dtype = dtype});
    const Tensor targets = testing::to_tensor(testing::Array(Shape({5, 24}), 5), DType::kI64);
    const Tensor narrow = slice(weight, 0, 0, 32);
    const Linear here_of = {slice(transpose(x, 0, 1), 2, 0, 32), transpose(narrow, 0, 1), targets};
    const Linear there_of = {slice(transpose(there(x), 0, 1), 2, 0, 32),
                             transpose(slice(there(weight), 0, 0, 32), 0, 1), there(targets)};
    expect_same(here_of, there_of, {.reduction = "sum"});
  }
}

TEST_F(LinearLossOnCuda, EqualRunsGiveEqualBitsEagerAndReplayed) {
  const Linear of = {there(randn({5000, 64}, {.dtype = DType::kBF16})),  // two chunks
                     there(randn({30'000, 64}, {.dtype = DType::kBF16})), there(some_targets(5000, 30'000))};
  const std::vector<Tensor> first = all_of(of, {});
  std::vector<Tensor> want;
  for (const Tensor& each : first) want.push_back(here(each));
  for (int run = 0; run < 20; ++run) {
    const std::vector<Tensor> again = all_of(of, {});
    for (std::size_t i = 0; i < want.size(); ++i) expect_same_bits(here(again[i]), want[i]);
  }
  std::vector<Tensor> kept;
  for (const Tensor& each : first) kept.push_back(empty_like(each));
  const memory::CapturedGraph graph = captured([&] {
    const std::vector<Tensor> all = all_of(of, {});
    for (std::size_t i = 0; i < all.size(); ++i) copy_(kept[i], all[i]);
  });
  for (const Tensor& each : kept) fill_(each, 7);
  graph.replay(stream());
  for (std::size_t i = 0; i < want.size(); ++i) expect_same_bits(here(kept[i]), want[i]);
}

}  // namespace
}  // namespace tessera::ops
