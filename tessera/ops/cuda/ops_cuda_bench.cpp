// The ops bench on a GPU. Compares operators with a driver copy of equal size. Queues are empty before and after each
// sample.
#include "tessera/base/testing/bench.h"
#include "tessera/device/cuda/driver.h"
#include "tessera/ops/create/create.h"
#include "tessera/ops/create/random.h"
#include "tessera/ops/cuda/kernels.h"
#include "tessera/ops/pointwise/activations.h"
#include "tessera/ops/pointwise/convert.h"
#include "tessera/ops/pointwise/cuda/pointwise_call.h"
#include "tessera/ops/pointwise/pointwise.h"
#include "tessera/ops/reduce/reduce.h"
#include "tessera/tensor/call.h"

namespace tessera::ops {
namespace {

constexpr std::int64_t kCount = (std::int64_t{256} << 20) / 4;  // 256 MiB of f32
constexpr std::size_t kLaunches = 200;                          // per sample, well below the capacity of a queue
constexpr std::size_t kPasses = 10;                             // over memory, well below the capacity of a queue

struct Setup {
  device::Device gpu = device::Device::get("cuda:0");
  device::Stream stream = gpu.default_stream();
  CreateOptions f32{.dtype = DType::kF32, .device = gpu};
  Tensor copied = full({2 * kCount}, 1, f32);
  Tensor copy = full({2 * kCount}, 0, f32);

  // Copies with the driver; reads and writes add up to `nbytes`.
  void copy_bytes(std::size_t nbytes) const { stream.copy(copy.data(), copied.data(), nbytes / 2); }
};

// Runs `body` over `nbytes` `passes` times, then waits.
void measure_stream(bench::Context& context, const Setup& setup, const std::string& name, std::size_t nbytes,
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

// An empty kernel with the arguments and threads of the operator, launched by the driver on the same stream.
class RawLaunch {
 public:
  explicit RawLaunch(const Setup& setup) : stream_(static_cast<CUstream>(setup.stream.native())) {
    const std::string text = tessera::detail::concat(
        ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry raw(.param .align 8 .b8 call[",
        sizeof(cuda::DenseCall), "])\n{\n  ret;\n}\n");
    setup.stream.launch_native([&](void*) {
      must(device::cuda::driver().cuModuleLoadDataEx(&module_, text.c_str(), 0, nullptr, nullptr));
      must(device::cuda::driver().cuModuleGetFunction(&function_, module_, "raw"));
    });
  }
  void run() const {
    cuda::DenseCall call{};
    void* args[] = {&call};
    must(device::cuda::driver().cuLaunchKernel(function_, 1, 1, 1, cuda::kThreads, 1, 1, 0, stream_, args, nullptr));
  }

 private:
  static void must(CUresult result) {
    TESSERA_CHECK_AS(DeviceError, result == CUDA_SUCCESS, "driver error ", static_cast<int>(result));
  }
  CUstream stream_;
  CUmodule module_ = nullptr;  // loaded until the program ends
  CUfunction function_ = nullptr;
};

void measure_small_calls(bench::Context& context, const Setup& setup) {
  const Tensor a = full({16}, 1, setup.f32);
  const Tensor b = full({16}, 2, setup.f32);
  const Tensor out = full({16}, 0, setup.f32);
  const auto drain = [&] { setup.stream.synchronize(); };
  const RawLaunch raw(setup);
  context.measure({.name = "cuda_op_cpu",
                   .ours = [&] { bench::do_not_optimize(add(a, b)); },
                   .reference_name = "cuLaunchKernel",
                   .reference = [&] { raw.run(); },
                   .must_ratio = 1 / 1.15,
                   .calls = kLaunches,
                   .before = drain});
  context.measure(
      {.name = "cuda_small_add_out", .ours = [&] { add(a, b, {.out = out}); }, .calls = kLaunches, .before = drain});
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
  const Tensor total = full({}, 0, setup.f32);
  const tensor::Operator sum_op = tensor::find_op("sum");
  const std::size_t one = setup.copied.nbytes() / 2;
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const std::string suffix = dtype == DType::kF32 ? "" : "_bf16";
    const double must = dtype == DType::kF32 ? 0.95 : 0.92;
    const CreateOptions options{.dtype = dtype, .device = setup.gpu};
    const std::int64_t count = static_cast<std::int64_t>(one / itemsize(dtype));
    const Tensor a = randn({count}, options);
    const Tensor b = randn({count}, options);
    const Tensor out = empty({count}, options);
    measure_stream(
        context, setup, "cuda_stream_add" + suffix, 3 * one, [&] { add(a, b, {.out = out}); }, must);
    measure_stream(
        context, setup, "cuda_stream_gelu" + suffix, 2 * one, [&] { gelu(a, {.out = out}); }, must);
    measure_stream(
        context, setup, "cuda_stream_sum" + suffix, one,
        [&] {
          tensor::call_out(sum_op, total, {a}, SumAttributes{{}, false, DType::kF32});
        },
        must);
    const DType other = dtype == DType::kF32 ? DType::kBF16 : DType::kF32;
    const Tensor converted = empty({count}, {.dtype = other, .device = setup.gpu});
    measure_stream(
        context, setup, "cuda_stream_cast" + suffix, one + converted.nbytes(), [&] { copy_(converted, a); }, must);
  }
}

}  // namespace
}  // namespace tessera::ops
