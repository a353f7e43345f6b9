#include "tessera/watch/watchdog.h"

#include "tessera/watch/detail/watchdog.h"

namespace tessera::watch {

std::string to_string(GroupStanding standing) {
  switch (standing) {
    case GroupStanding::kIdle: return "idle";
    case GroupStanding::kOwnStream: return "own stream";
    case GroupStanding::kPeer: return "peer";
    case GroupStanding::kMoving: return "moving";
    case GroupStanding::kUnnoticed: return "unnoticed";
  }
  return "unknown";
}

std::vector<GroupStanding> standing() { return detail::Watchdog::of_process()->standing(); }

}  // namespace tessera::watch
