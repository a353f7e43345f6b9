// One rank's side of a group on NCCL. Operations go to the stream in one group launch; a thread watches them: NCCL has
// no deadline, so when one passes, or NCCL reports an error, or a host aborts, the communicator is aborted, which ends
// the kernels that wait, and everything fails from then on.
//
// Numbers count launches, replays not included: NCCL's kernels count nothing that we can read.
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
#include <thread>

#include "tessera/comm/communicator.h"
#include "tessera/device/device.h"
#include "tessera/memory/buffer.h"

namespace tessera::comm::nccl {

/// See the head of this file. Thread-safe.
class NcclCommunicator : public Communicator, public std::enable_shared_from_this<NcclCommunicator> {
 public:
  /// Returns when all ranks are there; TimeoutError when they are not in time.
  NcclCommunicator(const device::Device& device, const ConnectRequest& request);
  /// Aborts what is pending.
  ~NcclCommunicator() override;
  /// Destroys it, on a thread of its own where its watching thread asks: that one is waited for.
  static void let_go(NcclCommunicator* last);

  [[nodiscard]] const Capabilities& capabilities() const override;
  void enqueue(std::shared_ptr<Task> task, const device::Stream& stream) override;
  void abort(std::string_view reason) noexcept override;
  [[nodiscard]] std::vector<int> gone() const override { return {}; }
  void extend_deadline(std::chrono::nanoseconds by) override;
  [[nodiscard]] std::uint64_t sequence() const override { return sequence_.load(std::memory_order_relaxed); }

 private:
  using Clock = std::chrono::steady_clock;
  struct Pending {
    std::shared_ptr<Task> task;
    device::Event event;
    std::optional<Clock::time_point> since;  // from when on nothing is before it
    std::chrono::nanoseconds extra{0};
  };
  struct Ended {
    Failure::Kind kind;
    std::string text;
  };

  void connect(const ConnectRequest& request);
  void wait_until_ready(const char* what, std::chrono::nanoseconds timeout);
  void launch(const Task& task, const device::Stream& stream);
  void issue_all(const Task& task, void* native);
  [[nodiscard]] std::exception_ptr error(std::string_view group);
  void end(Failure::Kind kind, const std::string& text) noexcept;
  void watch();
  void look_at_pending();
  void abort_comm();
  void finish(Task& task, Clock::time_point began);

  const device::Device device_;
  const int rank_;
  const int size_;
  device::Stream own_;         // for what is no operation
  memory::Buffer scratch_;     // of barriers
  ncclComm_t comm_ = nullptr;  // null: aborted
  std::atomic<std::uint64_t> sequence_{0};
  std::mutex launch_mutex_;  // for comm_, launched_ and the order of launches; taken before mutex_
  std::set<std::string> launched_;
  std::mutex mutex_;  // for what follows
  std::condition_variable changed_;
  std::deque<Pending> pending_;
  std::optional<Ended> ended_;
  bool is_closing_ = false;
  std::thread watcher_;  // works for no rank: it would keep it
};

}  // namespace tessera::comm::nccl
