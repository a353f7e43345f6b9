// Settling gradients. Backward leaves partial sums as they are: a gradient is *pending* along axes whose ranks each
// hold a summand of it, and flows on like that, and leaves accumulate it, without a word between ranks. Sums are taken
// where one asks for them:
//
//   backward(loss);                        // micro-batches: leaves accumulate
//   reduce_gradients(params);              // one launch for each kind of step and group
//   grad_norm(grads, 1.0), adamw_(...);    // which refuse what is pending
//
// Nothing is divided: the mean of a loss over cut rows is a partial sum over the count of all of them.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/tensor/tensor.h"

namespace tessera::shard {

/// x itself. On the way back, what its gradient is pending along these axes of the mesh, by name, is settled: summed up
/// by all ranks along them. No names: along all axes. Ranks of the mesh run backward together, as for redistribute().
/// Differentiable twice.
TESSERA_API Tensor settle(const Tensor& x, const std::vector<std::string>& axes = {});

/// Settles the gradients of leaves: each comes to have the layout of its leaf, by an all-reduce or, where the leaf is
/// cut along an axis that the gradient was put elsewhere along, whatever is cheapest. All together: one launch for each
/// kind of step and group. Leaves without a gradient, with one that is settled, and plain ones stay as they are. All
/// ranks give the same leaves in the same order.
TESSERA_API void reduce_gradients(std::span<const Tensor> leaves);

}  // namespace tessera::shard
