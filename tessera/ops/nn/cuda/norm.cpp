// layer_norm and rms_norm on CUDA, and their gradients.
#include "tessera/ops/nn/norm.h"

#include <algorithm>

#include "tessera/ops/nn/cuda/norm_gradients.h"
#include "tessera/ops/nn/cuda/rows_of.h"

TESSERA_CUDA_IMAGE(norm_rows);
TESSERA_CUDA_IMAGE(norm_gradients);

namespace tessera::ops::cuda {
namespace {

using tensor::KernelCall;

Image image(TESSERA_CUDA_BYTES(norm_rows));
const CudaRowKernels layer_norm_kernels(image, "layer_norm");
const CudaRowKernels rms_norm_kernels(image, "rms_norm");
const CudaRowKernels backward_kernels(image, "norm_backward", CudaRowKernels::Reads::kAgain);
const ImageKernel parts_f32(image, "norm_parameter_parts_f32");
const ImageKernel parts_f64(image, "norm_parameter_parts_f64");
const ImageKernel sums_f32(image, "norm_parameter_sums_f32");
const ImageKernel sums_f64(image, "norm_parameter_sums_f64");

Image gradients_image(TESSERA_CUDA_BYTES(norm_gradients));
// By RowFormKind.
const ImageKernel layer_norm_gradients[] = {{gradients_image, "layer_norm_gradients_float"},
                                            {gradients_image, "layer_norm_gradients_bf16"},
                                            {gradients_image, "layer_norm_gradients_f16"}};
const ImageKernel rms_norm_gradients[] = {{gradients_image, "rms_norm_gradients_float"},
                                          {gradients_image, "rms_norm_gradients_bf16"},
                                          {gradients_image, "rms_norm_gradients_f16"}};

// Groups of rows with separate sums: enough to keep a device busy. They depend only on the number of rows.
constexpr std::int64_t kRowsEach = 64;
constexpr std::int64_t kMaxParts = 256;

template <bool kIsLayer>
void forward(const KernelCall& call) {
  const int last = call.inputs[0].ndim() - 1;
  const DeviceRows x = rows_of(call, call.inputs[0], last);
  const DeviceRows weight = rows_of(call, call.inputs[1], 0);
  const DeviceRows bias = kIsLayer ? rows_of(call, call.inputs[2], 0) : DeviceRows();
  const DeviceRows y = rows_of(call, call.outputs[0], last);
  const DeviceRows mean = kIsLayer ? rows_of(call, call.outputs[1], kNoDim) : DeviceRows();
  const DeviceRows rstd = rows_of(call, call.outputs[kIsLayer ? 2 : 1], kNoDim);
  (kIsLayer ? layer_norm_kernels : rms_norm_kernels)
      .launch(call, {&x, &weight, &bias, &y}, x, weight, bias, y, mean, rstd, call.as<NormalizationAttributes>().eps);
}

// The gradients of the parameters, which the rows of `parts` hold.
struct Parameters {
  DeviceRows dweight, dbias;
  [[nodiscard]] std::int64_t count() const { return dbias.data != nullptr ? 2 : 1; }
};

void launch_sums(const KernelCall& call, const std::byte* parts, std::int64_t count, const Parameters& to,
                 bool is_double) {
  const auto columns = static_cast<std::uint32_t>((to.dweight.length + 31) / 32);
  launch(call, is_double ? sums_f64 : sums_f32,
         {.grid = {columns, static_cast<std::uint32_t>(to.count()), 1}, .block = {1024, 1, 1}},
         device::KernelArgs(parts, count, to.dweight, to.dbias));
}

// All gradients in one pass. Returns false if the rows do not fit.
bool launch_gradients(const KernelCall& call, NormGradientCall of, const Parameters& to) {
  const RowFormKind form = row_form({&of.x, &of.grad, &of.weight, &of.dx});
  const std::int64_t vectors = of.x.length / elements_of(form);
  if (elements_of(form) == 1 || of.x.count == 0 || vectors > kGradientVectors * kGradientThreads) return false;
  if (of.rstd.dtype != DType::kF32 || (of.mean.data != nullptr && of.mean.dtype != DType::kF32)) return false;
  const std::int64_t width = std::max(power_of_two((vectors + kGradientVectors - 1) / kGradientVectors),
                                      std::min<std::int64_t>(power_of_two(vectors), 8));
  const std::int64_t slots = kGradientThreads / width;
  const std::int64_t blocks =
      std::clamp<std::int64_t>((of.x.count + slots - 1) / slots, 1,
                               std::max<std::int64_t>(call.where.context->device.properties().multiprocessors, 1));
  const memory::Buffer parts =
      scratch(call, static_cast<std::size_t>(to.count() * blocks * of.x.length) * sizeof(float));
  of.parts = reinterpret_cast<float*>(parts.data());
  const ImageKernel* kernels = to.count() == 2 ? layer_norm_gradients : rms_norm_gradients;
  const RowThreads threads{static_cast<std::int32_t>(width), false};
  constexpr int kCells = kGradientThreads * kGradientVectors * 2 * (kGradientRowsAhead + 1);
  launch(call, kernels[static_cast<std::size_t>(form)],
         {.grid = {static_cast<std::uint32_t>(blocks), 1, 1},
          .block = {kGradientThreads, 1, 1},
          .shared_nbytes = kCells * 16},
         device::KernelArgs(threads, of));
  launch_sums(call, parts.data(), blocks, to, false);
  return true;
}

void launch_two_passes(const KernelCall& call, const NormGradientCall& of, const Parameters& to) {
  backward_kernels.launch(call, {&of.x, &of.grad, &of.weight, &of.dx}, of.grad, of.x, of.weight, of.mean, of.rstd,
                          of.dx);
  const bool is_double = of.x.dtype == DType::kF64;
  const std::int64_t rows_each = std::max(kRowsEach, (of.x.count + kMaxParts - 1) / kMaxParts);
  const std::int64_t count = (of.x.count + rows_each - 1) / rows_each;
  const memory::Buffer parts =
      scratch(call, static_cast<std::size_t>(to.count() * count * of.x.length) * (is_double ? 8 : 4));
  std::byte* data = parts.data();
  const auto columns = static_cast<std::uint32_t>((of.x.length + kThreads - 1) / kThreads);
  if (count > 0) {
    launch(call, is_double ? parts_f64 : parts_f32,
           {.grid = {columns, static_cast<std::uint32_t>(count), 1}, .block = {kThreads, 1, 1}},
           device::KernelArgs(of.grad, of.x, of.mean, of.rstd, data, rows_each));
  }
  launch_sums(call, data, count, to, is_double);
}

template <bool kIsLayer>
void backward(const KernelCall& call) {
  const int last = call.inputs[1].ndim() - 1;
  NormGradientCall of;
  of.grad = rows_of(call, call.inputs[0], last);
  of.x = rows_of(call, call.inputs[1], last);
  of.weight = rows_of(call, call.inputs[2], 0);
  if (kIsLayer) of.mean = rows_of(call, call.inputs[3], kNoDim);
  of.rstd = rows_of(call, call.inputs[kIsLayer ? 4 : 3], kNoDim);
  of.dx = rows_of(call, call.outputs[0], last);
  if (of.x.length == 0) return;
  const Parameters to = {rows_of(call, call.outputs[1], 0),
                         kIsLayer ? rows_of(call, call.outputs[2], 0) : DeviceRows()};
  if (!launch_gradients(call, of, to)) launch_two_passes(call, of, to);
}

const tensor::KernelRegistration kLayerNorm("layer_norm", "cuda", forward<true>);
const tensor::KernelRegistration kRmsNorm("rms_norm", "cuda", forward<false>);
const tensor::KernelRegistration kLayerNormBackward("layer_norm_backward", "cuda", backward<true>);
const tensor::KernelRegistration kRmsNormBackward("rms_norm_backward", "cuda", backward<false>);

}  // namespace
}  // namespace tessera::ops::cuda
