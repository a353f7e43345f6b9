#include "tessera/watch/watchdog.h"

#include "tessera/watch/detail/watchdog.h"

namespace tessera::watch {

std::string to_string(Standing standing) {
  switch (standing) {
    case Standing::kIdle: return "idle";
    case Standing::kOwnStream: return "own stream";
    case Standing::kPeer: return "peer";
    case Standing::kMoving: return "moving";
    case Standing::kUnnoticed: return "unnoticed";
  }
  return "unknown";
}

std::vector<GroupStanding> standing() { return detail::Watchdog::of_process()->standing(); }

}  // namespace tessera::watch
