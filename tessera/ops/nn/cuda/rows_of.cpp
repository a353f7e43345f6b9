#include "tessera/ops/nn/cuda/rows_of.h"

namespace tessera::ops::cuda {
namespace {

// Number of warps per block for short rows.
constexpr std::uint32_t kWarps = 4;

std::uint32_t long_threads(std::int64_t length) { return length <= 4096 ? 256 : length <= 16384 ? 512 : 1024; }

}  // namespace

DeviceRows rows_of(const tensor::KernelCall& call, const Tensor& tensor, int dim) {
  DeviceRows rows;
  if (!tensor) return rows;
  rows.data = tensor.data();
  rows.dtype = tensor.dtype();
  for (int i = 0; i < tensor.ndim(); ++i) {
    const auto at = static_cast<std::size_t>(i);
    const std::int64_t size = tensor.shape()[at];
    const std::int64_t stride = tensor.strides()[at];
    if (i == dim) {
      rows.step = size == 1 ? 1 : stride;
      rows.length = size;
      continue;
    }
    rows.count *= size;
    if (size == 1) continue;
    if (rows.ndim > 0 && rows.strides[rows.ndim - 1] == stride * size) {
      rows.sizes[rows.ndim - 1] *= size;
      rows.strides[rows.ndim - 1] = stride;
      continue;
    }
    TESSERA_CHECK_AS(NotSupported, rows.ndim < kMaxRowDims, call.op.name(), ": a tensor must have at most ",
                     kMaxRowDims, " dimensions that cannot be merged, got ", describe(tensor), "; make it contiguous");
    rows.sizes[rows.ndim] = size;
    rows.strides[rows.ndim++] = stride;
  }
  return rows;
}

CudaRowKernels::CudaRowKernels(Image& image, const std::string& name)
    : short1_(image, name + "_f32_short1"),
      short4_(image, name + "_f32_short4"),
      short8_(image, name + "_f32_short8"),
      long1_(image, name + "_f32_long1"),
      long4_(image, name + "_f32_long4"),
      long8_(image, name + "_f32_long8"),
      double_short_(image, name + "_f64_short1"),
      double_long_(image, name + "_f64_long1") {}

const ImageKernel& CudaRowKernels::form(std::initializer_list<const DeviceRows*> all) const {
  const DeviceRows& first = **all.begin();
  const bool is_short = first.length <= kShortRow;
  if (first.dtype == DType::kF64) return is_short ? double_short_ : double_long_;
  const auto fits = [&](std::int64_t n) {
    for (const DeviceRows* rows : all) {
      if (rows->data != nullptr && !rows->has_vectors(n)) return false;
    }
    return true;
  };
  // 16 bytes per load: four f32 or eight of a half type.
  if (itemsize(first.dtype) == 2 && fits(8)) return is_short ? short8_ : long8_;
  if (fits(4)) return is_short ? short4_ : long4_;
  return is_short ? short1_ : long1_;
}

device::LaunchConfig CudaRowKernels::config(const tensor::KernelCall& call, const DeviceRows& rows) {
  if (rows.length <= kShortRow)
    return {.grid = {blocks_for(call, rows.count, kWarps), 1, 1}, .block = {32 * kWarps, 1, 1}};
  return {.grid = {blocks_for(call, rows.count, 1), 1, 1}, .block = {long_threads(rows.length), 1, 1}};
}

}  // namespace tessera::ops::cuda
