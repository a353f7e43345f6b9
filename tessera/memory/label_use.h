// Current and peak memory of each Label.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/memory/snapshot.h"

namespace tessera::memory {

/// Memory of one label.
struct LabelUse {
  std::string label;              ///< Text; empty for allocations without a Label.
  std::uint64_t live_nbytes = 0;  ///< Requested bytes in use now.
  std::uint64_t live_blocks = 0;  ///< Blocks in use now.
  std::uint64_t peak_nbytes = 0;  ///< Peak bytes in use, within the trace.
  std::uint64_t allocations = 0;  ///< Allocations in the trace.
  /// Compares all fields.
  friend bool operator==(const LabelUse&, const LabelUse&) = default;
};

/// Returns all labels of a snapshot, by descending live bytes, then by peak, then by name. The peak is computed by
/// replaying the trace backwards from the live blocks at its end. A block that was allocated before the trace and freed
/// in it counts for the label of its free record, which is that of the block.
TESSERA_API std::vector<LabelUse> label_uses(const Snapshot& snapshot);

}  // namespace tessera::memory
