// State that all parts of one host device share: how threads wait, its threads, and whether it is being destroyed.
//
// Every wait of the device goes through wait(): a short spin and then sleep or, on a seeded device, the scheduler.
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

/// Runs the calling thread for a rank without keeping it alive while idle: a rank owns its device, so the threads of
/// the device must not own the rank.
class WeakRank {
 public:
  WeakRank() : rank_(current_rank()) {}
  /// Runs `body` for the rank, or for the thread's own rank if that rank is being destroyed.
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

  /// Returns the name of the device.
  [[nodiscard]] const std::string& name() const { return name_; }
  /// Returns the scheduler; null if the device is not seeded.
  [[nodiscard]] SeededScheduler* scheduler() const { return scheduler_.get(); }
  /// Throws on a thread that the scheduler of a seeded device does not know.
  void check_caller() const {
    if (scheduler_ != nullptr && !scheduler_->is_participant()) [[unlikely]]
      refuse_caller();
  }
  /// A point at which a seeded device may let another thread run. Call it without locks.
  void yield() const {
    if (scheduler_ != nullptr) scheduler_->yield();
  }
  /// Returns the time on this device: virtual on a seeded one.
  [[nodiscard]] std::chrono::nanoseconds now() const;
  /// Returns the bell that rings when a stream of this device has written a value to memory.
  [[nodiscard]] Bell& value_bell() { return value_bell_; }
  /// Returns true if the device is being destroyed; waits are then aborted.
  [[nodiscard]] bool stopping() const { return stopping_.load(); }

  /// Waits until `ready()`, on `bell`, and checks again after each `slice`. Returns false if `timeout` passed first.
  /// Throws AbortedError if the device is destroyed. `what` returns the text for a deadlock report.
  template <class Ready, class What>
  bool wait(Bell& bell, const Ready& ready, std::chrono::nanoseconds timeout, const What& what,
            std::chrono::nanoseconds slice = std::chrono::milliseconds(20)) {
    return wait({&bell, nullptr, 0, slice}, ready, timeout, what);
  }
  /// Waits until the point is reached. Returns false if `timeout` passed first.
  template <class What>
  bool wait_for(const Point& point, std::chrono::nanoseconds timeout, const What& what) {
    if (point.reached()) return true;
    Timeline& timeline = *point.timeline;
    return wait(
        {&timeline.bell(), &timeline, point.sequence, std::chrono::milliseconds(20)}, [&] { return point.reached(); },
        timeout, what);
  }
  /// Starts a thread of this device. `body` must end soon after stopping() becomes true.
  void start_thread(const std::string& name, std::function<void()> body);
  /// Joins the threads that have ended.
  void reap();
  /// Returns true if it has threads that have not ended.
  [[nodiscard]] bool has_threads();
  /// Aborts waits.
  void announce_stop();
  /// After announce_stop(): joins all threads except the calling one, which is detached.
  void stop();

 private:
  // The wake-up sources of a sleep.
  struct Alarm {
    Bell* bell;
    Timeline* timeline;  // if not null, `sequence` is requested from it
    std::uint64_t sequence;
    std::chrono::nanoseconds slice;  // maximum sleep between two checks
  };
  template <class Ready, class What>
  bool wait(const Alarm& alarm, const Ready& ready, std::chrono::nanoseconds timeout, const What& what) {
    if (ready()) return true;
    const std::function<bool()> over = [&] { return ready() || stopping(); };
    const bool in_time =
        scheduler_ != nullptr ? scheduler_->wait_until(over, timeout, what()) : sleep_until(alarm, over, timeout);
    if (ready()) return true;
    if (stopping()) TESSERA_THROW(AbortedError, name_, ": the device was destroyed during a wait for ", what());
    return in_time && ready();
  }

  struct OwnThread {
    std::thread thread;        // joinable unless seeded
    std::uint64_t seeded = 0;  // id in the scheduler
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
