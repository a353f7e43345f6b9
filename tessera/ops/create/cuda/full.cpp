// full on CUDA. zeros, ones and fill_ use it too.
#include "tessera/ops/create/create.h"
#include "tessera/ops/create/detail/fill.h"
#include "tessera/ops/cuda/move_items.h"

namespace tessera::ops::cuda {
namespace {

void run_full(const tensor::KernelCall& call) {
  const Tensor& out = call.outputs[0];
  const detail::Item item = detail::item_of(call.as<FullAttributes>().value, out.dtype());
  fill_items(call, out, std::span(item.bytes, itemsize(out.dtype())));
}

const tensor::KernelRegistration kFullOnCuda("full", "cuda", run_full);

}  // namespace
}  // namespace tessera::ops::cuda
