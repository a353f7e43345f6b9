// The code that computes on this machine. Ranks that compute the same values must use the same instruction set and the
// same kind of products, because different code rounds differently. Internal to the library: a trainer compares these
// texts between ranks. Thread-safe; a process always returns the same texts.
#pragma once

#include <string>

#include "tessera/base/export.h"

namespace tessera::ops::detail {

/// Returns the name of the target that kernels are dispatched to on this machine: "AVX2", "AVX3_ZEN4".
TESSERA_API std::string instruction_set();
/// Returns the library and instructions of bf16 products: "oneDNN 2.6.3 (AMX tiles)", "converted to f32".
TESSERA_API std::string bf16_products_text();

}  // namespace tessera::ops::detail
