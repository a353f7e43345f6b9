// Gradients that come in without a layout.
#pragma once

#include "tessera/layout/mesh.h"
#include "tessera/tensor/tensor.h"

namespace tessera::shard::detail {

/// The gradient of a tensor on `mesh`: itself, or, for one plain element that every rank made alike (the 1 that
/// backward starts from), a replicated one. InvalidArgument for any other plain tensor.
Tensor laid_out(const Tensor& gradient, const layout::Mesh& mesh);

}  // namespace tessera::shard::detail
