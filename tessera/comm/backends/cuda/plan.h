// Translates an operation to the arguments of one rank's kernel: its transfers and their path. Small inputs go through
// the stages, which needs one meeting; others are transferred directly between buffers, and the ranks must also part.
#pragma once

#include <cstdint>

#include "tessera/comm/backends/cuda/group_layout.h"
#include "tessera/comm/operation.h"

namespace tessera::comm::cuda {

/// Returns the Launch of an operation. `group` is the digest of the group name. The caller sets memory, cell, deadline
/// and the position in the task.
CudaLaunch plan(const Operation& operation, std::uint64_t group, int rank, int size);
/// Returns the useful number of blocks, regardless of the capacity of the device.
std::uint32_t blocks_for(const Operation& operation, const CudaLaunch& launch);

}  // namespace tessera::comm::cuda
