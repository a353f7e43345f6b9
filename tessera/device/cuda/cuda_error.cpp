#include "tessera/device/cuda/cuda_error.h"

namespace tessera::device::cuda {
namespace {

// Returns advice on errors for which the driver gives none.
const char* advice(CUresult result) {
  switch (result) {
    case CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED:
      return "; not allowed during a capture; call it before begin_capture or after end_capture";
    case CUDA_ERROR_STREAM_CAPTURE_INVALIDATED:
      return "; an earlier call invalidated the capture; call abort_capture and start again";
    case CUDA_ERROR_STREAM_CAPTURE_MERGE: return "; two captures cannot be joined; end one first";
    case CUDA_ERROR_STREAM_CAPTURE_UNJOINED:
      return "; a stream that joined the capture was not joined back; record an event on it and wait for it here";
    case CUDA_ERROR_STREAM_CAPTURE_ISOLATION:
      return "; a captured operation cannot depend on work outside the capture; use EventUse::kExternal";
    case CUDA_ERROR_STREAM_CAPTURE_IMPLICIT:
      return "; the legacy default stream cannot be used while a stream that waits for it captures";
    case CUDA_ERROR_CAPTURED_EVENT: return "; the event was last recorded in a capture; record it outside";
    case CUDA_ERROR_NO_BINARY_FOR_GPU: return "; the image has no code for this GPU; add PTX or compile for it";
    case CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES:
      return "; the block is too large for this kernel; use fewer threads or less shared memory";
    default: return "";
  }
}

bool is_capture_misuse(CUresult result) {
  return result >= CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED && result <= CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
}

}  // namespace

bool is_sticky(CUresult result) {
  switch (result) {
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case CUDA_ERROR_CONTAINED:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_TENSOR_MEMORY_LEAK:
    case CUDA_ERROR_MPS_CLIENT_TERMINATED:
    case CUDA_ERROR_EXTERNAL_DEVICE:
    case CUDA_ERROR_UNKNOWN: return true;
    default: return false;
  }
}

std::exception_ptr make_error(CUresult result, const char* call, SourcePlace place) {
  const char* name = nullptr;
  const char* text = nullptr;
  driver().cuGetErrorName(result, &name);
  driver().cuGetErrorString(result, &text);
  std::string message =
      tessera::detail::concat(call, ": ", text != nullptr ? text : "unknown error", " (",
                              name != nullptr ? name : "no name", ", ", static_cast<int>(result), ")", advice(result));
  if (result == CUDA_ERROR_OUT_OF_MEMORY) return std::make_exception_ptr(OutOfMemory(place, std::move(message)));
  if (result == CUDA_ERROR_NOT_SUPPORTED) return std::make_exception_ptr(NotSupported(place, std::move(message)));
  if (is_capture_misuse(result)) return std::make_exception_ptr(InvalidArgument(place, std::move(message)));
  return std::make_exception_ptr(DeviceError(place, std::move(message)));
}

}  // namespace tessera::device::cuda
