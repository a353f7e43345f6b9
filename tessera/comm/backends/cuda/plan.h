// What one rank's kernel is told of an operation: its moves, and which way the bytes go. Small inputs go through the
// stages, which is one meeting; the others straight between buffers, which needs a parting too.
#pragma once

#include <cstdint>

#include "tessera/comm/backends/cuda/group_layout.h"
#include "tessera/comm/operation.h"

namespace tessera::comm::cuda {

/// All of a Launch that follows from the operation, for the group with this digest (of its name); memory, cell,
/// deadline and place in the task are the caller's.
Launch plan(const Operation& operation, std::uint64_t group, int rank, int size);
/// Blocks that are worth their start for it, however many the device has room for.
std::uint32_t blocks_for(const Operation& operation, const Launch& launch);

}  // namespace tessera::comm::cuda
