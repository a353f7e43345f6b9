// The CUDA driver, loaded at run time. Nothing of CUDA is linked: one list names every driver function used, and each
// is asked of the driver by name with the version of the interface this code was written for (13.0), so that a newer
// driver still hands out the function with the arguments we pass.
//
//   TESSERA_CUDA(context, cuStreamQuery, stream)      checks (cuda_error.h)
//   driver().cuStreamQuery(stream)                    does not
//
// cuda.h renames many functions to a versioned one by macro; table members and calls are renamed alike, and the name
// asked for stays the plain one.
#pragma once

#include <cuda.h>

#include <optional>
#include <string>

namespace tessera::device::cuda {

/// The interface version that every function is asked for.
inline constexpr int kDriverVersion = 13000;

// clang-format off
#define TESSERA_CUDA_REQUIRED(X)                                                                                     \
  X(cuInit) X(cuDriverGetVersion) X(cuGetErrorName) X(cuGetErrorString) X(cuDeviceGetCount) X(cuDeviceGet)           \
  X(cuDeviceGetName) X(cuDeviceTotalMem) X(cuDeviceGetAttribute) X(cuDeviceGetPCIBusId) X(cuDeviceCanAccessPeer)     \
  X(cuDevicePrimaryCtxRetain) X(cuCtxGetCurrent) X(cuCtxSetCurrent) X(cuCtxGetStreamPriorityRange)                   \
  X(cuStreamCreateWithPriority) X(cuStreamDestroy) X(cuStreamQuery) X(cuStreamSynchronize) X(cuStreamWaitEvent)      \
  X(cuStreamIsCapturing) X(cuStreamBeginCapture) X(cuStreamEndCapture) X(cuStreamGetCaptureInfo)                     \
  X(cuStreamUpdateCaptureDependencies) X(cuStreamWriteValue64) X(cuStreamWaitValue64) X(cuEventCreate)               \
  X(cuEventDestroy) X(cuEventRecord) X(cuEventRecordWithFlags) X(cuEventQuery) X(cuEventSynchronize)                 \
  X(cuEventElapsedTime) X(cuLaunchKernel) X(cuLaunchKernelEx) X(cuLaunchHostFunc) X(cuModuleLoadDataEx)              \
  X(cuModuleUnload) X(cuModuleGetFunction) X(cuFuncLoad) X(cuFuncGetName) X(cuFuncGetParamInfo)                      \
  X(cuFuncGetAttribute) X(cuFuncSetAttribute) X(cuOccupancyMaxActiveBlocksPerMultiprocessor) X(cuMemcpyAsync)        \
  X(cuMemcpy2DAsync) X(cuMemsetD8Async) X(cuMemsetD16Async) X(cuMemsetD32Async) X(cuMemGetInfo) X(cuMemCreate)       \
  X(cuMemRelease) X(cuMemAddressReserve) X(cuMemAddressFree) X(cuMemMap) X(cuMemUnmap) X(cuMemSetAccess)             \
  X(cuMemGetAllocationGranularity) X(cuMemExportToShareableHandle) X(cuMemImportFromShareableHandle)                 \
  X(cuMemHostAlloc) X(cuMemFreeHost) X(cuPointerGetAttribute) X(cuGraphCreate) X(cuGraphDestroy) X(cuGraphClone)     \
  X(cuGraphNodeFindInClone) X(cuGraphGetNodes) X(cuGraphNodeGetType) X(cuGraphNodeGetDependencies)                   \
  X(cuGraphKernelNodeGetParams) X(cuGraphHostNodeGetParams) X(cuGraphHostNodeSetParams)                              \
  X(cuGraphChildGraphNodeGetGraph) X(cuGraphAddNode) X(cuGraphInstantiateWithParams) X(cuGraphExecDestroy)           \
  X(cuGraphExecUpdate) X(cuGraphLaunch) X(cuUserObjectCreate) X(cuUserObjectRelease) X(cuGraphRetainUserObject)
// clang-format on

// Null where the driver has none: check before use. The memory calls are here for the test that measures which calls
// block; the device itself never uses them.
#define TESSERA_CUDA_OPTIONAL(X) X(cuKernelGetName) X(cuMemAlloc) X(cuMemFree) X(cuGraphUpload)

/// Every driver function used, resolved.
struct Driver {
#define TESSERA_CUDA_MEMBER(name) decltype(&::name) name = nullptr;
  TESSERA_CUDA_REQUIRED(TESSERA_CUDA_MEMBER)
  TESSERA_CUDA_OPTIONAL(TESSERA_CUDA_MEMBER)
#undef TESSERA_CUDA_MEMBER
};

namespace detail {
extern Driver loaded_driver;
}
/// The functions; only after driver_state() said that there is a driver.
inline const Driver& driver() { return detail::loaded_driver; }

/// Streams share hardware queues; with the driver's default of 8 the ninth stream waits behind the first's spinning
/// kernel. The driver reads how many it is to have when it starts, so that must be set before.
inline constexpr int kMostConnections = 32;

/// What became of loading the driver.
struct DriverState {
  std::string why_none;  ///< empty: loaded and started
  int version = 0;       ///< as 13000
  int connections = 0;   ///< hardware queues that the driver spreads streams over
};
/// Loads and starts the driver at the first call.
const DriverState& driver_state();

/// Fills `table` from the library of this name and starts the driver; `driver_state()` does it for libcuda.so.1.
DriverState load_driver(const char* library, Driver& table);
/// Why a driver of this version (as 12080) cannot be used; empty when it can.
std::string refusal_of_version(int version);
/// How many connections these settings give: ours (TESSERA_CUDA_CONNECTIONS), else the driver's own as the environment
/// has it (CUDA_DEVICE_MAX_CONNECTIONS), else as many as there can be.
int chosen_connections(std::optional<int> ours, const char* theirs);

}  // namespace tessera::device::cuda
