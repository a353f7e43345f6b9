// Activation checkpointing: calls inside a checkpoint save nothing. When backward first needs a saved tensor, the body
// runs again with the same random numbers.
//
// The calls are recorded as usual, so gradients of chosen inputs, second derivatives and hooks work
// unchanged. Only the inputs are kept. Checkpoints nest: the outer checkpoint then also drops the inputs
// of the inner one. The body must repeat the same computation; if it saves tensors of other shapes or
// dtypes the second time, backward throws. The random generator belongs to the rank: other threads of
// the rank should not use it while a body that uses it runs again.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/tensor/tensor.h"

namespace tessera::autograd {

/// A computation. It may hold parameters. It is kept and called again in backward.
using CheckpointBody = std::function<std::vector<Tensor>(const std::vector<Tensor>& inputs)>;

/// Options of checkpoint().
struct CheckpointOptions {
  /// Names of operators whose results are kept instead of computed again, such as "scaled_dot_product_attention".
  std::vector<std::string> kept_operators = {};
};

/// Returns body(inputs). Saves only the inputs, and the results of kept operators, for backward.
TESSERA_API std::vector<Tensor> checkpoint(CheckpointBody body, const std::vector<Tensor>& inputs,
                                           const CheckpointOptions& options = {});

}  // namespace tessera::autograd
