// One rank's side of a group on NCCL. Operations go to the stream in one group launch; a thread watches them: NCCL has
// no deadline, so when one passes, or NCCL reports an error, or a host aborts, the communicator is aborted, which ends
// the kernels that wait, and everything fails from then on. It also records what begins and ends, when it sees it.
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

#include "tessera/comm/communicator.h"
#include "tessera/comm/detail/group_record.h"
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
  /// Begins to watch what is asked for. Once, before anything is.
  void start_watching();

  [[nodiscard]] const Capabilities& capabilities() const override;
  void enqueue(const std::shared_ptr<Task>& task, const device::Stream& stream) override;
  void abort(std::string_view reason) noexcept override;
  [[nodiscard]] std::vector<int> gone() const override { return {}; }
  void extend_deadline(std::chrono::nanoseconds by) override;
  [[nodiscard]] std::exception_ptr failure(std::string_view group) override { return error(group); }
  [[nodiscard]] std::uint64_t sequence() const override { return sequence_.load(std::memory_order_relaxed); }

 private:
  using Clock = std::chrono::steady_clock;
  // The task and its group may be gone before it ends: the watching thread keeps neither.
  struct Pending {
    std::weak_ptr<Task> task;
    std::uint64_t sequence = 0;
    std::chrono::nanoseconds deadline{0};
    std::string text;  // of its first operation
    detail::Launched launched;
    detail::GroupRecord* record = nullptr;   // there while its group is
    std::weak_ptr<const std::string> group;  // its name
    device::Event event;
    std::optional<Clock::time_point> since;  // from when on nothing is before it
    std::chrono::nanoseconds extra{0};
  };
  struct Ended {
    Failure::Kind kind;
    std::string text;
  };
  // Wakes the watching thread, which holds nothing else while it sleeps.
  struct Bell {
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
  static void watch(const std::weak_ptr<NcclCommunicator>& watched, Bell& bell);
  bool look_around();
  void look_at_pending();
  void take_in_ended();
  void abort_comm();
  void finish(Task& task, Clock::time_point began);
  void finish(const Pending& pending);

  const device::Device device_;
  const int rank_;
  const int size_;
  device::Stream own_;         // for what is no operation
  memory::Buffer scratch_;     // of barriers
  ncclComm_t comm_ = nullptr;  // null: aborted
  std::atomic<std::uint64_t> sequence_{0};
  std::mutex launch_mutex_;  // for comm_, launched_ and the order of launches; taken before mutex_
  std::set<std::string> launched_;
  std::mutex look_mutex_;  // one at a time takes in what has ended, in order; taken before mutex_
  std::mutex mutex_;       // for what follows
  std::deque<Pending> pending_;
  std::optional<Ended> ended_;
  const std::shared_ptr<Bell> bell_ = std::make_shared<Bell>();
};

}  // namespace tessera::comm::nccl
