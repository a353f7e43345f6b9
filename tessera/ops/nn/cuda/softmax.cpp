// softmax and log_softmax on CUDA, and their gradients.
#include "tessera/ops/nn/softmax.h"

#include "tessera/ops/nn/cuda/rows_of.h"
#include "tessera/tensor/call.h"

TESSERA_CUDA_IMAGE(softmax_rows);

namespace tessera::ops::cuda {
namespace {

using tensor::KernelCall;

Image image(TESSERA_CUDA_BYTES(softmax_rows));
const CudaRowKernels softmax_kernels(image, "softmax");
const CudaRowKernels log_softmax_kernels(image, "log_softmax");
const CudaRowKernels softmax_backward_kernels(image, "softmax_backward");
const CudaRowKernels log_softmax_backward_kernels(image, "log_softmax_backward");

int dim_of(const KernelCall& call) {
  return tensor::normalized_dim(call, call.as<SoftmaxAttributes>().dim, call.inputs[0].ndim());
}

void forward(const KernelCall& call, const CudaRowKernels& kernels) {
  if (call.outputs[0].numel() == 0) return;
  const DeviceRows x = rows_of(call, call.inputs[0], dim_of(call));
  const DeviceRows y = rows_of(call, call.outputs[0], dim_of(call));
  kernels.launch(call, {&x, &y}, x, y);
}
void backward(const KernelCall& call, const CudaRowKernels& kernels) {
  if (call.outputs[0].numel() == 0) return;
  const DeviceRows grad = rows_of(call, call.inputs[0], dim_of(call));
  const DeviceRows y = rows_of(call, call.inputs[1], dim_of(call));
  const DeviceRows dx = rows_of(call, call.outputs[0], dim_of(call));
  kernels.launch(call, {&grad, &y, &dx}, grad, y, dx);
}

const tensor::KernelRegistration kSoftmax("softmax", "cuda",
                                          [](const KernelCall& call) { forward(call, softmax_kernels); });
const tensor::KernelRegistration kLogSoftmax("log_softmax", "cuda",
                                             [](const KernelCall& call) { forward(call, log_softmax_kernels); });
const tensor::KernelRegistration kSoftmaxBackward("softmax_backward", "cuda", [](const KernelCall& call) {
  backward(call, softmax_backward_kernels);
});
const tensor::KernelRegistration kLogSoftmaxBackward("log_softmax_backward", "cuda", [](const KernelCall& call) {
  backward(call, log_softmax_backward_kernels);
});

}  // namespace
}  // namespace tessera::ops::cuda
