// Compares memory-bound operators on a GPU with a device copy of equal size in the same run. Many calls are enqueued
// before each wait, so that the bench measures device time.
#include "tessera/base/testing/bench.h"
#include "tessera/memory/graph_capture.h"
#include "tessera/ops/create/create.h"
#include "tessera/ops/create/random.h"
#include "tessera/ops/index/index.h"
#include "tessera/ops/nn/cross_entropy.h"
#include "tessera/ops/nn/norm.h"
#include "tessera/ops/nn/rope.h"
#include "tessera/ops/nn/softmax.h"
#include "tessera/ops/pointwise/activations.h"
#include "tessera/ops/pointwise/convert.h"
#include "tessera/ops/update/update.h"
#include "tessera/tensor/device_context.h"

namespace tessera::ops {
namespace {

constexpr int kCalls = 50;

struct Setup {
  device::Device device = device::Device::get("cuda");
  device::Stream stream = tensor::current_stream(device);

  // Each call of `body` reads and writes `nbytes` in total; a copy of half as many bytes has the same traffic.
  template <class F>
  void measure(bench::Context& context, const std::string& name, std::size_t nbytes, double must_ratio,
               const F& body) const {
    if (!context.wants(name)) return;
    const auto half = static_cast<std::int64_t>(nbytes / 2);
    const Tensor to = empty({half}, {DType::kU8, device});
    const Tensor from = empty({half}, {DType::kU8, device});
    context.measure({.name = name,
                     .unit = "GB/s",
                     .per = static_cast<double>(nbytes) * kCalls,
                     .ours =
                         [&] {
                           for (int i = 0; i < kCalls; ++i) body();
                           stream.synchronize();
                         },
                     .reference_name = "device copy",
                     .reference =
                         [&] {
                           for (int i = 0; i < kCalls; ++i) stream.copy(to.data(), from.data(), nbytes / 2);
                           stream.synchronize();
                         },
                     .must_ratio = must_ratio,
                     .calls = 1});
  }
};

Tensor number(const Setup& setup, double value, DType dtype) {
  const Tensor x = empty({}, {dtype, device::Device::get("host")});
  x.device().synchronize();
  if (dtype == DType::kI64) *x.data_as<std::int64_t>() = static_cast<std::int64_t>(value);
  if (dtype == DType::kF32) *x.data_as<float>() = static_cast<float>(value);
  if (dtype == DType::kBool) *x.data_as<bool>() = value != 0;
  return to(x, setup.device);
}

// Rows of 4 KiB, 128 MiB in all.
void measure_rows(bench::Context& context, const Setup& setup, DType dtype) {
  const std::string suffix = dtype == DType::kF32 ? "" : "_bf16";
  const auto made = [&](const Shape& shape) { return randn(shape, {dtype, setup.device}); };
  const std::int64_t width = dtype == DType::kF32 ? 1024 : 2048;
  const Tensor x = made({32768, width});
  const Tensor grad = made({32768, width});
  const Tensor weight = made({width});
  const Tensor statistic = rand({32768}, {DType::kF32, setup.device});
  // Reads and writes this many tensors of the size of x.
  const auto measure = [&](const char* name, const char* direction, std::size_t tensors, const auto& body) {
    setup.measure(context, tessera::detail::concat("cuda_", name, "_rows", direction, suffix), tensors * x.nbytes(),
                  0.90, body);
  };
  measure("softmax", "", 2, [&] { (void)softmax(x, 1); });
  measure("softmax", "_backward", 3, [&] { (void)softmax_backward(grad, x, 1); });
  measure("rms_norm", "", 2, [&] { (void)rms_norm(x, weight); });
  measure("rms_norm", "_backward", 3, [&] { (void)rms_norm_backward(grad, x, weight, statistic); });
  measure("layer_norm", "", 2, [&] { (void)layer_norm(x, weight, weight); });
  measure("layer_norm", "_backward", 3, [&] { (void)layer_norm_backward(grad, x, weight, statistic, statistic); });
  measure("swiglu", "", 3, [&] { (void)swiglu(x, grad); });
  measure("swiglu", "_backward", 5, [&] { (void)swiglu_backward(grad, x, grad); });
  const Tensor heads = made({8, 32, 2048, width / 16});
  measure("rope", "", 2, [&] { (void)rope(heads); });
  measure("rope", "_backward", 2, [&] { (void)rope(heads, {.is_inverse = true}); });
}

// The loss reads the logits; its gradient reads them again and writes as many.
void measure_cross_entropy(bench::Context& context, const Setup& setup) {
  const Tensor logits = randn({8192, 50304}, {DType::kBF16, setup.device});
  const Tensor targets = empty({8192}, {DType::kI64, setup.device});
  fill_(targets, 17);
  const CrossEntropyResult grad = {number(setup, 1, DType::kF32), {}};
  setup.measure(context, "cuda_cross_entropy", 3 * logits.nbytes(), 0.85, [&] {
    const CrossEntropyResult loss = cross_entropy_with_logsumexp(logits, targets);
    (void)cross_entropy_backward(grad, logits, targets, loss.logsumexp);
  });
}

void measure_randn(bench::Context& context, const Setup& setup) {
  const Tensor x = empty({std::int64_t{1} << 26}, {DType::kF32, setup.device});
  setup.measure(context, "cuda_randn_256MiB", x.nbytes(), 0, [&] { normal_(x); });
}

// A step over `tensors` tensors in f32, which reads four lists and writes three, as a call and as a graph.
void measure_adamw(bench::Context& context, const Setup& setup, const std::string& name, std::int64_t tensors,
                   std::int64_t elements) {
  if (!context.wants(name) && !context.wants(name + "_graph")) return;
  std::vector<Tensor> lists[4];
  for (auto& list : lists) {
    for (std::int64_t i = 0; i < tensors; ++i) list.push_back(rand({elements}, {DType::kF32, setup.device}));
  }
  const Tensor step = number(setup, 0, DType::kI64);
  const StepScalars scalars = {.learning_rate = number(setup, 1e-3, DType::kF32),
                               .clip_factor = number(setup, 1, DType::kF32),
                               .skip = number(setup, 0, DType::kBool)};
  const auto body = [&] { adamw_(lists[0], lists[1], lists[2], lists[3], step, scalars); };
  const std::size_t nbytes = static_cast<std::size_t>(7 * tensors * elements) * sizeof(float);
  setup.measure(context, name, nbytes, 0.85, body);
  // A call takes the caller longer than this device, if the list is long and the tensors are small.
  memory::GraphCapture capture(memory::Allocator::of(setup.device), setup.stream);
  body();
  const memory::CapturedGraph graph = capture.end();
  setup.measure(context, name + "_graph", nbytes, 0.85, [&] { graph.replay(setup.stream); });
}

// Logits of 512 tokens, and 64 long lines. The bytes are those of the operands; a sort passes over them several times.
void measure_order(bench::Context& context, const Setup& setup) {
  if (context.wants("cuda_topk")) {
    const Tensor logits = randn({512, 50304}, {DType::kBF16, setup.device});
    setup.measure(context, "cuda_topk", logits.nbytes(), 0, [&] { (void)topk(logits, 50, 1); });
  }
  if (context.wants("cuda_sort")) {
    const Tensor lines = randn({64, 262144}, {DType::kF32, setup.device});
    setup.measure(context, "cuda_sort", 4 * lines.nbytes(), 0, [&] { (void)sort(lines, 1); });
  }
}

TESSERA_BENCH(bandwidth_on_cuda) {
  try {
    (void)device::Device::get("cuda");
  } catch (const Error& error) {
    context.skip(error.message());
    return;
  }
  const Setup setup;
  context.describe_machine("gpu", setup.device.properties().description);
  measure_rows(context, setup, DType::kF32);
  measure_rows(context, setup, DType::kBF16);
  measure_cross_entropy(context, setup);
  measure_randn(context, setup);
  measure_adamw(context, setup, "cuda_adamw_foreach_300", 300, 33336);
  measure_adamw(context, setup, "cuda_adamw_1200M", 150, 8000000);
  measure_order(context, setup);
}

}  // namespace
}  // namespace tessera::ops
