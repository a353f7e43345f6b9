// Dropout: each element becomes 0 with some probability, and what is left is scaled so that the mean stays.
#pragma once

#include "tessera/base/export.h"
#include "tessera/tensor/tensor.h"

namespace tessera::ops {

/// x with elements dropped with the probability `p`; x itself where p is 0 or it is not training. Which elements
/// depends on the seed, the number of the call and their global index alone. `counter`: see bernoulli_like.
TESSERA_API Tensor dropout(const Tensor& x, double p, bool is_training = true, const Tensor& counter = {});

}  // namespace tessera::ops
