// From a CUresult to a typed error that names the driver call. Some errors end the context for the whole process (an
// illegal address in a kernel, for instance): every later call then fails too, and only a new process helps.
#pragma once

#include <exception>

#include "tessera/base/error.h"
#include "tessera/device/cuda/driver.h"

namespace tessera::device::cuda {

/// Whether this error ends the context: every later call will fail.
bool is_sticky(CUresult result);
/// The error that `call` made by returning `result`.
std::exception_ptr make_error(CUresult result, const char* call, SourcePlace place);

/// Makes the driver call and hands a failure to `context` (a CudaContext), which throws it.
#define TESSERA_CUDA(context, function, ...)                                                 \
  do {                                                                                       \
    const CUresult tessera_result = ::tessera::device::cuda::driver().function(__VA_ARGS__); \
    if (tessera_result != CUDA_SUCCESS) [[unlikely]]                                         \
      (context).fail(tessera_result, #function, {__FILE__, __LINE__});                       \
  } while (false)

/// For destructors: makes the driver call; a failure is kept only if it says that the device is lost.
#define TESSERA_CUDA_NOTHROW(context, function, ...) \
  (context).note(::tessera::device::cuda::driver().function(__VA_ARGS__), #function, {__FILE__, __LINE__})

}  // namespace tessera::device::cuda
