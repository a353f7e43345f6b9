#include "tessera/device/cuda/cuda_stream.h"

#include <atomic>

#include "tessera/device/cuda/cuda_event.h"
#include "tessera/device/cuda/cuda_graph.h"
#include "tessera/device/cuda/cuda_module.h"
#include "tessera/device/cuda/cuda_wait.h"
#include "tessera/device/cuda/host_call.h"

namespace tessera::device::cuda {
namespace {

// Limit for code loaded by another library to wait for spinning kernels.
constexpr std::chrono::seconds kGateTimeout{10};

constexpr CUstreamWaitValue_flags compare_flags(Compare compare) {
  switch (compare) {
    case Compare::kEqual: return CU_STREAM_WAIT_VALUE_EQ;
    case Compare::kAnd: return CU_STREAM_WAIT_VALUE_AND;
    case Compare::kGreaterEqual: break;
  }
  return CU_STREAM_WAIT_VALUE_GEQ;
}

}  // namespace

CudaStream::CudaStream(CudaContext& context, const StreamOptions& options)
    : context_(context),
      is_owned_(true),
      name_(options.name.empty() ? "an unnamed stream" : options.name),
      progress_(static_cast<std::uint64_t*>(context.words().take())) {
  context_.make_current();
  priority_ = context_.clamp_priority(options.priority);
  const CUresult result = context_.take_stream(priority_, stream_);
  if (result == CUDA_SUCCESS) return;
  context_.words().give_back(progress_);
  context_.fail(result, "cuStreamCreateWithPriority", {__FILE__, __LINE__});
}

CudaStream::CudaStream(CudaContext& context, CUstream stream)
    : context_(context),
      stream_(stream),
      is_owned_(false),
      name_(tessera::detail::concat("wrapped stream ", static_cast<const void*>(stream))),
      progress_(static_cast<std::uint64_t*>(context.words().take())) {}

CudaStream::~CudaStream() {
  context_.spins().forget(*this);
  if (spin_event_ != nullptr) TESSERA_CUDA_NOTHROW(context_, cuEventDestroy, spin_event_);
  if (is_owned_) context_.give_back_stream(priority_, stream_);
  // On a lost device it is unknown what still writes there.
  if (context_.is_lost()) return;
  context_.words().give_back(progress_);
  if (staging_ == nullptr) return;
  context_.spins().when_quiet(
      [&context = context_, staging = staging_] { TESSERA_CUDA_NOTHROW(context, cuMemFreeHost, staging); });
}

template <class Launch>
void CudaStream::launch_spinning(SpinTotals spins, const Launch& launch) {
  context_.make_current();
  CaptureView view;
  if (CudaCapture* const capture = own_capture(view)) {
    TESSERA_CHECK_AS(NotSupported, spins.share <= kWholeDevice,
                     "a captured launch that spins has more blocks than the device can hold at once, so some would "
                     "never start; use a smaller grid");
    launch();
    capture->spin(this, spins);
    return;
  }
  if (spin_event_ == nullptr) {
    TESSERA_CUDA(context_, cuEventCreate, &spin_event_, CU_EVENT_DISABLE_TIMING);
    context_.warn_of_shared_queues();
  }
  const auto admission = context_.spins().admit(*this, spins.share, spins.streams);
  launch();
  TESSERA_CUDA(context_, cuEventRecord, spin_event_, stream_);
}

bool CudaStream::spin_has_ended() {
  // Any result but "not ready" is an end: a lost device no longer spins.
  return driver().cuEventQuery(spin_event_) != CUDA_ERROR_NOT_READY;
}

void CudaStream::launch(const std::shared_ptr<KernelBackend>& kernel, const LaunchConfig& config,
                        const KernelArgs& args, const LaunchInfo& info, bool overlap) {
  auto& ours = static_cast<CudaKernel&>(*kernel);
  if (config.spins) [[unlikely]] {
    launch_spinning({ours.share(config), 1}, [&] { ours.launch(stream_, config, args, overlap); });
  } else {
    ours.launch(stream_, config, args, overlap);
  }
  note_captured(info, kernel);
}

void CudaStream::launch_native(const std::function<void(void* native)>& body, const LaunchInfo& info, bool loads_code) {
  context_.make_current();
  std::vector<CUgraphNode> before;
  CaptureView view;
  if (context_.captures().any() && own_capture(view) != nullptr) before.assign(view.nodes.begin(), view.nodes.end());
  if (loads_code) {
    context_.spins().run_quiet("a library that loads code", kGateTimeout, [&] { body(stream_); });
  } else {
    body(stream_);
  }
  if (!context_.captures().any()) return;
  if (CudaCapture* const capture = own_capture(view)) order_native(*capture, before, view.nodes);
  note_captured(info);
}

void CudaStream::run(HostFunction&& body, const LaunchInfo& info, bool /*overlap*/) {
  context_.make_current();
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  TESSERA_CUDA(context_, cuStreamIsCapturing, stream_, &status);
  if (status == CU_STREAM_CAPTURE_STATUS_NONE) {
    EagerCall::launch(context_, stream_, std::move(body), errors_);
    return;
  }
  capture_host_function(std::move(body), view_capture(context_, stream_));
  note_captured(info);
}

void CudaStream::write_value(std::uint64_t* to, std::uint64_t value) {
  TESSERA_CHECK_AS(NotSupported, context_.has_memory_values(), "write_value: cuda:", context_.index(),
                   " has no 64-bit stream memory operations");
  context_.make_current();
  TESSERA_CUDA(context_, cuStreamWriteValue64, stream_, reinterpret_cast<CUdeviceptr>(to), value,
               CU_STREAM_WRITE_VALUE_DEFAULT);
}

void CudaStream::wait_value(const std::uint64_t* from, std::uint64_t value, Compare compare) {
  TESSERA_CHECK_AS(NotSupported, context_.has_memory_values(), "wait_value: cuda:", context_.index(),
                   " has no 64-bit stream memory operations");
  // It takes a queue but no room for blocks.
  launch_spinning({0, 1}, [&] {
    TESSERA_CUDA(context_, cuStreamWaitValue64, stream_, reinterpret_cast<CUdeviceptr>(from), value,
                 compare_flags(compare));
  });
}

std::shared_ptr<HoldBackend> CudaStream::hold(std::chrono::nanoseconds timeout) {
  auto words = std::make_shared<HoldWords>(context_.words());
  try {
    launch_spinning({context_.hold_kernel().share({}), 1}, [&] { launch_hold(context_, stream_, *words, timeout); });
  } catch (...) {
    words->cancel();
    throw;
  }
  errors_->expect_hold(words, tessera::detail::concat("hold on ", name_, ": not released within ", timeout));
  return std::make_shared<CudaHold>(std::move(words));
}

void CudaStream::record(const std::shared_ptr<EventBackend>& event, Tick /*tick*/, EventUse use) {
  auto& ours = static_cast<CudaEvent&>(*event);
  context_.make_current();
  if (use == EventUse::kExternal) {
    CaptureView view;
    CudaCapture* const capture = own_capture(view);
    if (view.is_active()) {
      ours.record_external(stream_);
      if (capture != nullptr) capture->keep(event);
      return;
    }
  }
  // A wrapped stream may be in a foreign capture.
  ours.record(stream_, errors_, context_.captures().any() || !is_owned_);
}

void CudaStream::wait(const std::shared_ptr<EventBackend>& event, EventUse use) {
  auto& ours = static_cast<CudaEvent&>(*event);
  context_.make_current();
  if (use == EventUse::kExternal) {
    CaptureView view;
    CudaCapture* const capture = own_capture(view);
    if (view.is_active()) {
      ours.wait_external(stream_);
      if (capture != nullptr) capture->keep(event);
      return;
    }
  }
  StreamErrors::Place up_to = 0;
  if (const auto errors = ours.wait(stream_, up_to)) errors_->inherit(errors, up_to);
}

void CudaStream::launch_graph(const std::shared_ptr<GraphExecBackend>& exec) {
  auto& ours = static_cast<CudaGraphExec&>(*exec);
  context_.make_current();
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  TESSERA_CUDA(context_, cuStreamIsCapturing, stream_, &status);
  if (status != CU_STREAM_CAPTURE_STATUS_NONE) [[unlikely]] {
    CaptureView view;
    CudaCapture* const capture = own_capture(view);
    TESSERA_CHECK_AS(NotSupported, capture != nullptr,
                     "launch: the capture must be started by Tessera to contain an executable graph; start it with "
                     "Stream::begin_capture");
    capture_graph(exec, view, *capture);
    return;
  }
  const SpinTotals spins = ours.source().spins();
  if (spins.streams == 0) [[likely]] {
    ours.launch(stream_, errors_);
  } else {
    launch_spinning(spins, [&] { ours.launch(stream_, errors_); });
  }
}

void CudaStream::publish(Tick tick) {
  TESSERA_CHECK_AS(NotSupported, context_.has_memory_values(), "publish: cuda:", context_.index(),
                   " has no 64-bit stream memory operations; poll() instead");
  context_.make_current();
  TESSERA_CUDA(context_, cuStreamWriteValue64, stream_, reinterpret_cast<CUdeviceptr>(progress_), tick.value(),
               CU_STREAM_WRITE_VALUE_DEFAULT);
}

Tick CudaStream::progress() const {
  return Tick(std::atomic_ref<std::uint64_t>(*progress_).load(std::memory_order_acquire));
}

bool CudaStream::ask_idle() {
  const CUresult result = driver().cuStreamQuery(stream_);
  if (result == CUDA_ERROR_NOT_READY) return false;
  if (context_.note(result, "cuStreamQuery", {__FILE__, __LINE__}) || is_sticky(result)) return true;
  context_.fail(result, "cuStreamQuery", {__FILE__, __LINE__});
}

bool CudaStream::is_idle() {
  context_.make_current();
  if (context_.captures().any()) {
    // Asking would break the capture; what was captured has not run.
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    TESSERA_CUDA(context_, cuStreamIsCapturing, stream_, &status);
    if (status != CU_STREAM_CAPTURE_STATUS_NONE) return false;
  }
  if (!ask_idle()) return false;
  context_.retired().drain();
  context_.spins().flush();
  return true;
}

bool CudaStream::synchronize(std::chrono::nanoseconds timeout) {
  context_.make_current();
  if (timeout == kForever) {
    const CUresult result = driver().cuStreamSynchronize(stream_);
    if (!context_.note(result, "cuStreamSynchronize", {__FILE__, __LINE__}) && !is_sticky(result)) {
      context_.fail(result, "cuStreamSynchronize", {__FILE__, __LINE__});
    }
  } else if (!poll_until(timeout, [&] { return ask_idle(); })) {
    return false;
  }
  context_.retired().drain();
  context_.spins().flush();
  return true;
}

std::exception_ptr CudaStream::error() {
  if (context_.is_lost()) return context_.lost_error();
  return errors_->current();
}

void CudaStream::reset_error() {
  TESSERA_CHECK_AS(DeviceError, !context_.is_lost(), "cuda:", context_.index(),
                   ": the device is lost; restart the process");
  errors_->reset();
}

}  // namespace tessera::device::cuda
