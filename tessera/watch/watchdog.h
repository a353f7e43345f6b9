// The watchdog: one thread of the process looks at all ranks and groups in it, ten times a second, without touching
// what they do. It starts with the first rank that looks for others and ends last (docs/watchdog.md).
//
//   asked, not begun      the operation waits behind other work of this rank's own stream
//   begun, not all came   it waits for a peer
//   all came, not ended   it moves, slowly
//   ended, not noticed    nobody on the host has waited for it yet
//
// When something ended in vain (a deadline, a peer that is gone, an abort, ranks that differ), or waits behind its own
// stream for longer than the deadline, one line goes to stderr and the full report into the run directory; then what
// GroupOptions::on_hang says.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "tessera/base/export.h"

namespace tessera::watch {

/// What a group of a rank is at.
enum class Standing : std::uint8_t {
  kIdle,       ///< all that was asked for has ended, and was waited for
  kOwnStream,  ///< the next has not begun: it waits behind other work of its stream
  kPeer,       ///< it has begun, and waits for a peer
  kMoving,     ///< all have come, and bytes move
  kUnnoticed,  ///< the last has ended, and nobody on the host has waited for it
};
/// "idle", "own stream", "peer", "moving", "unnoticed".
TESSERA_API std::string to_string(Standing standing);

/// A group as the watchdog saw it when it last looked.
struct GroupStanding {
  int rank = 0;                         ///< in the world, whose group it is
  std::string group = {};               ///< name
  Standing standing = Standing::kIdle;  ///< what it is at
  std::string operation = {};           ///< the last that has begun: "all_reduce(f32[8], sum)"; empty: none has
  std::chrono::nanoseconds since{0};    ///< for how long nothing has changed
};
/// All groups of this process, by rank.
TESSERA_API std::vector<GroupStanding> standing();

/// What a process exits with that was told to exit at a deadline (OnHang::kExit).
inline constexpr int kExitOnHang = 124;

}  // namespace tessera::watch
