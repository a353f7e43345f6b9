// Copies of elements as bytes, independent of dtype: between any strides, or one element to all of a tensor.
#pragma once

#include "tessera/ops/cuda/kernels.h"

namespace tessera::ops::cuda {

/// Copies `from` to `to`, of the same shape (or broadcast to it) and dtype, on the call's stream.
void copy_items(const tensor::KernelCall& call, const Tensor& to, const Tensor& from);
/// Writes the element with the bytes `item` to all elements of `to`.
void fill_items(const tensor::KernelCall& call, const Tensor& to, std::span<const std::byte> item);

}  // namespace tessera::ops::cuda
