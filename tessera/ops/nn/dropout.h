// Dropout: sets each element to 0 with a given probability, and scales the other elements so that the mean is
// unchanged.
#pragma once

#include "tessera/base/export.h"
#include "tessera/tensor/tensor.h"

namespace tessera::ops {

/// Returns x with each element dropped with probability `p`; x itself if p is 0 or `is_training` is false. The dropped
/// elements depend only on the seed, the call number and their global index. `counter` is that of bernoulli_like
/// (random.h).
TESSERA_API Tensor dropout(const Tensor& x, double p, bool is_training = true, const Tensor& counter = {});

}  // namespace tessera::ops
