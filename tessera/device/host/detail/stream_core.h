// A stream of the host device: a queue of operations and the thread that runs them.
//
//   threaded   a worker thread, started by the first operation
//   inline     the caller runs its operation immediately. If the operation would wait, the caller hands the queue to a
//              worker and continues; later operations are queued until the worker has emptied the queue.
//
//   none ----drain--> caller --must wait--> worker --empty--> none         one runner at a time
//               ^------empty----'
//
// An operation that throws parks its error on the timeline; until it is reset only records, waits and publications run.
#pragma once

#include <atomic>
#include <chrono>
#include <exception>
#include <memory>
#include <mutex>
#include <string>

#include "tessera/base/ids.h"
#include "tessera/device/backend.h"
#include "tessera/device/host/detail/capture.h"
#include "tessera/device/host/detail/host_shared.h"
#include "tessera/device/host/detail/op_queue.h"
#include "tessera/device/host/detail/timeline.h"

namespace tessera::device::host::detail {

/// A stopped stream. Thread-safe.
class HostHold : public HoldBackend {
 public:
  explicit HostHold(std::chrono::nanoseconds timeout) : timeout_(timeout) {}
  void release() override;
  [[nodiscard]] bool timed_out() const override { return state_.load() == GateState::kTimedOut; }
  /// Returns true if the stream may continue.
  [[nodiscard]] bool is_over() const { return state_.load() != GateState::kHeld; }
  /// Waits for release(). Throws TimeoutError, which names `stream`, after the timeout.
  void wait(HostShared& shared, const std::string& stream);

 private:
  enum class GateState : std::uint8_t { kHeld, kReleased, kTimedOut };
  const std::chrono::nanoseconds timeout_;
  std::atomic<GateState> state_{GateState::kHeld};
  Bell bell_;
};

/// The core of a stream. Thread-safe.
class StreamCore : public std::enable_shared_from_this<StreamCore> {
 public:
  StreamCore(std::shared_ptr<HostShared> shared, std::string name, bool is_inline);
  ~StreamCore();

  /// Adds an operation and returns its position on the timeline.
  template <class T>
  std::uint64_t enqueue(T&& op) {
    const std::lock_guard lock(producer_);
    if (!is_inline_ && !has_worker_) [[unlikely]]
      start_worker();
    const std::uint64_t sequence = queue_.push(std::forward<T>(op));
    if (!is_inline_) bell_.ring();
    return sequence;
  }
  /// Claims the position of the next operation for the calling thread, which becomes the runner. Returns false unless
  /// that thread can run it immediately.
  bool claim() noexcept {
    if (!is_inline_ || shared_->scheduler() != nullptr || is_hindered_.load()) return false;
    const std::lock_guard lock(producer_);
    Runner nobody = Runner::kNobody;
    if (!is_idle() || timeline_->has_parked() || !runner_.compare_exchange_strong(nobody, Runner::kCaller))
      return false;
    queue_.push_held();
    return true;
  }
  /// Runs the operation of the claimed position, then the operations enqueued meanwhile.
  void run_claimed(HostFunction& body);
  /// Called after enqueue, without locks: runs work that may run on the caller, or lets others run.
  void drain();

  /// Returns true if all enqueued work has completed.
  [[nodiscard]] bool is_idle() const { return timeline_->reached(queue_.pushed()); }
  /// Waits for all work enqueued so far. Returns false if `timeout` passed first.
  bool synchronize(std::chrono::nanoseconds timeout);
  /// Clears earlier failures for operations enqueued later.
  void reset_error() { timeline_->reset_after(queue_.pushed()); }
  /// Returns the latest published tick.
  [[nodiscard]] Tick progress() const { return Tick(progress_.load()); }
  /// Publishes a tick.
  void show(Tick tick) { progress_.store(tick.value()); }
  /// For tests: see StreamBackend.
  void set_delay(std::chrono::nanoseconds delay);
  /// For tests: see StreamBackend.
  void set_stalled(bool stalled);

  /// Counts the streams on this core; after the last one is destroyed, the worker finishes its work and ends.
  void add_user() { users_.fetch_add(1); }
  /// See add_user.
  void remove_user();
  /// Wakes the worker to check for changes.
  void ring() { bell_.ring(); }

  /// Returns its state in a capture.
  [[nodiscard]] CaptureLane& lane() { return lane_; }
  [[nodiscard]] const std::string& name() const { return name_; }
  /// Returns the timeline of its completed operations and failures.
  [[nodiscard]] const std::shared_ptr<Timeline>& timeline() const { return timeline_; }
  /// Returns the shared state of the device.
  [[nodiscard]] HostShared& shared() const { return *shared_; }
  /// Returns the core of a native pointer. Throws if the pointer is invalid.
  static StreamCore& from_native(void* native);

 private:
  enum class Runner : std::uint8_t { kNobody, kCaller, kWorker };

  void start_worker();
  void hand_over();
  void work();
  void wait_for_work();
  [[nodiscard]] bool has_work() const;
  [[nodiscard]] bool is_closing() const { return users_.load() == 0 || shared_->stopping(); }
  bool run_pending(bool may_wait);
  bool run_front(Op& op, std::uint64_t sequence, bool may_wait);
  // `popped` is the return value of the queue for the lost work.
  void lose_thread(std::uint64_t sequence, std::uint64_t popped, bool is_worker);
  template <class Body, class Lost>
  void attempt(std::uint64_t sequence, const Body& body, const Lost& lost);
  [[nodiscard]] bool must_wait(const Op& op) const;
  void execute(Op& op, const std::exception_ptr& poison);
  void execute(WaitOp& op);
  void execute(GraphOp& op, const std::exception_ptr& poison);
  void hinder();

  static constexpr std::uint64_t kMagic = 0x7E55E7A57AE4ull;
  std::uint64_t magic_ = kMagic;
  const std::shared_ptr<HostShared> shared_;
  const std::string name_;
  const bool is_inline_;
  const std::shared_ptr<Timeline> timeline_ = std::make_shared<Timeline>();
  const WeakRank rank_;
  CaptureLane lane_;
  SpinLock producer_;  // launch_unseen is called without the stream's lock
  bool has_worker_ = false;
  OpQueue queue_;
  Bell bell_;  // signals work to the worker
  std::atomic<Runner> runner_{Runner::kNobody};
  std::atomic<std::uint64_t> progress_{0};
  std::atomic<int> users_{0};
  std::atomic<bool> is_hindered_{false};
  std::atomic<bool> is_stalled_{false};
  std::atomic<std::int64_t> delay_ns_{0};
};

}  // namespace tessera::device::host::detail
