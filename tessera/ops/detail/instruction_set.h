// The instruction set of the vectorized kernels. Ranks that compute the same values must use the same instruction set,
// because kernels for different instruction sets round differently.
#pragma once

#include <string>

#include "tessera/base/export.h"

namespace tessera::ops::detail {

/// Returns the name of the target that kernels are dispatched to on this machine: "AVX2", "AVX3_ZEN4".
TESSERA_API std::string instruction_set();

}  // namespace tessera::ops::detail
