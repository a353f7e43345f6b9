// How norms over lists are computed where their tensors are cut over ranks: each rank squares the norms of the parts
// that it counts, the squares are added up, and all take the root.
#pragma once

#include "tessera/tensor/cooperation.h"

namespace tessera::ops::detail {

extern const tensor::Cooperation kForeachNormTogether;  ///< a square for each tensor
extern const tensor::Cooperation kGradNormTogether;     ///< one square

}  // namespace tessera::ops::detail
