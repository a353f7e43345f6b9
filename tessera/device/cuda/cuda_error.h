// Converts a CUresult to a typed error that names the driver call. Some errors (an illegal address in a kernel, for
// example) end the context for the complete process: all later calls fail, and only a new process helps.
#pragma once

#include <exception>

#include "tessera/base/error.h"
#include "tessera/device/cuda/driver.h"

namespace tessera::device::cuda {

/// Returns true if this error ends the context, so that all later calls will fail.
bool is_sticky(CUresult result);
/// Returns the error of `call`, which returned `result`.
std::exception_ptr make_error(CUresult result, const char* call, SourcePlace place);

/// Makes the driver call and passes a failure to `context` (a CudaContext), which throws it.
#define TESSERA_CUDA(context, function, ...)                                                 \
  do {                                                                                       \
    const CUresult tessera_result = ::tessera::device::cuda::driver().function(__VA_ARGS__); \
    if (tessera_result != CUDA_SUCCESS) [[unlikely]]                                         \
      (context).fail(tessera_result, #function, {__FILE__, __LINE__});                       \
  } while (false)

/// For destructors: makes the driver call. A failure is stored only if the device is lost.
#define TESSERA_CUDA_NOTHROW(context, function, ...) \
  (context).note(::tessera::device::cuda::driver().function(__VA_ARGS__), #function, {__FILE__, __LINE__})

}  // namespace tessera::device::cuda
