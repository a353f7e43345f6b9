// The watchdog: one thread per process that polls all its ranks and groups every 100 ms without affecting them. It
// starts with the first rank that connects to others and ends last (docs/watchdog.md).
//
//   enqueued, not started        the operation waits for earlier work on the stream of its own rank
//   started, not all arrived     it waits for a peer
//   all arrived, not finished    it transfers data, slowly
//   finished, not noticed        no host thread has waited for it yet
//
// If an operation fails (deadline, lost peer, abort, mismatch), or waits for its own stream beyond the deadline, the
// watchdog prints one line to stderr and writes the full report to the run directory. GroupOptions::on_hang then
// selects the reaction.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "tessera/base/export.h"

namespace tessera::watch {

/// State of a group of one rank.
enum class GroupPhase : std::uint8_t {
  kIdle,       ///< All launches have finished and were waited for.
  kOwnStream,  ///< The next launch has not started: it waits for earlier work on its stream.
  kPeer,       ///< It has started and waits for a peer.
  kMoving,     ///< All ranks have arrived, and bytes are transferred.
  kUnnoticed,  ///< The last launch has finished, and no host thread has waited for it.
};
/// Returns "idle", "own stream", "peer", "moving" or "unnoticed".
TESSERA_API std::string to_string(GroupPhase standing);

/// A group as the watchdog last saw it.
struct GroupStanding {
  int rank = 0;                             ///< World rank of the member.
  std::string group = {};                   ///< Name of the group.
  GroupPhase standing = GroupPhase::kIdle;  ///< State of the group.
  std::string operation = {};               ///< Last started operation: "all_reduce(f32[8], sum)"; empty if none.
  std::chrono::nanoseconds since{0};        ///< Time without a change.
};
/// Returns the state of all groups of this process, by rank.
TESSERA_API std::vector<GroupStanding> standing();

/// Exit code of a process that OnHang::kExit ends at a deadline.
inline constexpr int kExitOnHang = 124;

}  // namespace tessera::watch
