// Reduction of gradients. Backward does not reduce: a gradient is *partial* along the axes whose ranks each hold a
// summand. It flows on and accumulates in leaves without communication. Sums are computed on request:
//
//   backward(loss);                        // micro-batches: leaves accumulate
//   reduce_gradients(params);              // one launch for each kind of step and group
//   grad_norm(grads, 1.0), adamw_(...);    // reject partial gradients
//
// Nothing is divided: the mean of a loss over sharded rows is a partial sum divided by the global count.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/tensor/tensor.h"

namespace tessera::shard {

/// Returns `x`. In backward, sums the gradient along those of the named mesh axes along which it is partial. Without
/// names, all axes count. All ranks of the mesh run backward together, as for redistribute(). Differentiable twice.
TESSERA_API Tensor settle(const Tensor& x, const std::vector<std::string>& axes = {});

/// Reduces the gradients of leaves, so that each gradient has the layout of its leaf. It uses an all-reduce or, if the
/// leaf is sharded along an axis on which the gradient has another placement, the cheapest steps. There is one launch
/// for each kind of step and group. Leaves without a gradient or with a reduced one, and plain leaves, stay unchanged.
/// All ranks pass the same leaves in the same order.
TESSERA_API void reduce_gradients(std::span<const Tensor> leaves);

}  // namespace tessera::shard
