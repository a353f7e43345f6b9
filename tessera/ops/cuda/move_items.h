// Copies of elements as bytes, independent of dtype: between any strides, or one element to all of a tensor.
//
// A copy along different contiguous dimensions goes through tiles in shared memory. Several copies with few dimensions
// are one launch.
#pragma once

#include "tessera/ops/cuda/kernels.h"
#include "tessera/ops/cuda/walk.h"

namespace tessera::ops::cuda {

/// A copy between arrays of items: writes operand 0 of the walk and reads operand 1. If `from` is null, it fills.
struct ItemMove {
  Walk walk;
  std::byte* to = nullptr;
  const std::byte* from = nullptr;
};

/// Copies `from` to `to`, of the same shape (or broadcast to it) and dtype, on the call's stream.
void copy_items(const tensor::KernelCall& call, const Tensor& to, const Tensor& from);
/// Makes the moves, which must not overlap, of items of `item` bytes. Fills use the bytes of `value`.
void move_items(const tensor::KernelCall& call, std::span<const ItemMove> moves, std::int64_t item,
                std::span<const std::byte> value = {});
/// Writes the element with the bytes `item` to all elements of `to`.
void fill_items(const tensor::KernelCall& call, const Tensor& to, std::span<const std::byte> item);

}  // namespace tessera::ops::cuda
