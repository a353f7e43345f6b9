// How pointwise operators get to their kernels (pointwise.cuh): by the type they compute in and how operands lie.
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
  /// Those whose names begin with `name`, which compute in the type of `computed`; f32 has more of them.
  TypedKernels(Image& image, const std::string& name, DType computed);
  Kernel dense;
  Kernel strided;
  std::optional<Kernel> wide;  // dense, of dtypes of two bytes
  std::optional<Kernel> rows;  // strided, in vectors
  DType dtype;                 // what is computed in
};

/// The kernels of a row (arithmetic_rows.h) by Compute; none where it does not compute in it.
class PointwiseKernels {
 public:
  /// Of the row `name`, which computes with these detail::Types.
  PointwiseKernels(Image& image, const std::string& name, unsigned types);
  /// In a type that the row computes in.
  [[nodiscard]] const TypedKernels& in(detail::Compute compute) const {
    return *by_compute_[static_cast<std::size_t>(compute)];
  }

 private:
  std::array<std::unique_ptr<TypedKernels>, 4> by_compute_;
};

/// Launches over all elements of the call's only result; at most three inputs.
void launch_pointwise(const tensor::KernelCall& call, const TypedKernels& kernels,
                      std::span<const detail::TileInput> inputs);

}  // namespace tessera::ops::cuda
