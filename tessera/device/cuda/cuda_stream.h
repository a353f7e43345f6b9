// Streams. Driver calls are in cuda_stream.cpp, captures in cuda_capture.cpp, copies and fills in cuda_copy.cpp.
// Methods are called under the stream's lock, except native, progress, error, drain, is_idle and synchronize. State
// that these share with other methods is atomic or has its own lock.
#pragma once

#include <memory>
#include <string>

#include "tessera/device/backend.h"
#include "tessera/device/cuda/cuda_capture.h"
#include "tessera/device/cuda/cuda_context.h"
#include "tessera/device/cuda/stream_errors.h"

namespace tessera::device::cuda {

/// A stream of a GPU.
class CudaStream : public StreamBackend, private Spinner {
 public:
  /// Creates a stream.
  CudaStream(CudaContext& context, const StreamOptions& options);
  /// Wraps a native stream, including the legacy (null) and the per-thread default stream.
  CudaStream(CudaContext& context, CUstream stream);
  ~CudaStream() override;

  void launch(const std::shared_ptr<KernelBackend>& kernel, const LaunchConfig& config, const KernelArgs& args,
              const LaunchInfo& info, bool overlap) override;
  void launch_native(const std::function<void(void* native)>& body, const LaunchInfo& info, bool loads_code) override;
  /// Parks the error of the body; later work still runs.
  void run(HostFunction&& body, const LaunchInfo& info, bool overlap) override;
  void copy(void* to, const void* from, std::size_t nbytes, const LaunchInfo& info) override;
  void copy_2d(const Copy2d& rows, const LaunchInfo& info) override;
  void fill(void* to, std::uint32_t pattern, std::size_t item_nbytes, std::size_t count,
            const LaunchInfo& info) override;
  void write_value(std::uint64_t* to, std::uint64_t value) override;
  void wait_value(const std::uint64_t* from, std::uint64_t value, Compare compare) override;
  std::shared_ptr<HoldBackend> hold(std::chrono::nanoseconds timeout) override;
  void record(const std::shared_ptr<EventBackend>& event, Tick tick, EventUse use) override;
  void wait(const std::shared_ptr<EventBackend>& event, EventUse use) override;
  void launch_graph(const std::shared_ptr<GraphExecBackend>& exec) override;
  void publish(Tick tick) override;
  [[nodiscard]] Tick progress() const override;

  void begin_capture() override;
  std::unique_ptr<GraphBackend> end_capture() override;
  void abort_capture() override;
  CaptureInfo capture_info() override;
  Dependencies capture_predecessors(NodeId node) override;
  void set_capture_dependencies(std::span<const NodeId> nodes) override;

  void drain() override { context_.retired().drain(); }
  bool is_idle() override;
  bool synchronize(std::chrono::nanoseconds timeout) override;
  std::exception_ptr error() override;
  void reset_error() override;
  void* native() override { return stream_; }

 private:
  bool spin_has_ended() override;
  [[nodiscard]] std::string spinner_name() const override { return name_; }

  void make_current_for_query();
  /// Returns the capture begun by Tessera that this stream is in, or null.
  CudaCapture* own_capture(CaptureView& view);
  Dependencies ordered_dependencies(const CudaCapture& capture, CUgraphNode node);
  /// Notes the nodes between two dependency sets of this stream, which a library created.
  void order_native(CudaCapture& capture, std::span<const CUgraphNode> before, std::span<const CUgraphNode> after);
  /// Throws if the driver never returned one of the nodes for this capture.
  void check_nodes(CudaCapture& capture, const CaptureView& view, std::span<const CUgraphNode> nodes, const char* call);
  /// Called after an operation: if it was captured, notes its label and the objects that its node needs.
  void note_captured(const LaunchInfo& info, const std::shared_ptr<void>& keep = nullptr) {
    if (context_.captures().any()) [[unlikely]]
      note_captured_slow(info, keep);
  }
  void note_captured_slow(const LaunchInfo& info, const std::shared_ptr<void>& keep);
  /// Makes a launch that spins, within the budget.
  template <class Launch>
  void launch_spinning(SpinTotals spins, const Launch& launch);
  void capture_host_function(HostFunction body, const CaptureView& view);
  void capture_graph(const std::shared_ptr<GraphExecBackend>& exec, const CaptureView& view, CudaCapture& capture);
  /// Returns true if all work has completed; a lost device has none.
  bool ask_idle();

  // Copies that access pageable memory (cuda_copy.cpp).
  bool is_pageable(const void* address, const char* what);
  std::byte* staging();
  void copy_through_staging(void* to, const void* from, std::size_t nbytes, bool from_pageable);
  void copy_rows_through_staging(const Copy2d& rows, bool from_pageable);
  void run_unfailing(HostFunction body);

  CudaContext& context_;
  CUstream stream_ = nullptr;
  const bool is_owned_;
  int priority_ = 0;  // only if owned
  std::string name_;
  std::shared_ptr<StreamErrors> errors_ = std::make_shared<StreamErrors>();
  std::uint64_t* progress_;             // pinned; written by the device
  CUevent spin_event_ = nullptr;        // recorded after every spin
  std::byte* staging_ = nullptr;        // pinned; work of this stream uses it in order
  std::shared_ptr<CudaCapture> begun_;  // the capture that began here
  std::shared_ptr<CudaCapture> seen_;   // the capture begun by Tessera that this stream was last seen in
};

}  // namespace tessera::device::cuda
