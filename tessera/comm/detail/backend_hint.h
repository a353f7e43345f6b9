// The last part of errors about a feature that a backend lacks.
#pragma once

#include <functional>
#include <string>

#include "tessera/comm/communicator.h"

namespace tessera::comm::detail {

/// Returns "use backend mpi, shm or thread": the registered backends whose capabilities satisfy `has`, sorted by name.
/// Returns "no backend of this build supports it" if no backend does. `has` may be &Capabilities::has_abort.
std::string backend_hint(const std::function<bool(const Capabilities&)>& has);

}  // namespace tessera::comm::detail
