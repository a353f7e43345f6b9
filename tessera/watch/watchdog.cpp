#include "tessera/watch/watchdog.h"

#include "tessera/watch/detail/watchdog.h"

namespace tessera::watch {

std::string to_string(GroupPhase standing) {
  switch (standing) {
    case GroupPhase::kIdle: return "idle";
    case GroupPhase::kOwnStream: return "own stream";
    case GroupPhase::kPeer: return "peer";
    case GroupPhase::kMoving: return "moving";
    case GroupPhase::kUnnoticed: return "unnoticed";
  }
  return "unknown";
}

std::vector<GroupStanding> standing() { return detail::Watchdog::of_process()->standing(); }

}  // namespace tessera::watch
