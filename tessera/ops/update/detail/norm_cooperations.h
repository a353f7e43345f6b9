// How norms over lists are computed where their tensors are cut over ranks: each rank raises the norms of the parts
// that it counts to the power of p, these are added up, and all take the root; for an infinite p they are compared.
#pragma once

#include "tessera/tensor/cooperation.h"

namespace tessera::ops::detail {

extern const tensor::Cooperation kForeachNormTogether;  ///< a number for each tensor
extern const tensor::Cooperation kGradNormTogether;     ///< one number

}  // namespace tessera::ops::detail
