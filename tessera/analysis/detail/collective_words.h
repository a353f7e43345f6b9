// Description of a launch in the terms of the PyTorch profiler: names of collectives, elements in and out of a rank.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tessera/analysis/evidence.h"

namespace tessera::analysis::detail {

/// Returns "allreduce", "_allgather_base", "all_to_allv" or "coalesced", as analyzers expect.
std::string profiler_collective(const CollectiveCall& launch);
/// Returns "ncclDevKernel_AllReduce_Sum_f32(tessera shm)": analyzers recognize communication by the beginning of the
/// name.
std::string kernel_name(const Group& group, const CollectiveCall& launch);

/// Input and output elements of a launch on one rank.
struct Elements {
  std::int64_t in = 0;     ///< Input elements.
  std::int64_t out = 0;    ///< Output elements.
  std::string dtype = {};  ///< PyTorch name of the dtype; "Byte" for a launch of several dtypes.
};
/// Returns the elements of the launch; nothing if unknown, as for uneven sizes and incomplete launches.
std::optional<Elements> elements_of(const Group& group, const CollectiveCall& launch);

}  // namespace tessera::analysis::detail
