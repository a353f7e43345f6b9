// Attention on a GPU: floating-point operations inside the causal mask per second.
#include "tessera/base/testing/bench.h"
#include "tessera/ops/create/random.h"
#include "tessera/ops/nn/attention.h"
#include "tessera/ops/shape/shape.h"
#include "tessera/tensor/device_context.h"

namespace tessera::ops {
namespace {

constexpr int kCalls = 10;

struct Sizes {
  std::int64_t batch, heads, length, width;
};

void measure(bench::Context& context, const Sizes& of) {
  const std::string tail =
      tessera::detail::concat("_", of.batch, "x", of.heads, "x", of.length, "x", of.width, "_bf16");
  const std::string forward_name = "cuda_attention_fwd" + tail;
  const std::string backward_name = "cuda_attention_bwd" + tail;
  if (!context.wants(forward_name) && !context.wants(backward_name)) return;
  const device::Device gpu = device::Device::get("cuda");
  const device::Stream& stream = tensor::current_stream(gpu);
  const auto heads = [&] {
    return transpose(randn({of.batch, of.length, of.heads, of.width}, {DType::kBF16, gpu}), 1, 2);
  };
  const Tensor q = heads();
  const Tensor k = heads();
  const Tensor v = heads();
  const Tensor grad = heads();
  const AttentionBias bias = {.is_causal = true};
  const AttentionResult result = attention_with_logsumexp(q, k, v, bias);
  const double products = static_cast<double>(of.batch * of.heads * of.length * of.length * of.width) * kCalls;
  const auto run = [&](const auto& body) {
    for (int i = 0; i < kCalls; ++i) body();
    stream.synchronize();
  };
  context.measure({.name = forward_name,
                   .unit = "G/s",
                   .per = 2 * products,
                   .ours = [&] { run([&] { attention_with_logsumexp(q, k, v, bias); }); },
                   .calls = 1});
  context.measure(
      {.name = backward_name,
       .unit = "G/s",
       .per = 5 * products,
       .ours = [&] { run([&] {
                       scaled_dot_product_attention_backward({grad, {}}, q, k, v, result, bias);
                     }); },
       .calls = 1});
}

TESSERA_BENCH(attention_on_cuda) {
  try {
    context.describe_machine("gpu", device::Device::get("cuda").properties().description);
  } catch (const Error& error) {
    context.skip(error.message());
    return;
  }
  measure(context, {4, 32, 4096, 128});
  measure(context, {32, 12, 1024, 64});
}

}  // namespace
}  // namespace tessera::ops
