// How a rank stands, for who is to blame: whether it is at work, ended by what others did, or by a fault of its own.
#pragma once

#include <cstdint>

#include "tessera/record/evidence.h"

namespace tessera::record::detail {

/// How it stands.
enum class Standing : std::uint8_t {
  kAtWork,   ///< it runs, or is not known to have ended
  kEnded,    ///< it ended in order
  kVictim,   ///< it ended because of others: a deadline, an abort or a difference in a group
  kTold,     ///< it was told to end by SIGTERM, or the launcher killed it
  kStopped,  ///< its process was stopped
  kGone,     ///< it died, or failed by an error of its own
  kMissing,  ///< nothing is known of it
};
/// By its state, its words and what its launches came to.
Standing standing_of(const Rank& rank);

/// Whether all that is known of it is what its launcher saw, or nothing.
bool left_no_record(const Rank& rank);
/// Whether a launch failed by what others did or did not do.
bool failed_by_others(const Launch& launch);
/// Whether its memory ran out, and that ended it.
bool ran_out_of_memory(const Rank& rank);
/// Returns the device whose memory ran out, or nullptr. An error after which the rank continued does not count.
const Memory* refusing_memory(const Rank& rank);
/// Returns true if the rank left the words of an error, more than the code or signal it ended with.
bool names_its_error(const Rank& rank);

}  // namespace tessera::record::detail
