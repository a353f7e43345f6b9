// The suite host_train: operators between products, forward and backward, on two threads. Each row is a time. Its
// reference is a memcpy of as many bytes on as many threads, so that the ratio is the fraction of the copy rate that
// the operator reaches. bench/peers/host_train.py compares the same rows with PyTorch.
//
// A row such as host_gelu_fwd uses tensors of 64 MiB, larger than caches; host_gelu_fwd_cached uses tensors of 512 KiB,
// so that three of them fit into the second-level caches of two cores.
#include <cstring>
#include <vector>

#include "tessera/base/testing/bench.h"
#include "tessera/ops/create/create.h"
#include "tessera/ops/create/random.h"
#include "tessera/ops/nn/cross_entropy.h"
#include "tessera/ops/nn/norm.h"
#include "tessera/ops/nn/rope.h"
#include "tessera/ops/nn/softmax.h"
#include "tessera/ops/parallel.h"
#include "tessera/ops/pointwise/activations.h"
#include "tessera/ops/update/update.h"
#include "tessera/train/testing/host_suite.h"

namespace tessera::train {
namespace {

using testing::kHostThreads;
using testing::wants_or_lists;

// Sizes of the tensors of the rows.
struct Sizes {
  const char* suffix;
  std::int64_t rows, width;           // of row-wise operators
  std::int64_t batch, heads, length;  // of rope, with heads of 64
  std::int64_t tensors, elements;     // of adamw
  std::size_t calls;                  // per sample; 0: as many as take 200 us
};
constexpr Sizes kLarge = {"", 4096, 4096, 8, 32, 1024, 300, 33336, 0};
constexpr Sizes kCached = {"_cached", 256, 512, 1, 4, 512, 1, 65536, 64};
constexpr Sizes kBrief = {"", 32, 64, 1, 2, 16, 3, 256, 0};

Sizes sizes_of(const bench::Context& context, const Sizes& sizes) {
  if (!context.is_brief()) return sizes;
  Sizes brief = kBrief;
  brief.suffix = sizes.suffix;
  return brief;
}

// Copies on kHostThreads threads, one half each, repeated so that the start of the threads does not count.
class Copies {
 public:
  // Reads and writes `nbytes_moved` in total.
  explicit Copies(double nbytes_moved)
      : each_(static_cast<std::size_t>(nbytes_moved / 2 / kHostThreads)), from_(kHostThreads), to_(kHostThreads) {
    for (auto* side : {&from_, &to_}) {
      for (std::vector<std::byte>& half : *side) half.assign(each_, std::byte{1});
    }
  }
  // Returns the microseconds of one complete copy.
  double microseconds() {
    // bytes per sample: milliseconds, compared with tens of microseconds to join threads
    constexpr double kEnough = 64e6;
    const auto calls = std::max<std::int64_t>(1, static_cast<std::int64_t>(kEnough / static_cast<double>(each_)));
    const double nanoseconds = bench::run_together(kHostThreads, [&](int thread) {
      const auto half = static_cast<std::size_t>(thread);
      for (std::int64_t i = 0; i < calls; ++i) {
        std::memcpy(to_[half].data(), from_[half].data(), each_);
        bench::do_not_optimize(to_[half].data());
      }
    });
    return 1e-3 * nanoseconds / static_cast<double>(calls);
  }

 private:
  std::size_t each_;
  std::vector<std::vector<std::byte>> from_;
  std::vector<std::vector<std::byte>> to_;
};

// `moved`: floats that the operator must read and write in total. On cached tensors a sample has many calls, because
// the copy before it evicts the caches.
template <class F>
void measure_row(bench::Context& context, const std::string& name, const Sizes& sizes, std::int64_t moved,
                 const F& run) {
  Copies copies(4.0 * static_cast<double>(moved));
  context.measure({.name = name,
                   .unit = "us",
                   .ours = run,
                   .reference_name = "copy of as much",
                   .reference = [&]() -> double { return copies.microseconds(); },
                   .calls = sizes.calls});
}

// Rows that read one tensor and write another; in backward, read two and write a third.
template <class Forward, class Backward>
void measure_rows(bench::Context& context, const std::string& op, const Sizes& large, const Forward& forward,
                  const Backward& backward) {
  const Sizes sizes = sizes_of(context, large);
  const std::string name = "host_" + op;
  const bool wants_forward = wants_or_lists(context, name + "_fwd" + sizes.suffix);
  const bool wants_backward = wants_or_lists(context, name + "_bwd" + sizes.suffix);
  if (!wants_forward && !wants_backward) return;
  const Tensor x = ops::randn({sizes.rows, sizes.width});
  const Tensor grad = ops::randn({sizes.rows, sizes.width});
  if (wants_forward) measure_row(context, name + "_fwd" + sizes.suffix, sizes, 2 * x.numel(), [&] { forward(x); });
  if (wants_backward)
    measure_row(context, name + "_bwd" + sizes.suffix, sizes, 3 * x.numel(), [&] { backward(grad, x); });
}

void measure_activations(bench::Context& context, const Sizes& large) {
  measure_rows(
      context, "gelu", large, [](const Tensor& x) { ops::gelu(x); },
      [](const Tensor& grad, const Tensor& x) { ops::gelu_backward(grad, x); });
  measure_rows(
      context, "silu", large, [](const Tensor& x) { ops::silu(x); },
      [](const Tensor& grad, const Tensor& x) { ops::silu_backward(grad, x); });
  measure_rows(
      context, "softmax", large, [](const Tensor& x) { ops::softmax(x, 1); },
      [](const Tensor& grad, const Tensor& out) { ops::softmax_backward(grad, out, 1); });
}

void measure_norms(bench::Context& context, const Sizes& large) {
  const Sizes sizes = sizes_of(context, large);
  const Tensor weight = ops::randn({sizes.width});
  const Tensor bias = ops::randn({sizes.width});
  const Tensor mean = ops::zeros({sizes.rows});
  const Tensor rstd = ops::ones({sizes.rows});
  measure_rows(
      context, "layer_norm", large, [&](const Tensor& x) { ops::layer_norm(x, weight, bias); },
      [&](const Tensor& grad, const Tensor& x) { ops::layer_norm_backward(grad, x, weight, mean, rstd); });
  measure_rows(
      context, "rms_norm", large, [&](const Tensor& x) { ops::rms_norm(x, weight); },
      [&](const Tensor& grad, const Tensor& x) { ops::rms_norm_backward(grad, x, weight, rstd); });
}

void measure_cross_entropy(bench::Context& context, const Sizes& large) {
  const Sizes sizes = sizes_of(context, large);
  const std::string forward = std::string("host_cross_entropy_fwd") + sizes.suffix;
  const std::string backward = std::string("host_cross_entropy_bwd") + sizes.suffix;
  const bool wants_forward = wants_or_lists(context, forward);
  const bool wants_backward = wants_or_lists(context, backward);
  if (!wants_forward && !wants_backward) return;
  const Tensor logits = ops::randn({sizes.rows, sizes.width});
  const Tensor targets = ops::randint(0, sizes.width, {sizes.rows});
  const Tensor logsumexp = ops::cross_entropy_with_logsumexp(logits, targets).logsumexp;
  const ops::CrossEntropyResult grad = {.loss = ops::ones({})};
  if (wants_forward)
    measure_row(context, forward, sizes, logits.numel(), [&] { ops::cross_entropy_with_logsumexp(logits, targets); });
  if (wants_backward)
    measure_row(context, backward, sizes, 2 * logits.numel(),
                [&] { ops::cross_entropy_backward(grad, logits, targets, logsumexp); });
}

void measure_rope(bench::Context& context, const Sizes& large) {
  const Sizes sizes = sizes_of(context, large);
  for (const bool is_inverse : {false, true}) {
    const std::string name = std::string(is_inverse ? "host_rope_bwd" : "host_rope_fwd") + sizes.suffix;
    if (!wants_or_lists(context, name)) continue;
    const Tensor x = ops::randn({sizes.batch, sizes.heads, sizes.length, 64});
    const ops::RopeAttributes how = {.is_inverse = is_inverse};
    measure_row(context, name, sizes, 2 * x.numel(), [&] { ops::rope(x, how); });
  }
}

void measure_adamw(bench::Context& context, const Sizes& large) {
  const Sizes sizes = sizes_of(context, large);
  const std::string name = std::string("host_adamw") + sizes.suffix;
  if (!wants_or_lists(context, name)) return;
  const auto list = [&](bool is_random) {
    std::vector<Tensor> all;
    for (std::int64_t i = 0; i < sizes.tensors; ++i)
      all.push_back(is_random ? ops::randn({sizes.elements}) : ops::zeros({sizes.elements}));
    return all;
  };
  const std::vector<Tensor> params = list(true);
  const std::vector<Tensor> grads = list(true);
  const std::vector<Tensor> first = list(false);
  const std::vector<Tensor> second = list(false);
  const Tensor step = ops::zeros({}, {.dtype = DType::kI64});
  const ops::StepScalars scalars = {.learning_rate = ops::full({}, 1e-3)};
  measure_row(context, name, sizes, 7 * sizes.tensors * sizes.elements,
              [&] { ops::adamw_(params, grads, first, second, step, scalars); });
}

TESSERA_BENCH(host_rows) {
  context.describe_machine("threads", std::to_string(kHostThreads));
  ops::detail::set_thread_budget(kHostThreads);
  for (const Sizes& sizes : {kLarge, kCached}) {
    measure_activations(context, sizes);
    measure_norms(context, sizes);
    measure_cross_entropy(context, sizes);
    measure_rope(context, sizes);
    measure_adamw(context, sizes);
  }
}

}  // namespace
}  // namespace tessera::train
