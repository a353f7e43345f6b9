// Cooperation of ranks on a loss: sharded classes (a row of logits is never gathered), and sharded rows whose mean is
// requested. The ranks exchange two values per row and two for all rows, in f32 (f64 for f64).
#pragma once

#include "tessera/tensor/cooperation.h"

namespace tessera::ops::detail {

/// Along classes: reduces the greatest logsumexp of the shards and their contributions, then the sum of exponentials.
/// Along rows, for a mean: reduces the sum of losses and the number of rows that count.
extern const tensor::Cooperation kCrossEntropyTogether;
extern const tensor::Cooperation kLinearCrossEntropyTogether;  ///< as kCrossEntropyTogether
extern const tensor::Cooperation kCountTargetsTogether;        ///< reduces the count

}  // namespace tessera::ops::detail
