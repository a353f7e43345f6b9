// What all parts of one host device share: how threads wait, which threads it runs, and whether it is going away.
//
// Every wait of the device goes through wait(): a short spin and then sleep, or, on a seeded device, the scheduler.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/base/rank.h"
#include "tessera/device/event.h"
#include "tessera/device/host/detail/bell.h"
#include "tessera/device/host/detail/timeline.h"
#include "tessera/device/host/seeded_scheduler.h"

namespace tessera::device::host::detail {

/// Runs the calling thread for a rank that is not kept alive while there is nothing to do: a rank owns its device, so
/// the device's threads must not own the rank.
class WeakRank {
 public:
  WeakRank() : rank_(current_rank()) {}
  /// Runs `body` for the rank, or for the thread's own when the rank is going away.
  template <class Body>
  void enter(Body&& body) const {
    if (auto rank = rank_.lock()) {
      const RankScope scope(std::move(rank));
      body();
    } else {
      body();
    }
  }

 private:
  std::weak_ptr<RankContext> rank_;
};

/// Shared by a device, its streams, events and graphs. Thread-safe.
class HostShared {
 public:
  HostShared(std::string name, std::shared_ptr<SeededScheduler> scheduler);
  ~HostShared();
  HostShared(const HostShared&) = delete;
  HostShared& operator=(const HostShared&) = delete;

  /// The device's name.
  [[nodiscard]] const std::string& name() const { return name_; }
  /// Null: not a seeded device.
  [[nodiscard]] SeededScheduler* scheduler() const { return scheduler_.get(); }
  /// Refuses a thread that a seeded device does not know.
  void check_caller() const {
    if (scheduler_ != nullptr && !scheduler_->is_participant()) [[unlikely]]
      refuse_caller();
  }
  /// A point where a seeded device may let another thread run. Call it with no lock held.
  void yield() const {
    if (scheduler_ != nullptr) scheduler_->yield();
  }
  /// Time on this device: virtual on a seeded one.
  [[nodiscard]] std::chrono::nanoseconds now() const;
  /// Rings when a value was written to memory by a stream of this device.
  [[nodiscard]] Bell& value_bell() { return value_bell_; }
  /// Whether the device is going away: waits give up.
  [[nodiscard]] bool stopping() const { return stopping_.load(); }

  /// Waits until `ready()`, listening to `bell` and looking again after each `slice`. False: `timeout` passed first.
  /// Throws AbortedError when the device goes away. `what` makes the words for a report of a deadlock.
  template <class Ready, class What>
  bool wait(Bell& bell, const Ready& ready, std::chrono::nanoseconds timeout, const What& what,
            std::chrono::nanoseconds slice = std::chrono::milliseconds(20)) {
    return wait({&bell, nullptr, 0, slice}, ready, timeout, what);
  }
  /// Waits until the point is reached. False: `timeout` passed first.
  template <class What>
  bool wait_for(const Point& point, std::chrono::nanoseconds timeout, const What& what) {
    if (point.reached()) return true;
    Timeline& timeline = *point.timeline;
    return wait(
        {&timeline.bell(), &timeline, point.sequence, std::chrono::milliseconds(20)}, [&] { return point.reached(); },
        timeout, what);
  }
  /// Starts a thread of this device. `body` must end soon after stopping() turns true.
  void start_thread(const std::string& name, std::function<void()> body);
  /// Joins the threads that have ended.
  void reap();
  /// Whether it has threads that have not ended.
  [[nodiscard]] bool has_threads();
  /// Makes waits give up.
  void announce_stop();
  /// After announce_stop(): joins all threads but the calling one, which is let go.
  void stop();

 private:
  // What to listen to while asleep.
  struct Alarm {
    Bell* bell;
    Timeline* timeline;  // null: none; else it is told that `sequence` is wanted
    std::uint64_t sequence;
    std::chrono::nanoseconds slice;  // the longest sleep between two looks
  };
  template <class Ready, class What>
  bool wait(const Alarm& alarm, const Ready& ready, std::chrono::nanoseconds timeout, const What& what) {
    if (ready()) return true;
    const std::function<bool()> over = [&] { return ready() || stopping(); };
    const bool in_time =
        scheduler_ != nullptr ? scheduler_->wait_until(over, timeout, what()) : sleep_until(alarm, over, timeout);
    if (ready()) return true;
    if (stopping()) TESSERA_THROW(AbortedError, name_, ": the device went away while it waited for ", what());
    return in_time && ready();
  }

  struct OwnThread {
    std::thread thread;        // joinable unless seeded
    std::uint64_t seeded = 0;  // the scheduler's id
    std::thread::id id;
    std::shared_ptr<std::atomic<bool>> has_ended;
  };
  [[noreturn]] void refuse_caller() const;
  bool sleep_until(const Alarm& alarm, const std::function<bool()>& over, std::chrono::nanoseconds timeout);
  void join(OwnThread& thread);

  const std::string name_;
  const std::shared_ptr<SeededScheduler> scheduler_;
  Bell value_bell_;
  std::atomic<bool> stopping_{false};
  std::mutex mutex_;
  std::vector<OwnThread> threads_;
};

}  // namespace tessera::device::host::detail
