// rms_norm on CUDA, and its gradient.
#include <algorithm>

#include "tessera/ops/nn/cuda/rows_of.h"
#include "tessera/ops/nn/norm.h"

TESSERA_CUDA_IMAGE(rms_norm_rows);

namespace tessera::ops::cuda {
namespace {

using tensor::KernelCall;

Image image(TESSERA_CUDA_BYTES(rms_norm_rows));
const CudaRowKernels forward_kernels(image, "rms_norm");
const CudaRowKernels backward_kernels(image, "rms_norm_backward");
const ImageKernel parts_f32(image, "rms_norm_weight_parts_f32");
const ImageKernel parts_f64(image, "rms_norm_weight_parts_f64");
const ImageKernel sum_f32(image, "rms_norm_weight_sum_f32");
const ImageKernel sum_f64(image, "rms_norm_weight_sum_f64");

// Groups of rows with separate sums: enough to keep a device busy. They depend only on the number of rows.
constexpr std::int64_t kRowsEach = 64;
constexpr std::int64_t kMaxParts = 256;

// Each element is a row.
constexpr int kNoDim = -1;

void forward(const KernelCall& call) {
  const int last = call.inputs[0].ndim() - 1;
  const DeviceRows x = rows_of(call, call.inputs[0], last);
  const DeviceRows weight = rows_of(call, call.inputs[1], 0);
  const DeviceRows y = rows_of(call, call.outputs[0], last);
  const DeviceRows rstd = rows_of(call, call.outputs[1], kNoDim);
  forward_kernels.launch(call, {&x, &weight, &y}, x, weight, y, rstd, call.as<NormalizationAttributes>().eps);
}

void launch_weight(const KernelCall& call, const DeviceRows& grad, const DeviceRows& x, const DeviceRows& rstd,
                   const DeviceRows& dweight) {
  if (dweight.length == 0) return;
  const bool is_double = x.dtype == DType::kF64;
  const std::int64_t rows_each = std::max(kRowsEach, (x.count + kMaxParts - 1) / kMaxParts);
  const std::int64_t count = (x.count + rows_each - 1) / rows_each;
  const memory::Buffer parts = scratch(call, static_cast<std::size_t>(count * x.length) * (is_double ? 8 : 4));
  const auto columns = static_cast<std::uint32_t>((x.length + kThreads - 1) / kThreads);
  std::byte* data = parts.data();
  if (count > 0) {
    launch(call, is_double ? parts_f64 : parts_f32,
           {.grid = {columns, static_cast<std::uint32_t>(count), 1}, .block = {kThreads, 1, 1}},
           device::KernelArgs(grad, x, rstd, data, rows_each));
  }
  launch(call, is_double ? sum_f64 : sum_f32, columns, kThreads, data, count, dweight);
}

void backward(const KernelCall& call) {
  const int last = call.inputs[1].ndim() - 1;
  const DeviceRows grad = rows_of(call, call.inputs[0], last);
  const DeviceRows x = rows_of(call, call.inputs[1], last);
  const DeviceRows weight = rows_of(call, call.inputs[2], 0);
  const DeviceRows rstd = rows_of(call, call.inputs[3], kNoDim);
  const DeviceRows dx = rows_of(call, call.outputs[0], last);
  backward_kernels.launch(call, {&grad, &x, &weight, &dx}, grad, x, weight, rstd, dx);
  launch_weight(call, grad, x, rstd, rows_of(call, call.outputs[1], 0));
}

const tensor::KernelRegistration kRmsNorm("rms_norm", "cuda", forward);
const tensor::KernelRegistration kRmsNormBackward("rms_norm_backward", "cuda", backward);

}  // namespace
}  // namespace tessera::ops::cuda
