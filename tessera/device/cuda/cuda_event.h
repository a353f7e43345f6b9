// Events. A record inside a capture must leave the event as it was for everyone outside, but the driver's record
// changes the event it is given; so an event of ours keeps a second driver event for the edges of captures:
//
//   event   recorded outside captures and by external nodes; what native() shows
//   edge    recorded inside captures; used by a wait only while that capture is under way
//
// A wrapped event has one driver event for both, because its owner records it as it pleases.
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
  CudaEvent(CudaContext& context, CUevent event) : context_(context), event_(event), is_owned_(false) {}
  ~CudaEvent() override;

  /// Records outside a capture; `errors` are those of the stream.
  void record(CUstream stream, const std::shared_ptr<StreamErrors>& errors);
  /// Records an edge of the capture `capture`.
  void record_edge(CUstream stream, std::uint64_t capture);
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
  std::mutex mutex_;
  CUevent edge_ = nullptr;
  std::uint64_t edge_capture_ = 0;  // of the latest record; 0: it was outside captures
  std::shared_ptr<StreamErrors> errors_;
  StreamErrors::Place place_ = 0;
};

}  // namespace tessera::device::cuda
