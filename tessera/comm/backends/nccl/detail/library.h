// NCCL, loaded at run time and never linked. One list names all functions in use. If libnccl.so.2 is not found, the
// backend is reported as not usable.
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

/// The loaded functions.
struct NcclLibrary {
#define TESSERA_NCCL_MEMBER(name) decltype(&::name) name = nullptr;
  TESSERA_NCCL_FUNCTIONS(TESSERA_NCCL_MEMBER)
#undef TESSERA_NCCL_MEMBER
  std::string why_none;  ///< empty if the library is loaded
  int version = 0;       ///< for example 22809
};

/// Loads the library of this name.
NcclLibrary load_library(const char* name);
/// Returns libnccl.so.2, loaded at the first call.
const NcclLibrary& library();

/// Throws DeviceError with the message of NCCL unless the call succeeded or is in progress.
void check(ncclResult_t result, const char* call, ncclComm_t comm);

}  // namespace tessera::comm::nccl
