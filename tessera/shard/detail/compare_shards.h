// Comparison of the shards that form one tensor. The ranks of a mesh exchange a card each with dtype, layout, sizes and
// a digest of the bytes. All ranks see all cards, so all compute the same shape or throw the same error.
#pragma once

#include <optional>

#include "tessera/base/shape.h"
#include "tessera/layout/layout.h"
#include "tessera/tensor/tensor.h"

namespace tessera::shard::detail {

/// Returns the global shape of these shards: `given`, or computed. Throws MismatchError with the ranks whose dtype,
/// layout, number of dimensions, given shape or shard size does not match the others; with `compares_bytes`, also if
/// replicas have different bytes. Waits for the current stream. `what` is the caller and begins errors.
Shape compare_shards(const char* what, const Tensor& local, const layout::Layout& layout,
                     const std::optional<Shape>& given, bool compares_bytes);

/// Throws if `local` is not the shard that the layout gives this rank of a tensor of this shape.
void check_part(const Tensor& local, const layout::Layout& layout, const Shape& shape);

}  // namespace tessera::shard::detail
