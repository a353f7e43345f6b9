// Trading time for memory: what the calls inside a checkpoint would save is dropped, and computed again when backward
// first needs it, with the same random numbers.
//
// The calls are recorded as ever, so gradients of chosen inputs, second derivatives and hooks work as without. Only the
// inputs are kept. Checkpoints nest: an inner one's inputs are then among what the outer one drops. The body must do
// the same again when it is called again; that it saves tensors of other shapes or dtypes the second time is an error.
// The generator is the rank's: other threads of it should not draw while a body that draws is computed again.
#pragma once

#include <functional>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/tensor/tensor.h"

namespace tessera::autograd {

/// A stretch of computation. May hold parameters; is kept and called again in backward.
using CheckpointBody = std::function<std::vector<Tensor>(const std::vector<Tensor>& inputs)>;

/// body(inputs), saving only the inputs.
TESSERA_API std::vector<Tensor> checkpoint(CheckpointBody body, const std::vector<Tensor>& inputs);

}  // namespace tessera::autograd
