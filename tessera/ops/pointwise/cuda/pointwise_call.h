// Arguments of a pointwise kernel, shared by host and device code.
#pragma once

#include <cstdint>

#include "tessera/base/dtype.h"
#include "tessera/ops/cuda/walk.h"

namespace tessera::ops::cuda {

/// Elements per vector: 16 bytes of f32, or (kWide) of dtypes of two bytes in kernels that compute in f32.
inline constexpr int kVector = 4;
inline constexpr int kWide = 8;
/// Vectors that a thread has in flight in dense calls.
inline constexpr int kUnroll = 2;

/// An input: a tensor, one element of a tensor for all results, or a number of the compute type.
struct PointwiseOperand {
  const void* data;      // null: the input is a number
  std::uint64_t number;  // bits of the number
  DType dtype;           // dtype of the tensor
  bool is_constant;      // one value for all results
  bool is_splat;         // one value for all elements of a vector, in vectorized walks
};

/// A call with contiguous operands.
struct DenseCall {
  void* out;
  std::int64_t numel;
  PointwiseOperand inputs[3];
  DType out_dtype;
  bool has_vectors;  // every operand is aligned and has a dtype that is read in place
};

/// A call with any other operands.
struct StridedCall {
  void* out;
  PointwiseOperand inputs[3];
  DType out_dtype;
  Walk walk;  // the result first; in vectors if the kernel uses them
};

}  // namespace tessera::ops::cuda
