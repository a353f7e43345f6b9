// The ops bench on a GPU. Compares operators with a driver copy of equal size. Queues are empty before and after each
// sample.
#include "tessera/base/testing/bench.h"
#include "tessera/ops/create/create.h"
#include "tessera/ops/pointwise/convert.h"
#include "tessera/ops/pointwise/pointwise.h"
#include "tessera/ops/reduce/reduce.h"
#include "tessera/tensor/call.h"

namespace tessera::ops {
namespace {

constexpr std::int64_t kCount = (std::int64_t{64} << 20) / 4;  // 64 MiB of f32
constexpr std::size_t kLaunches = 200;                         // per sample, well below the capacity of a queue
constexpr std::size_t kPasses = 10;                            // over memory, well below the capacity of a queue

struct Setup {
  device::Device gpu = device::Device::get("cuda:0");
  device::Stream stream = gpu.default_stream();
  CreateOptions f32{.dtype = DType::kF32, .device = gpu};
  Tensor a = full({kCount}, 1, f32);
  Tensor b = full({kCount}, 2, f32);
  Tensor out = full({kCount}, 0, f32);
  Tensor copied = full({2 * kCount}, 1, f32);
  Tensor copy = full({2 * kCount}, 0, f32);

  // Copies with the driver; reads and writes add up to `nbytes`.
  void copy_bytes(std::size_t nbytes) const { stream.copy(copy.data(), copied.data(), nbytes / 2); }
};

// Runs `body` over `nbytes` `passes` times, then waits.
void measure_stream(bench::Context& context, const Setup& setup, const char* name, std::size_t nbytes,
                    const std::function<void()>& body, std::optional<double> must_ratio) {
  if (!context.wants(name)) return;
  const auto passes = [&setup](const std::function<void()>& each) {
    for (std::size_t i = 0; i < kPasses; ++i) each();
    setup.stream.synchronize();
  };
  context.measure({.name = name,
                   .unit = "GB/s",
                   .per = static_cast<double>(nbytes * kPasses),
                   .ours = [&] { passes(body); },
                   .reference_name = "cuMemcpyAsync, device to device",
                   .reference = [&] { passes([&] { setup.copy_bytes(nbytes); }); },
                   .must_ratio = must_ratio,
                   .calls = 1,
                   .before = [&] { setup.stream.synchronize(); }});
}

void measure_small_calls(bench::Context& context, const Setup& setup) {
  const Tensor a = full({16}, 1, setup.f32);
  const Tensor b = full({16}, 2, setup.f32);
  const Tensor out = full({16}, 0, setup.f32);
  const auto drain = [&] { setup.stream.synchronize(); };
  context.measure({.name = "cuda_small_add",
                   .ours = [&] { bench::do_not_optimize(add(a, b)); },
                   .calls = kLaunches,
                   .before = drain});
  context.measure(
      {.name = "cuda_small_add_out", .ours = [&] { add(a, b, {.out = out}); }, .calls = kLaunches, .before = drain});
}

// A sum of 256 MiB, which no cache holds.
void measure_sum(bench::Context& context, const Setup& setup, const char* name, DType dtype, double must_ratio) {
  if (!context.wants(name)) return;
  const std::int64_t count = 4 * kCount * 4 / static_cast<std::int64_t>(itemsize(dtype));
  const Tensor many = full({count}, 1, {.dtype = dtype, .device = setup.gpu});
  const Tensor total = full({}, 0, {.dtype = dtype, .device = setup.gpu});
  const tensor::Operator op = tensor::find_op("sum");
  measure_stream(
      context, setup, name, many.nbytes(),
      [&] {
        tensor::call_out(op, total, {many}, SumAttributes{{}, false, dtype});
      },
      must_ratio);
}

TESSERA_BENCH(ops_on_cuda) {
  try {
    (void)device::Device::get("cuda:0");
  } catch (const Error& error) {
    context.skip(error.message());
    return;
  }
  const Setup setup;
  context.describe_machine("gpu", setup.gpu.properties().description);
  measure_small_calls(context, setup);
  const std::size_t one = setup.a.nbytes();
  measure_stream(
      context, setup, "cuda_stream_add", 3 * one, [&] { add(setup.a, setup.b, {.out = setup.out}); }, 0.9);
  measure_sum(context, setup, "cuda_stream_sum", DType::kF32, 0.95);
  measure_sum(context, setup, "cuda_stream_sum_bf16", DType::kBF16, 0.92);
  const Tensor halves = full({kCount}, 0, {.dtype = DType::kBF16, .device = setup.gpu});
  measure_stream(
      context, setup, "cuda_cast_bf16", one + one / 2, [&] { copy_(halves, setup.a); }, 0.9);
  const Tensor more = full({kCount}, 1, {.dtype = DType::kBF16, .device = setup.gpu});
  const Tensor to = full({kCount}, 0, {.dtype = DType::kBF16, .device = setup.gpu});
  measure_stream(
      context, setup, "cuda_stream_add_bf16", one + one / 2, [&] { add(halves, more, {.out = to}); }, 0.9);
}

}  // namespace
}  // namespace tessera::ops
