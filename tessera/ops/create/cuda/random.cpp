// Random operators on CUDA: rand, randn, trunc_normal and bernoulli, with the same bits as on the host.
#include "tessera/ops/create/random.h"

#include <algorithm>
#include <cmath>

#include "tessera/ops/create/cuda/random_draws.h"
#include "tessera/ops/cuda/kernels.h"

TESSERA_CUDA_IMAGE(random_draws);

namespace tessera::ops::cuda {
namespace {

using tensor::KernelCall;

Image image(TESSERA_CUDA_BYTES(random_draws));

// The kernels of one distribution: for contiguous global tensors, and for all others.
struct Kernels {
  explicit Kernels(const std::string& name)
      : dense(image, "random_" + name + "_dense"), placed(image, "random_" + name + "_placed") {}
  ImageKernel dense, placed;
};
const Kernels uniform("uniform");
const Kernels normal("normal");
const Kernels truncated("truncated");
const Kernels bernoulli("bernoulli");

void run(const KernelCall& call, const Kernels& kernels, RandomDraw draw) {
  const auto& attributes = call.as<RandomAttributes>();
  const Tensor& out = call.outputs[0];
  if (out.numel() == 0) return;
  draw.seed = static_cast<std::uint64_t>(attributes.seed);
  draw.call = static_cast<std::uint64_t>(attributes.call);
  if (!call.inputs.empty() && call.inputs[0]) draw.counter = call.inputs[0].data_as<std::int64_t>();
  DrawTarget target{out.data(), out.dtype(), false, out.numel()};
  if (out.is_contiguous() && attributes.index.empty()) {
    const std::size_t nbytes = std::min<std::size_t>(4 * itemsize(out.dtype()), 16);
    target.has_vectors = reinterpret_cast<std::uintptr_t>(out.data()) % nbytes == 0;
    launch(call, kernels.dense, blocks_for(call, (out.numel() + 3) / 4, kThreads), kThreads, draw, target);
  } else {
    launch(call, kernels.placed, blocks_for(call, out.numel(), kThreads), kThreads, draw, target,
           places_of(out, attributes.global, attributes.index, call.op.name().c_str()));
  }
}

void run_uniform(const KernelCall& call) {
  const auto& attributes = call.as<RandomAttributes>();
  const double low = attributes.a.as_double();
  RandomDraw draw;
  draw.a = static_cast<float>(low);
  draw.b = static_cast<float>(attributes.b.as_double() - low);
  const auto end = static_cast<float>(attributes.b.as_double());
  draw.high = draw.a < end ? std::nextafter(end, draw.a) : draw.a;
  run(call, uniform, draw);
}

RandomDraw normal_draw(const KernelCall& call) {
  const auto& attributes = call.as<RandomAttributes>();
  RandomDraw draw;
  draw.a = static_cast<float>(attributes.a.as_double());
  draw.b = static_cast<float>(attributes.b.as_double());
  return draw;
}
void run_normal(const KernelCall& call) { run(call, normal, normal_draw(call)); }
void run_truncated(const KernelCall& call) {
  const auto& attributes = call.as<RandomAttributes>();
  RandomDraw draw = normal_draw(call);
  draw.low = static_cast<float>(attributes.low.as_double());
  draw.high = static_cast<float>(attributes.high.as_double());
  run(call, truncated, draw);
}
void run_bernoulli(const KernelCall& call) {
  RandomDraw draw;
  draw.a = static_cast<float>(call.as<RandomAttributes>().a.as_double());
  run(call, bernoulli, draw);
}

const tensor::KernelRegistration kRand("rand", "cuda", run_uniform);
const tensor::KernelRegistration kRandn("randn", "cuda", run_normal);
const tensor::KernelRegistration kTruncNormal("trunc_normal", "cuda", run_truncated);
const tensor::KernelRegistration kBernoulli("bernoulli", "cuda", run_bernoulli);

}  // namespace
}  // namespace tessera::ops::cuda
