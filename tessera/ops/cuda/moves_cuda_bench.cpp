// Moves of elements on a GPU, compared with a device copy that moves as many bytes: transposed copies, concatenation
// and the gradient of embedding, with a sort of its tokens.
#include "tessera/base/testing/bench.h"
#include "tessera/ops/create/create.h"
#include "tessera/ops/create/random.h"
#include "tessera/ops/index/index.h"
#include "tessera/ops/pointwise/convert.h"
#include "tessera/ops/shape/arrange.h"
#include "tessera/ops/shape/shape.h"

namespace tessera::ops {
namespace {

// Compares `body`, which reads and writes `nbytes` in all, with a copy.
void measure_moves(bench::Context& context, const device::Device& gpu, const std::string& name, std::size_t nbytes,
                   double must_ratio, const std::function<void()>& body) {
  if (!context.wants(name)) return;
  constexpr int kCalls = 10;
  const device::Stream stream = gpu.default_stream();
  const auto count = static_cast<std::int64_t>(nbytes / 2);
  const Tensor from = zeros({count}, {DType::kU8, gpu});
  const Tensor to = zeros({count}, {DType::kU8, gpu});
  body();  // loads the kernels
  stream.synchronize();
  const auto repeated = [&](const std::function<void()>& each) {
    for (int i = 0; i < kCalls; ++i) each();
    stream.synchronize();
  };
  context.measure({.name = name,
                   .unit = "GB/s",
                   .per = static_cast<double>(nbytes) * kCalls,
                   .ours = [&] { repeated(body); },
                   .reference_name = "device copy",
                   .reference = [&] { repeated([&] { stream.copy(to.data(), from.data(), from.nbytes()); }); },
                   .must_ratio = must_ratio,
                   .calls = 1});
}

TESSERA_BENCH(moves_on_cuda) {
  device::Device gpu;
  try {
    gpu = device::Device::get("cuda");
  } catch (const Error& error) {
    context.skip(error.message());
    return;
  }
  context.describe_machine("gpu", gpu.properties().description);
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const std::string suffix = dtype == DType::kF32 ? "" : "_bf16";
    const Tensor x = randn({8192, 8192}, {dtype, gpu});
    measure_moves(context, gpu, "cuda_transpose_copy" + suffix, 2 * x.nbytes(), 0.85,
                  [&] { (void)contiguous(transpose(x, 0, 1)); });
    // Each row of the result is two rows of different lengths.
    const Tensor left = randn({16384, 3072}, {dtype, gpu});
    const Tensor right = randn({16384, 1024}, {dtype, gpu});
    measure_moves(context, gpu, "cuda_cat" + suffix, 2 * (left.nbytes() + right.nbytes()), 0.85, [&] {
      (void)cat({left, right}, 1);
    });
    // The tokens of a GPT-2 step at a batch of 32. Each gradient row is read once, each table row written once.
    const Tensor tokens = randint(0, 50304, {32, 1024}, {.device = gpu});
    const Tensor grad = randn({32, 1024, 768}, {dtype, gpu});
    const std::size_t table_nbytes = std::size_t{50304} * 768 * itemsize(dtype);
    measure_moves(context, gpu, "cuda_embedding_backward" + suffix, grad.nbytes() + table_nbytes, 0.5,
                  [&] { (void)index_sum(grad, 0, tokens, 50304); });
  }
}

}  // namespace
}  // namespace tessera::ops
