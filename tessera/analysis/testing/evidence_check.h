// Invariants of any Evidence, which its consumers rely on.
#pragma once

#include <string>

#include "tessera/analysis/evidence.h"

namespace tessera::analysis::testing {

/// Returns the first violation in one line; empty if none.
std::string inconsistency(const Evidence& evidence);

}  // namespace tessera::analysis::testing
