// Events. A record or wait inside a capture is an edge of the graph unless it is asked to be a node; which of the two,
// and whether the point may be asked for on the host, is checked above.
#pragma once

#include <memory>
#include <mutex>

#include "tessera/device/backend.h"
#include "tessera/device/cuda/driver.h"
#include "tessera/device/cuda/stream_errors.h"

namespace tessera::device::cuda {

class CudaContext;

/// An event. Thread-safe.
class CudaEvent : public EventBackend {
 public:
  /// A new event.
  CudaEvent(CudaContext& context, const EventOptions& options);
  /// One made elsewhere.
  CudaEvent(CudaContext& context, CUevent event)
      : context_(context), event_(event), is_owned_(false), has_timing_(false), is_recorded_(true) {}
  ~CudaEvent() override;

  /// Records; `errors` are those of the stream; it may be in a capture.
  void record(CUstream stream, const std::shared_ptr<StreamErrors>& errors, bool may_be_captured);
  /// Adds a node that records.
  void record_external(CUstream stream);
  /// Waits for the latest point. Returns what can have failed before it; null: nothing.
  std::shared_ptr<StreamErrors> wait(CUstream stream, StreamErrors::Place& up_to);
  /// Adds a node that waits.
  void wait_external(CUstream stream);

  bool query() override;
  bool synchronize(std::chrono::nanoseconds timeout) override;
  std::chrono::nanoseconds since(EventBackend& start) override;
  void* native() override { return event_; }

 private:
  bool ask(CUresult result, const char* call);
  void throw_parked();

  CudaContext& context_;
  CUevent event_ = nullptr;
  const bool is_owned_;
  const bool has_timing_;
  bool is_recorded_ = false;  // since it was made: the driver's may have a point of its last owner
  bool is_in_graph_ = false;  // or may be: a node names it, or its point is in a capture
  std::mutex mutex_;
  std::shared_ptr<StreamErrors> errors_;
  StreamErrors::Place place_ = 0;
};

}  // namespace tessera::device::cuda
