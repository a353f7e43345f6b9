// Norms over lists of sharded tensors. Each rank raises the norms of its shards to the power of p, the ranks sum these
// values, and all take the root. For an infinite p, the ranks take the maximum.
#pragma once

#include "tessera/tensor/cooperation.h"

namespace tessera::ops::detail {

extern const tensor::Cooperation kForeachNormTogether;  ///< a number for each tensor
extern const tensor::Cooperation kGradNormTogether;     ///< one number

}  // namespace tessera::ops::detail
