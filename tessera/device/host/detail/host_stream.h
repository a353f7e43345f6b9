// Streams of the host device: each call becomes an operation of the core or, in a capture, a node.
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "tessera/device/backend.h"
#include "tessera/device/host/detail/capture.h"
#include "tessera/device/host/detail/host_event.h"
#include "tessera/device/host/detail/stream_core.h"

namespace tessera::device::host::detail {

/// A handle to a core. Called under the stream's lock, see backend.h.
class HostStream : public StreamBackend {
 public:
  explicit HostStream(std::shared_ptr<StreamCore> core);
  ~HostStream() override;

  void launch(const std::shared_ptr<KernelBackend>& kernel, const LaunchConfig& config, const KernelArgs& args,
              const LaunchInfo& info, bool overlap) override;
  void run(HostFunction&& body, const LaunchInfo& info, bool overlap) override;
  bool claim() noexcept override { return !lane_.may_capture.load() && core_->claim(); }
  void run_claimed(HostFunction& body) override { core_->run_claimed(body); }
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
  [[nodiscard]] Tick progress() const override { return core_->progress(); }

  void begin_capture() override;
  std::unique_ptr<GraphBackend> end_capture() override;
  void abort_capture() override;
  CaptureInfo capture_info() override;
  [[nodiscard]] const std::atomic<std::uint64_t>* capture_changes() const override { return &lane_.changes; }
  Dependencies capture_predecessors(NodeId node) override;
  void set_capture_dependencies(std::span<const NodeId> nodes) override;

  void drain() override { core_->drain(); }
  bool is_idle() override;
  bool synchronize(std::chrono::nanoseconds timeout) override;
  std::exception_ptr error() override { return core_->timeline()->parked(); }
  void reset_error() override { core_->reset_error(); }
  void* native() override { return core_.get(); }
  void set_delay(std::chrono::nanoseconds delay) override { core_->set_delay(delay); }
  void set_stalled(bool stalled) override { core_->set_stalled(stalled); }

 private:
  /// The locked lane while this stream captures; otherwise an empty lock.
  using Lane = std::unique_lock<SpinLock>;
  [[nodiscard]] Lane capturing();
  [[nodiscard]] Lane check_capturing(const char* call);
  void do_work(NodeKind kind, HostFunction&& work, const LaunchInfo& info, bool overlap = false);
  /// The contents of a captured node.
  struct NewNode {
    NodeKind kind;
    const LaunchInfo& info;
    HostFunction work = {};
    NodeExtras extras = {};
    bool may_wait = false;
    bool overlap = false;
  };
  void add_node(NewNode&& made);  // the lane is locked
  void join_capture(CapturedPoint place, const HostEvent& event);

  const std::shared_ptr<StreamCore> core_;
  CaptureLane& lane_;
};

}  // namespace tessera::device::host::detail
