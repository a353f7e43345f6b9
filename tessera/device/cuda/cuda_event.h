// Events. A record or wait inside a capture is an edge of the graph, unless it is external and becomes a node. The
// layer above decides that, and whether the host may query the point.
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
  /// Creates an event.
  CudaEvent(CudaContext& context, const EventOptions& options);
  /// Wraps a native event.
  CudaEvent(CudaContext& context, CUevent event)
      : context_(context), event_(event), is_owned_(false), has_timing_(false), is_recorded_(true) {}
  ~CudaEvent() override;

  /// Records the event. `errors` belong to the stream, which may be in a capture.
  void record(CUstream stream, const std::shared_ptr<StreamErrors>& errors, bool may_be_captured);
  /// Adds a node that records the event.
  void record_external(CUstream stream);
  /// Waits for the latest point. Returns the errors that may precede it, or null.
  std::shared_ptr<StreamErrors> wait(CUstream stream, StreamErrors::Place& up_to);
  /// Adds a node that waits for the event.
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
  bool is_recorded_ = false;  // since its creation: the driver event may have a point of its last owner
  bool is_in_graph_ = false;  // true if a node names it, or its point may be in a capture
  std::mutex mutex_;
  std::shared_ptr<StreamErrors> errors_;
  StreamErrors::Place place_ = 0;
};

}  // namespace tessera::device::cuda
