// Cooperation of ranks on rows that are sharded: softmax and the norms along a sharded dimension. Statistics are one or
// two values per row, in f32 (f64 for f64).
#pragma once

#include "tessera/tensor/cooperation.h"

namespace tessera::ops::detail {

extern const tensor::Cooperation kSoftmaxTogether;             ///< max, sum of exponentials
extern const tensor::Cooperation kLogSoftmaxTogether;          ///< max, sum of exponentials
extern const tensor::Cooperation kSoftmaxBackwardTogether;     ///< sum of gradient times result
extern const tensor::Cooperation kLogSoftmaxBackwardTogether;  ///< sum of the gradient
extern const tensor::Cooperation kLayerNormTogether;           ///< sum, then sum of squared deviations
extern const tensor::Cooperation kRmsNormTogether;             ///< sum of squares
extern const tensor::Cooperation kLayerNormBackwardTogether;   ///< two sums of products
extern const tensor::Cooperation kRmsNormBackwardTogether;     ///< one sum of products

}  // namespace tessera::ops::detail
