// The pulse of a process's watchdog, in the record of its rank: the launcher, and whoever reads the file, sees by it
// whether the process runs at all. A process that is stopped, or starved of every core, does not beat.
#pragma once

#include <cstdint>

#include "tessera/base/probe/recorder.h"

namespace tessera::watch::detail {

/// One a process. Whoever reads it by name (comm/launch) knows these fields.
struct HeartbeatRow {
  std::uint64_t pid;                         ///< of the process
  std::uint64_t beats;                       ///< so far
  probe::Moment when;                        ///< of the last
  std::uint64_t told;                        ///< reports that it has told of so far
  static constexpr std::uint32_t kRows = 1;  ///< of a file
  TESSERA_RECORD(HeartbeatRow, "watch_heartbeat", pid, beats, when, told)
};

}  // namespace tessera::watch::detail
