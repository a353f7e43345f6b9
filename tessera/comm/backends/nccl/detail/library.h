// NCCL, loaded at run time: one list names every function used. Nothing of it is linked; where libnccl.so.2 is not
// found the transport is absent and says so.
#pragma once

#include <nccl.h>

#include <string>

namespace tessera::comm::nccl {

// clang-format off
#define TESSERA_NCCL_FUNCTIONS(X)                                                                                     \
  X(ncclGetVersion) X(ncclGetUniqueId) X(ncclCommInitRankConfig) X(ncclCommFinalize) X(ncclCommDestroy)               \
  X(ncclCommAbort) X(ncclCommGetAsyncError) X(ncclGetErrorString) X(ncclGetLastError) X(ncclGroupStart)               \
  X(ncclGroupEnd) X(ncclAllReduce) X(ncclAllGather) X(ncclReduceScatter) X(ncclBroadcast) X(ncclReduce) X(ncclSend)   \
  X(ncclRecv) X(ncclRedOpCreatePreMulSum) X(ncclRedOpDestroy)
// clang-format on

/// The functions, resolved.
struct Library {
#define TESSERA_NCCL_MEMBER(name) decltype(&::name) name = nullptr;
  TESSERA_NCCL_FUNCTIONS(TESSERA_NCCL_MEMBER)
#undef TESSERA_NCCL_MEMBER
  std::string why_none;  ///< empty: it is there
  int version = 0;       ///< as 22809
};

/// Loads the library of this name.
Library load_library(const char* name);
/// libnccl.so.2, loaded at the first call.
const Library& library();

/// Throws DeviceError with NCCL's own words unless the call went well; in progress counts as well.
void check(ncclResult_t result, const char* call, ncclComm_t comm);

}  // namespace tessera::comm::nccl
