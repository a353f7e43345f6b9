// State of a rank for assigning blame: active, ended because of others, or ended by its own fault.
#pragma once

#include <cstdint>

#include "tessera/analysis/evidence.h"

namespace tessera::analysis::detail {

/// State of a rank.
enum class RankPosition : std::uint8_t {
  kAtWork,   ///< It runs, or is not known to have ended.
  kEnded,    ///< It ended without an error.
  kVictim,   ///< It ended because of others: a deadline, an abort or a mismatch in a group.
  kTold,     ///< SIGTERM requested its end, or the launcher killed it.
  kStopped,  ///< Its process was stopped.
  kGone,     ///< It died, or failed by its own error.
  kMissing,  ///< Nothing is known about it.
};
/// Returns the state from the recorded state, the error message and the results of launches.
RankPosition standing_of(const Rank& rank);

/// Returns true if only the launcher, or nothing, provides evidence of it.
bool left_no_record(const Rank& rank);
/// Returns true if other ranks caused the failure of a launch.
bool failed_by_others(const CollectiveCall& launch);
/// Returns true if it ended because it ran out of memory.
bool ran_out_of_memory(const Rank& rank);
/// Returns the device whose memory ran out, or nullptr. An error after which the rank continued does not count.
const DeviceMemory* refusing_memory(const Rank& rank);
/// Returns true if the rank recorded an error message, not only an exit code or signal.
bool names_its_error(const Rank& rank);

}  // namespace tessera::analysis::detail
