// What must hold for any Evidence, whatever it was read from: those who explain it rely on it.
#pragma once

#include <string>

#include "tessera/record/evidence.h"

namespace tessera::record::testing {

/// What does not hold together, in a line; empty: nothing.
std::string inconsistency(const Evidence& evidence);

}  // namespace tessera::record::testing
