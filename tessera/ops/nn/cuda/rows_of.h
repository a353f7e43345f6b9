// Converts tensors to the arguments of row kernels, and selects the form of a kernel for a call.
#pragma once

#include <memory>

#include "tessera/ops/cuda/kernels.h"
#include "tessera/ops/nn/cuda/device_rows.h"

namespace tessera::ops::cuda {

/// Each element is a row: the `dim` of rows_of() for one value per row.
inline constexpr int kNoDim = -1;

/// Returns the rows of a tensor along `dim`, last of the other dimensions fastest. With kNoDim, each element is a row.
/// May be empty.
DeviceRows rows_of(const tensor::KernelCall& call, const Tensor& tensor, int dim);
/// Returns `count` rows of contiguous memory.
DeviceRows dense_rows(std::byte* data, DType dtype, std::int64_t count, std::int64_t length);

/// How a kernel reads rows. Vectors are 16 bytes of contiguous elements.
enum class RowFormKind : std::uint8_t { kFloat, kBf16, kF16, kAny, kDouble };
/// Number of forms, and of those that read vectors, which are first.
inline constexpr std::size_t kRowForms = 5;
inline constexpr std::size_t kVectorForms = 3;
/// Returns the form that reads vectors of a dtype; kDouble if none does.
constexpr RowFormKind vector_form(DType dtype) {
  return dtype == DType::kF64    ? RowFormKind::kDouble
         : dtype == DType::kF32  ? RowFormKind::kFloat
         : dtype == DType::kBF16 ? RowFormKind::kBf16
                                 : RowFormKind::kF16;
}
/// Returns the form for these operands, which are read along rows and have the dtype of the first. Absent operands are
/// ignored.
RowFormKind row_form(std::initializer_list<const DeviceRows*> all);
/// Returns the form for operands that are contiguous rows at any address, if the rows of all begin at the same element
/// of a vector.
RowFormKind shifted_form(std::initializer_list<const DeviceRows*> all);
/// Returns the number of elements per load.
constexpr std::int64_t elements_of(RowFormKind form) {
  return form == RowFormKind::kFloat ? 4 : form < RowFormKind::kAny ? 8 : 1;
}
/// Returns the smallest power of two that is at least `n`.
std::int64_t power_of_two(std::int64_t n);

/// The forms of one row kernel (row_groups.cuh). Every kernel has the parameter RowThreads first.
class CudaRowKernels {
 public:
  /// How a kernel reads a row.
  enum class Reads : std::uint8_t {
    kHeld,   // once; it has additional forms that hold rows in registers, and reads rows that do not fit again
    kAgain,  // at every pass
    kOnce,   // in its only pass, in vectors at any address
  };
  /// Looks up the kernels of "softmax": softmax_float_held, softmax_any_long and so on.
  CudaRowKernels(Image& image, const std::string& name, Reads reads = Reads::kHeld);
  /// Launches the suitable form. `all` are the operands that are read along rows; the first has the rows of the call.
  template <class... T>
  void launch(const tensor::KernelCall& call, std::initializer_list<const DeviceRows*> all, const T&... args) const {
    const DeviceRows& first = **all.begin();
    if (first.count == 0) return;
    const Choice choice = choose(call, first, reads_ == Reads::kOnce ? shifted_form(all) : row_form(all));
    cuda::launch(call, *choice.kernel, choice.config, device::KernelArgs(choice.threads, args...));
  }

 private:
  struct Choice {
    const ImageKernel* kernel;
    RowThreads threads;
    device::LaunchConfig config;
  };
  [[nodiscard]] Choice choose(const tensor::KernelCall& call, const DeviceRows& rows, RowFormKind form) const;

  Reads reads_;
  std::unique_ptr<const ImageKernel> held_[kVectorForms];  // by RowFormKind, with Reads::kHeld
  std::unique_ptr<const ImageKernel> long_[kRowForms];     // by RowFormKind
};

}  // namespace tessera::ops::cuda
