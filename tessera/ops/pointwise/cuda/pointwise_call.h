// What a launch of a pointwise kernel is given; the same for host and device code.
#pragma once

#include <cstdint>

#include "tessera/base/dtype.h"
#include "tessera/ops/cuda/walk.h"

namespace tessera::ops::cuda {

/// Elements that a thread takes together: 16 bytes of f32, or of anything in kernels that compute in f32 from dtypes of
/// two bytes (kWide).
inline constexpr int kVector = 4;
inline constexpr int kWide = 8;
/// Vectors that a thread has under way at once in dense calls.
inline constexpr int kUnroll = 2;

/// An input: a tensor, one element of a tensor for all results, or a number of the type computed in.
struct PointwiseOperand {
  const void* data;      // null: a number
  std::uint64_t number;  // its bits
  DType dtype;           // of the tensor
  bool is_constant;      // one value for all results
  bool is_splat;         // one value for all elements of a vector, in walks by vectors
};

/// Elements that lie dense in all operands.
struct DenseCall {
  void* out;
  std::int64_t numel;
  PointwiseOperand inputs[3];
  DType out_dtype;
  bool has_vectors;  // every operand is aligned, and of a dtype that is read in place
};

/// Any others.
struct StridedCall {
  void* out;
  PointwiseOperand inputs[3];
  DType out_dtype;
  Walk walk;  // the result first; of vectors where the kernel takes them
};

}  // namespace tessera::ops::cuda
