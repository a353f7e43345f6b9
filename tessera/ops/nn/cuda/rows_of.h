// Converts tensors to the arguments of row kernels, and selects the form of a kernel for a call.
#pragma once

#include "tessera/ops/cuda/kernels.h"
#include "tessera/ops/nn/cuda/device_rows.h"

namespace tessera::ops::cuda {

/// Returns the rows of a tensor along `dim`, last of the other dimensions fastest. With -1, each element is a row. May
/// be empty.
DeviceRows rows_of(const tensor::KernelCall& call, const Tensor& tensor, int dim);

/// The forms of one row kernel: for short rows (one warp each, in registers) and long rows (one block each), by the
/// number of elements per load. f64 loads one at a time.
class CudaRowKernels {
 public:
  /// Looks up the kernels of "softmax": softmax_f32_short1, softmax_f32_long8 and so on.
  CudaRowKernels(Image& image, const std::string& name);
  /// Launches the suitable form. `all` are the operands that are read along rows, with `count` rows.
  template <class... T>
  void launch(const tensor::KernelCall& call, std::initializer_list<const DeviceRows*> all, const T&... args) const {
    const DeviceRows& first = **all.begin();
    if (first.count == 0) return;
    cuda::launch(call, form(all), config(call, first), device::KernelArgs(args...));
  }

 private:
  [[nodiscard]] const ImageKernel& form(std::initializer_list<const DeviceRows*> all) const;
  [[nodiscard]] static device::LaunchConfig config(const tensor::KernelCall& call, const DeviceRows& rows);

  ImageKernel short1_, short4_, short8_, long1_, long4_, long8_, double_short_, double_long_;
};

}  // namespace tessera::ops::cuda
