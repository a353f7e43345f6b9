// swiglu on CUDA, and its gradients. Operands may have any dtypes and strides, and are broadcast.
#include <algorithm>

#include "tessera/ops/detail/loops.h"
#include "tessera/ops/nn/cuda/rows_of.h"
#include "tessera/ops/nn/cuda/swiglu_call.h"

TESSERA_CUDA_IMAGE(swiglu_rows);

namespace tessera::ops::cuda {
namespace {

using tensor::KernelCall;

Image image(TESSERA_CUDA_BYTES(swiglu_rows));
// By RowFormKind.
const ImageKernel forward_kernels[] = {{image, "swiglu_float"},
                                       {image, "swiglu_bf16"},
                                       {image, "swiglu_f16"},
                                       {image, "swiglu_any"},
                                       {image, "swiglu_double"}};
const ImageKernel backward_kernels[] = {{image, "swiglu_backward_float"},
                                        {image, "swiglu_backward_bf16"},
                                        {image, "swiglu_backward_f16"},
                                        {image, "swiglu_backward_any"},
                                        {image, "swiglu_backward_double"}};

constexpr std::int64_t kMaxGridRows = 65535;
// Vectors of a thread: enough for the shortest runs that are read in vectors.
constexpr std::int64_t kVectorsEach = 4;

RowFormKind form_of(const SwigluCall& of, std::size_t operands) {
  const DType dtype = of.dtypes[0];
  const RowFormKind form = vector_form(dtype);
  if (form == RowFormKind::kDouble) return form;
  const std::int64_t n = elements_of(form);
  // Short runs are read element by element: a block would be idle.
  bool fits = of.run % n == 0 && (of.runs == 1 || of.run >= 64 * n);
  for (std::size_t o = 0; o < operands; ++o) {
    fits = fits && of.dtypes[o] == dtype && of.steps[o] == 1 && is_aligned(of.data[o], dtype, static_cast<int>(n));
    for (int d = 0; d < of.ndim; ++d) fits = fits && of.strides[d][o] % n == 0;
  }
  return fits ? form : RowFormKind::kAny;
}

void run(const KernelCall& call, const ImageKernel* kernels) {
  if (call.outputs[0].numel() == 0) return;
  std::vector<const Tensor*> operands;
  for (const Tensor& output : call.outputs) operands.push_back(&output);
  for (const Tensor& input : call.inputs) operands.push_back(&input);
  const detail::Loop loop{std::span<const Tensor* const>(operands)};
  TESSERA_CHECK_AS(NotSupported, loop.ndim() <= static_cast<std::size_t>(kMaxSwigluDims) + 1, call.op.name(),
                   ": operands must have at most ", kMaxSwigluDims + 1,
                   " dimensions that cannot be merged on cuda, got ", loop.ndim(), "; make them contiguous");
  SwigluCall of;
  for (std::size_t o = 0; o < operands.size(); ++o) {
    of.dtypes[o] = operands[o]->dtype();
    of.data[o] = operands[o]->data() + loop.first(o) * static_cast<std::int64_t>(itemsize(of.dtypes[o]));
    of.steps[o] = loop.step(o);
  }
  of.run = loop.run();
  for (std::size_t d = loop.ndim(); d-- > 1;) {
    of.sizes[of.ndim] = loop.size(d - 1);
    of.runs *= loop.size(d - 1);
    for (std::size_t o = 0; o < operands.size(); ++o) of.strides[of.ndim][o] = loop.stride(o, d - 1);
    ++of.ndim;
  }
  const RowFormKind form = form_of(of, operands.size());
  const ImageKernel& kernel = kernels[static_cast<std::size_t>(form)];
  if (elements_of(form) == 1) {
    launch(call, kernel, blocks_for(call, of.run * of.runs, kThreads), kThreads, of);
    return;
  }
  const std::int64_t threads =
      std::min<std::int64_t>(kThreads, power_of_two(of.run / elements_of(form) / kVectorsEach));
  const std::int64_t block = std::max<std::int64_t>(threads, 64);
  launch(call, kernel,
         {.grid = {blocks_for(call, of.run, block * kVectorsEach * elements_of(form)),
                   static_cast<std::uint32_t>(std::min(of.runs, kMaxGridRows)), 1},
          .block = {static_cast<std::uint32_t>(block), 1, 1}},
         device::KernelArgs(of));
}

const tensor::KernelRegistration kSwiglu("swiglu", "cuda", [](const KernelCall& call) { run(call, forward_kernels); });
const tensor::KernelRegistration kSwigluBackward("swiglu_backward", "cuda",
                                                 [](const KernelCall& call) { run(call, backward_kernels); });

}  // namespace
}  // namespace tessera::ops::cuda
