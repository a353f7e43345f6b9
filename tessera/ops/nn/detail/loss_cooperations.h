// How ranks work together on a loss: classes that are cut (the logits of a row never come together), and rows that are
// cut where their mean is asked for. Statistics are two values a row and two for all rows, in f32 (f64 for f64).
#pragma once

#include "tessera/tensor/cooperation.h"

namespace tessera::ops::detail {

/// Along classes: greatest logsumexp of a part and what parts take off, then the sum of their exponentials. Along rows,
/// of a mean: the sum of losses, and how many count.
extern const tensor::Cooperation kCrossEntropyTogether;
extern const tensor::Cooperation kLinearCrossEntropyTogether;  ///< likewise
extern const tensor::Cooperation kCountTargetsTogether;        ///< the count

}  // namespace tessera::ops::detail
