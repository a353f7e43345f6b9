// The CUDA driver, loaded at run time and never linked. One list names all driver functions in use. Each is requested
// by name with the interface version of this code (13.0), so that a newer driver returns a function with the same
// parameters.
//
//   TESSERA_CUDA(context, cuStreamQuery, stream)      checks the result (cuda_error.h)
//   driver().cuStreamQuery(stream)                    does not
//
// cuda.h renames many functions to versioned ones by macros. Table members and calls are both renamed, and the
// requested name stays the plain one.
#pragma once

#include <cuda.h>

#include <optional>
#include <string>

namespace tessera::device::cuda {

/// Interface version of all requested functions.
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
  X(cuMemHostAlloc) X(cuMemFreeHost) X(cuPointerGetAttribute) X(cuGraphDestroy) X(cuGraphClone)                      \
  X(cuGraphNodeFindInClone) X(cuGraphGetNodes) X(cuGraphNodeGetType) X(cuGraphNodeGetDependencies)                   \
  X(cuGraphKernelNodeGetParams) X(cuGraphHostNodeGetParams) X(cuGraphHostNodeSetParams)                              \
  X(cuGraphChildGraphNodeGetGraph) X(cuGraphAddNode) X(cuGraphInstantiateWithParams) X(cuGraphExecDestroy)           \
  X(cuGraphExecUpdate) X(cuGraphLaunch) X(cuUserObjectCreate) X(cuUserObjectRelease) X(cuGraphRetainUserObject)
// clang-format on

// Null if the driver lacks the function: check before use. The memory calls are for the test that measures which calls
// block; the device never uses them.
#define TESSERA_CUDA_OPTIONAL(X) X(cuKernelGetName) X(cuMemAlloc) X(cuMemFree) X(cuGraphUpload)

/// All driver functions in use.
struct Driver {
#define TESSERA_CUDA_MEMBER(name) decltype(&::name) name = nullptr;
  TESSERA_CUDA_REQUIRED(TESSERA_CUDA_MEMBER)
  TESSERA_CUDA_OPTIONAL(TESSERA_CUDA_MEMBER)
#undef TESSERA_CUDA_MEMBER
};

namespace detail {
extern Driver loaded_driver;
}
/// Returns the functions; valid only after driver_state() has reported a loaded driver.
inline const Driver& driver() { return detail::loaded_driver; }

/// Maximum number of hardware queues. Streams share them: with the driver's default of 8, the ninth stream waits for a
/// spinning kernel of the first. The driver reads the number at its start, so it must be set before.
inline constexpr int kMaxConnections = 32;

/// The result of loading the driver.
struct DriverState {
  std::string why_none;  ///< empty if loaded and started
  int version = 0;       ///< for example 13000
  int connections = 0;   ///< hardware queues that the driver distributes streams over
};
/// Loads and starts the driver at the first call.
const DriverState& driver_state();

/// Fills `table` from the library of this name and starts the driver; `driver_state()` uses libcuda.so.1.
DriverState load_driver(const char* library, Driver& table);
/// Returns why a driver of this version (for example 12080) cannot be used; empty if it can.
std::string refusal_of_version(int version);
/// Returns the number of connections: ours (TESSERA_CUDA_CONNECTIONS), otherwise that of the driver's own variable
/// (CUDA_DEVICE_MAX_CONNECTIONS), otherwise the maximum.
int chosen_connections(std::optional<int> ours, const char* theirs);

}  // namespace tessera::device::cuda
