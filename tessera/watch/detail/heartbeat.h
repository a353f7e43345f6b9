// The heartbeat of the watchdog of a process, in the record of its rank: it shows the launcher and other readers
// whether the process runs. A stopped process, or one without CPU time, has no heartbeat.
#pragma once

#include <cstdint>

#include "tessera/base/probe/recorder.h"

namespace tessera::watch::detail {

/// One row per process. Readers by name (comm/launch) depend on these fields.
struct HeartbeatRow {
  std::uint64_t pid;
  std::uint64_t beats;                       ///< Number of heartbeats so far.
  probe::Moment when;                        ///< Time of the last heartbeat.
  std::uint64_t told;                        ///< Number of reports printed so far.
  static constexpr std::uint32_t kRows = 1;  ///< Rows per file.
  TESSERA_RECORD(HeartbeatRow, "watch_heartbeat", pid, beats, when, told)
};

}  // namespace tessera::watch::detail
