// How much memory each Label holds, and held at most.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/memory/snapshot.h"

namespace tessera::memory {

/// What one label holds.
struct LabelUse {
  std::string label;              ///< text; empty: allocations without a Label
  std::uint64_t live_nbytes = 0;  ///< asked for and in use now
  std::uint64_t live_blocks = 0;  ///< blocks in use now
  std::uint64_t peak_nbytes = 0;  ///< most that was in use at once, as far back as the trace goes
  std::uint64_t allocations = 0;  ///< in the trace
  /// Same numbers.
  friend bool operator==(const LabelUse&, const LabelUse&) = default;
};

/// All labels of a snapshot, those that hold most first (then by peak, then by name). The peak is found by replaying
/// the trace backwards from what is live at its end. A block freed in the trace and allocated before it counts for the
/// label of its free record, which is that of the block.
TESSERA_API std::vector<LabelUse> label_uses(const Snapshot& snapshot);

}  // namespace tessera::memory
