// Invariants of any Evidence, which its consumers rely on.
#pragma once

#include <string>

#include "tessera/record/evidence.h"

namespace tessera::record::testing {

/// Returns the first violation in one line; empty if none.
std::string inconsistency(const Evidence& evidence);

}  // namespace tessera::record::testing
