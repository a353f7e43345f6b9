// A launch in the words of PyTorch's profiler: names of collectives, elements in and out of a rank.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tessera/record/evidence.h"

namespace tessera::record::detail {

/// "allreduce", "_allgather_base", "all_to_allv", "coalesced": what analyzers look up.
std::string profiler_collective(const Launch& launch);
/// "ncclDevKernel_AllReduce_Sum_f32(tessera shm)": analyzers tell communication from computation by how this begins.
std::string kernel_name(const Group& group, const Launch& launch);

/// Elements that a launch takes from this rank and gives to it.
struct Elements {
  std::int64_t in = 0;     ///< taken
  std::int64_t out = 0;    ///< given
  std::string dtype = {};  ///< of them, in PyTorch's words; of a launch of several dtypes "Byte"
};
/// Of the whole launch; nothing where the record does not say, as of uneven parts and of launches that are not whole.
std::optional<Elements> elements_of(const Group& group, const Launch& launch);

}  // namespace tessera::record::detail
