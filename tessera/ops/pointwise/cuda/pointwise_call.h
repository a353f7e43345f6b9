// Arguments of a pointwise kernel, shared by host and device code.
#pragma once

#include <cstdint>

#include "tessera/base/dtype.h"
#include "tessera/ops/cuda/walk.h"

namespace tessera::ops::cuda {

/// Maximum number of inputs of a row.
inline constexpr int kMaxInputs = 4;
/// Elements of a vector in walks.
inline constexpr int kVector = 4;
/// Vectors that a thread has in flight in calls with contiguous operands: four of at least 16 bytes in all, or eight of
/// eight bytes.
constexpr int dense_unroll(int inputs, int vector_nbytes) {
  return (inputs == 1 ? 4 : 2) * (vector_nbytes < 16 ? 2 : 1);
}
/// Vectors that a thread has in flight in walks.
constexpr int walk_unroll(int inputs) { return inputs <= 2 ? 2 : 1; }
/// Elements of a vector of elements of `item` bytes in calls with contiguous operands.
constexpr int dense_vector(int item) { return 16 / item; }

/// An input: a tensor, one element of a tensor for all results, or a number of the compute type.
struct PointwiseOperand {
  const void* data;      // null: the input is a number
  std::uint64_t number;  // bits of the number
  DType dtype;           // dtype of the tensor
  bool is_constant;      // one value for all results
  bool is_splat;         // one value for all elements of a vector, in vectorized walks
};

/// A call with contiguous operands of the dtype of the kernel.
struct DenseCall {
  void* out;
  std::int64_t numel;
  PointwiseOperand inputs[kMaxInputs];
  bool has_vectors;  // every operand is aligned
};

/// A call with any operands.
struct WalkCall {
  void* out;
  PointwiseOperand inputs[kMaxInputs];
  std::int32_t count;  // number of inputs
  std::int32_t op;     // index of the formula in its table
  DType out_dtype;
  Walk walk;  // the result first; in vectors if the kernel uses them
};

}  // namespace tessera::ops::cuda
