// Launches the kernels of pointwise operators (pointwise.cuh), selected by the dtypes, strides and addresses of the
// operands.
#pragma once

#include <span>
#include <string>

#include "tessera/ops/cuda/kernels.h"
#include "tessera/ops/detail/tiles.h"

namespace tessera::ops::cuda {

/// A kernel for contiguous operands: all tensors have the dtype `from`, except a mask, and the result has the dtype
/// `to`.
struct DenseKernel {
  DType from;
  DType to;
  int width;  // elements of a vector
  ImageKernel kernel;
};

/// The kernels that a call may use.
struct PointwiseKernels {
  detail::Compute compute;
  std::span<const DenseKernel> dense;  // may be empty
  const ImageKernel* rows;             // for vectors; may be null
  const ImageKernel& any;
  unsigned types;  // detail::Types of the formula
  int op;          // index of the formula, for kernels of all formulas of a table
};

/// The kernels for all formulas of a table.
struct FamilyKernels {
  /// Looks up the kernels of the table `name`.
  FamilyKernels(Image& image, const std::string& name);
  ImageKernel any[4];   // by compute type: any dtypes and strides
  ImageKernel rows[3];  // by compute type above f32: vectors
};

/// The kernels of one formula.
class FormulaKernels {
 public:
  /// Looks up the formula `name`, the one with index `op` in its table, which computes with these detail::Types.
  FormulaKernels(Image& image, const std::string& name, int op, unsigned types, const FamilyKernels& family);
  /// Returns the kernels for calls that compute in a type.
  [[nodiscard]] PointwiseKernels in(detail::Compute compute) const;

 private:
  DenseKernel dense_[2];
  ImageKernel rows_;
  const FamilyKernels& family_;
  unsigned types_;
  int op_;
};

/// Launches over all elements of the only result of the call.
void launch_pointwise(const tensor::KernelCall& call, const PointwiseKernels& kernels,
                      std::span<const detail::TileInput> inputs);

}  // namespace tessera::ops::cuda
