// Conversion of plain gradients to gradients with a layout.
#pragma once

#include "tessera/layout/mesh.h"
#include "tessera/tensor/tensor.h"

namespace tessera::shard::detail {

/// Returns the gradient of a tensor on `mesh`: itself, or a replicated tensor for one plain element that is equal on
/// every rank (the 1 that backward starts from). Throws InvalidArgument for any other plain tensor.
Tensor laid_out(const Tensor& gradient, const layout::Mesh& mesh);

}  // namespace tessera::shard::detail
