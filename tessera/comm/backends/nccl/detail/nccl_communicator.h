// The communicator of one rank on NCCL. Operations are enqueued on the stream in one group launch, and a thread watches
// them. NCCL has no deadlines: if a deadline passes, NCCL reports an error, or a host aborts, the communicator is
// aborted. This ends the waiting kernels, and all later operations fail. The thread also records the starts and ends
// that it sees.
//
// Sequence numbers count launches without replays, since the kernels of NCCL provide no counter.
#pragma once

#include <nccl.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "tessera/comm/communicator.h"
#include "tessera/comm/detail/group_record.h"
#include "tessera/device/device.h"
#include "tessera/memory/buffer.h"

namespace tessera::comm::nccl {

/// Returns the capabilities of the backend.
const Capabilities& nccl_capabilities();

/// The communicator of one rank. Thread-safe.
class NcclCommunicator : public Communicator, public std::enable_shared_from_this<NcclCommunicator> {
 public:
  /// Waits until all ranks have joined. Throws TimeoutError if they do not arrive in time.
  NcclCommunicator(const device::Device& device, const ConnectRequest& request);
  /// Aborts the pending operations.
  ~NcclCommunicator() override;
  /// Starts the watching thread. Call it once, before any operation.
  void start_watching();

  [[nodiscard]] const Capabilities& capabilities() const override { return nccl_capabilities(); }
  void enqueue(const std::shared_ptr<Task>& task, const device::Stream& stream) override;
  void abort(std::string_view reason) noexcept override;
  [[nodiscard]] std::vector<int> gone() const override { return {}; }
  void extend_deadline(std::chrono::nanoseconds by) override;
  [[nodiscard]] std::exception_ptr failure(std::string_view group) override { return error(group); }
  [[nodiscard]] std::uint64_t sequence() const override { return sequence_.load(std::memory_order_relaxed); }

 private:
  using Clock = std::chrono::steady_clock;
  // A pending operation. Its task and group may be destroyed before it ends: the watching thread keeps neither alive.
  struct PendingTask {
    std::weak_ptr<Task> task;
    std::uint64_t sequence = 0;
    std::chrono::nanoseconds deadline{0};
    std::string text;  // text of its first operation
    detail::Launched launched;
    detail::GroupRecord* record = nullptr;   // valid while its group exists
    std::weak_ptr<const std::string> group;  // name of the group
    device::Event event;
    std::optional<Clock::time_point> since;  // when all earlier operations had ended
    std::chrono::nanoseconds extra{0};
  };
  struct EndedTask {
    Failure::Kind kind;
    std::string text;
  };
  // Wakes the watching thread, which owns nothing else while it sleeps.
  struct WatchBell {
    std::mutex mutex;
    std::condition_variable rung;
    bool has_news = false;
    void ring();
    void wait(std::chrono::milliseconds timeout);
  };

  void connect(const ConnectRequest& request);
  void wait_until_ready(const char* what, std::chrono::nanoseconds timeout);
  void launch(const Task& task, const device::Stream& stream);
  void issue_all(const Task& task, void* native);
  [[nodiscard]] std::exception_ptr error(std::string_view group);
  void end(Failure::Kind kind, const std::string& text) noexcept;
  static void watch(const std::weak_ptr<NcclCommunicator>& watched, WatchBell& bell);
  bool look_around();
  void look_at_pending();
  void take_in_ended();
  void abort_comm();
  void finish(Task& task, Clock::time_point began);
  void finish(const PendingTask& pending);

  const device::Device device_;
  const int rank_;
  const int size_;
  device::Stream own_;         // for work that is not an operation
  memory::Buffer scratch_;     // memory for barriers
  ncclComm_t comm_ = nullptr;  // null after an abort
  std::atomic<std::uint64_t> sequence_{0};
  std::mutex launch_mutex_;  // protects comm_, launched_ and the order of launches; locked before mutex_
  std::set<std::string> launched_;
  std::mutex look_mutex_;  // one thread at a time processes ended operations, in order; locked before mutex_
  std::mutex mutex_;       // protects the members below
  std::deque<PendingTask> pending_;
  std::optional<EndedTask> ended_;
  const std::shared_ptr<WatchBell> bell_ = std::make_shared<WatchBell>();
};

}  // namespace tessera::comm::nccl
