// masked_fill on CUDA.
#include "tessera/ops/index/cuda/masked_fill.h"

#include <bit>
#include <cstring>

#include "tessera/ops/cuda/kernels.h"
#include "tessera/ops/detail/loops.h"
#include "tessera/ops/index/index.h"
#include "tessera/ops/shape/detail/copy_elements.h"

TESSERA_CUDA_IMAGE(masked_fill_items);

namespace tessera::ops::cuda {
namespace {

Image image(TESSERA_CUDA_BYTES(masked_fill_items));
const ImageKernel single[] = {{image, "masked_fill_1"},
                              {image, "masked_fill_2"},
                              {image, "masked_fill_4"},
                              {image, "masked_fill_8"},
                              {image, "masked_fill_16"}};
const ImageKernel vectors[] = {{image, "masked_fill_vectors_1"},
                               {image, "masked_fill_vectors_2"},
                               {image, "masked_fill_vectors_4"},
                               {image, "masked_fill_vectors_8"},
                               {image, "masked_fill_vectors_16"}};

void run(const tensor::KernelCall& call) {
  const Tensor& x = call.inputs[0];
  const Tensor& mask = call.inputs[1];
  const Tensor& out = call.outputs[0];
  if (out.numel() == 0) return;
  const detail::Loop loop({&out, &x, &mask});
  const int width = 16 / static_cast<int>(itemsize(x.dtype()));
  MaskedFill fill{.out = out.data(),
                  .x = x.data(),
                  .mask = reinterpret_cast<const std::uint8_t*>(mask.data()),
                  .value = {},
                  .is_splat = loop.step(2) == 0,
                  .walk = {}};
  const auto value = detail::element_of(call.as<MaskedFillAttributes>().value, x.dtype());
  std::memcpy(fill.value, value.data(), sizeof fill.value);
  const bool has_vectors = cuda::has_vectors(loop, width) && loop.step(1) == 1 &&
                           is_aligned(out.data(), out.dtype(), width) && is_aligned(x.data(), x.dtype(), width) &&
                           (fill.is_splat || is_aligned(mask.data(), DType::kBool, width));
  fill.walk = walk_of(loop, has_vectors ? width : 1);
  const auto by_size = static_cast<std::size_t>(std::countr_zero(itemsize(x.dtype())));
  launch(call, (has_vectors ? vectors : single)[by_size], blocks_for(call, fill.walk.numel, kThreads), kThreads, fill);
}

const tensor::KernelRegistration kMaskedFillOnCuda("masked_fill", "cuda", run);

}  // namespace
}  // namespace tessera::ops::cuda
