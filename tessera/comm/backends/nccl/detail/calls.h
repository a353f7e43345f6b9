// Translates operations to NCCL calls. A group must be open during the calls of one operation.
#pragma once

#include <nccl.h>

#include "tessera/comm/operation.h"

namespace tessera::comm::nccl {

/// The target of the calls.
struct NcclTarget {
  ncclComm_t comm;
  int rank;
  int size;
  cudaStream_t stream;
  void* scratch;  ///< one byte of device memory, for barriers
};

/// Throws NotSupported for operations that NCCL lacks: some dtypes, bitwise reductions, rows with sizes on the device.
void check_supported(const Operation& operation);
/// Returns the reduction of an operation. A premultiplied sum is created for it; destroy it with destroy_reduction().
ncclRedOp_t make_reduction(const Operation& operation, ncclComm_t comm);
void destroy_reduction(const Operation& operation, ncclRedOp_t reduction, ncclComm_t comm);
/// Makes the calls.
void issue(const Operation& operation, ncclRedOp_t reduction, const NcclTarget& target);

}  // namespace tessera::comm::nccl
