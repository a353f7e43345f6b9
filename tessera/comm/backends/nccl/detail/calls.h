// Operations as calls of NCCL. Between the calls of one operation a group must be open.
#pragma once

#include <nccl.h>

#include "tessera/comm/operation.h"

namespace tessera::comm::nccl {

/// Where calls go.
struct Target {
  ncclComm_t comm;
  int rank;
  int size;
  cudaStream_t stream;
  void* scratch;  ///< a byte of device memory, for barriers
};

/// Refuses what NCCL cannot do: types that it cannot reduce, bits, rows whose sizes are on the device.
void check_supported(const Operation& operation);
/// The reduction of an operation; a premultiplied sum is made for it and to be destroyed with destroy_reduction().
ncclRedOp_t make_reduction(const Operation& operation, ncclComm_t comm);
void destroy_reduction(const Operation& operation, ncclRedOp_t reduction, ncclComm_t comm);
/// Makes the calls.
void issue(const Operation& operation, ncclRedOp_t reduction, const Target& target);

}  // namespace tessera::comm::nccl
