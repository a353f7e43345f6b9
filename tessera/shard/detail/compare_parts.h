// What the ranks of a mesh tell each other of parts that are to make one tensor: a card each of dtype, layout, sizes
// and a digest of the bytes. All ranks see all cards, so that all come to the same shape or throw the same error.
#pragma once

#include <optional>

#include "tessera/base/shape.h"
#include "tessera/layout/layout.h"
#include "tessera/tensor/tensor.h"

namespace tessera::shard::detail {

/// The shape of the whole that these parts make: `given`, or computed. MismatchError names ranks whose dtype, layout,
/// number of dimensions, given shape or size of the part do not fit those of the others; with `compares_bytes` also
/// those whose replica has other bytes. Waits for the current stream. `what` asks,
/// and begins errors.
Shape compare_parts(const char* what, const Tensor& local, const layout::Layout& layout,
                    const std::optional<Shape>& given, bool compares_bytes);

/// Refuses a part that is not what the layout gives this rank of such a whole.
void check_part(const Tensor& local, const layout::Layout& layout, const Shape& shape);

}  // namespace tessera::shard::detail
