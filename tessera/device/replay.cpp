#include "tessera/device/replay.h"

namespace tessera::device::detail {

constinit thread_local RunningNode running_node = {};

}  // namespace tessera::device::detail
