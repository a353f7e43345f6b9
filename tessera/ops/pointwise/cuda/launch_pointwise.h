// Launches the kernels of pointwise operators (pointwise.cuh), selected by compute type and operand strides.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "tessera/ops/cuda/kernels.h"
#include "tessera/ops/detail/tiles.h"

namespace tessera::ops::cuda {

/// The kernels of a row in one type.
struct TypedKernels {
  /// Looks up the kernels whose names begin with `name` and that compute in the type of `computed`; f32 has additional
  /// kernels.
  TypedKernels(Image& image, const std::string& name, DType computed);
  ImageKernel dense;
  ImageKernel strided;
  std::optional<ImageKernel> wide;  // contiguous, for dtypes of two bytes
  std::optional<ImageKernel> rows;  // strided, in vectors
  DType dtype;                      // compute dtype
};

/// The kernels of a row (arithmetic_rows.h) by Compute; absent for types that it does not compute in.
class PointwiseKernels {
 public:
  /// Looks up the row `name`, which computes with these detail::Types.
  PointwiseKernels(Image& image, const std::string& name, unsigned types);
  /// Returns the kernels for a type that the row computes in.
  [[nodiscard]] const TypedKernels& in(detail::Compute compute) const {
    return *by_compute_[static_cast<std::size_t>(compute)];
  }

 private:
  std::array<std::unique_ptr<TypedKernels>, 4> by_compute_;
};

/// Launches over all elements of the only result of the call, with at most three inputs.
void launch_pointwise(const tensor::KernelCall& call, const TypedKernels& kernels,
                      std::span<const detail::TileInput> inputs);

}  // namespace tessera::ops::cuda
