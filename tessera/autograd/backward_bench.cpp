// Cost of recording and backward: a chain of a thousand products of 16 floats. The cost of a node includes the product
// that is its gradient, the allocation of the result, and the release of saved tensors.
#include "tessera/autograd/autograd.h"
#include "tessera/base/testing/bench.h"
#include "tessera/ops/pointwise/pointwise.h"

namespace tessera::autograd {
namespace {

constexpr int kCalls = 1000;

Tensor ones() {
  Tensor tensor = Tensor::allocate({16}, DType::kF32, device::Device::get("host"));
  tensor.device().synchronize();
  std::fill_n(tensor.data_as<float>(), 16, 1.0F);
  return tensor;
}

Tensor chain(const Tensor& x, const Tensor& by) {
  Tensor y = x;
  for (int i = 0; i < kCalls; ++i) y = ops::mul(y, by);
  return y;
}

TESSERA_BENCH(chain) {
  const Tensor x = ones();
  set_requires_grad(x, true);
  const Tensor by = ones();
  const Tensor gradient = ones();
  Tensor y;
  context.measure({.name = "backward_chain",
                   .per = kCalls,
                   .ours = [&] { backward(y, gradient); },
                   .must = 400,
                   .calls = 1,
                   .before =
                       [&] {
                         set_grad(x, {});
                         y = chain(x, by);
                       }});
  context.measure({.name = "record_chain",
                   .per = kCalls,
                   .ours = [&] { y = chain(x, by); },
                   .reference_name = "without gradients",
                   .reference =
                       [&] {
                         const NoGrad off;
                         y = chain(x, by);
                       },
                   .calls = 1,
                   .before = [&] { y = {}; }});
}

}  // namespace
}  // namespace tessera::autograd
