#include "tessera/device/cuda/cuda_event.h"

#include "tessera/device/cuda/cuda_context.h"
#include "tessera/device/cuda/cuda_wait.h"

namespace tessera::device::cuda {

CudaEvent::CudaEvent(CudaContext& context, const EventOptions& options)
    : context_(context), is_owned_(true), has_timing_(options.timing) {
  if (!has_timing_) event_ = context_.events().take();
  if (event_ != nullptr) return;
  context_.make_current();
  TESSERA_CUDA(context_, cuEventCreate, &event_, options.timing ? CU_EVENT_DEFAULT : CU_EVENT_DISABLE_TIMING);
}

CudaEvent::~CudaEvent() {
  if (!is_owned_) return;
  if (!has_timing_ && !is_in_graph_ && context_.events().give_back(event_)) return;
  TESSERA_CUDA_NOTHROW(context_, cuEventDestroy, event_);
}

void CudaEvent::record(CUstream stream, const std::shared_ptr<StreamErrors>& errors, bool may_be_captured) {
  const std::lock_guard lock(mutex_);
  TESSERA_CUDA(context_, cuEventRecord, event_, stream);
  is_recorded_ = true;
  is_in_graph_ = is_in_graph_ || may_be_captured;
  if (errors->is_clean()) {
    errors_.reset();
  } else {
    place_ = errors->mark();
    errors_ = errors;
  }
}

void CudaEvent::record_external(CUstream stream) {
  const std::lock_guard lock(mutex_);
  TESSERA_CUDA(context_, cuEventRecordWithFlags, event_, stream, CU_EVENT_RECORD_EXTERNAL);
  is_recorded_ = true;
  is_in_graph_ = true;
  // Each replay moves the point, on a stream that is not known here.
  errors_.reset();
}

std::shared_ptr<StreamErrors> CudaEvent::wait(CUstream stream, StreamErrors::Place& up_to) {
  const std::lock_guard lock(mutex_);
  if (!is_recorded_) return nullptr;
  TESSERA_CUDA(context_, cuStreamWaitEvent, stream, event_, CU_EVENT_WAIT_DEFAULT);
  up_to = place_;
  return errors_;
}

void CudaEvent::wait_external(CUstream stream) {
  const std::lock_guard lock(mutex_);
  TESSERA_CUDA(context_, cuStreamWaitEvent, stream, event_, CU_EVENT_WAIT_EXTERNAL);
  is_in_graph_ = true;
}

bool CudaEvent::ask(CUresult result, const char* call) {
  if (result == CUDA_ERROR_NOT_READY) return false;
  if (result != CUDA_SUCCESS) context_.fail(result, call, {__FILE__, __LINE__});
  return true;
}

void CudaEvent::throw_parked() {
  std::shared_ptr<StreamErrors> errors;
  StreamErrors::Place place = 0;
  {
    const std::lock_guard lock(mutex_);
    errors = errors_;
    place = place_;
  }
  if (errors == nullptr) return;
  if (const auto error = errors->before(place)) std::rethrow_exception(error);
}

bool CudaEvent::query() {
  context_.make_current();
  if (!ask(driver().cuEventQuery(event_), "cuEventQuery")) return false;
  context_.retired().drain();
  throw_parked();
  return true;
}

bool CudaEvent::synchronize(std::chrono::nanoseconds timeout) {
  context_.make_current();
  if (timeout == kForever) {
    TESSERA_CUDA(context_, cuEventSynchronize, event_);
  } else if (!poll_until(timeout, [&] { return ask(driver().cuEventQuery(event_), "cuEventQuery"); })) {
    return false;
  }
  context_.retired().drain();
  throw_parked();
  return true;
}

std::chrono::nanoseconds CudaEvent::since(EventBackend& start) {
  context_.make_current();
  float milliseconds = 0;
  TESSERA_CUDA(context_, cuEventElapsedTime, &milliseconds, static_cast<CudaEvent&>(start).event_, event_);
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double, std::milli>(milliseconds));
}

}  // namespace tessera::device::cuda
