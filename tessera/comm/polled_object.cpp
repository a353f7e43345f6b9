#include "tessera/comm/polled_object.h"

#include <pthread.h>

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "tessera/base/fork.h"

namespace tessera::comm::detail {
namespace {

using Clock = std::chrono::steady_clock;

class Watcher {
 public:
  void add(const std::shared_ptr<PolledObject>& watched) {
    const std::lock_guard lock(mutex_);
    if (has_stopped_) return;
    added_.push_back({watched, Clock::now(), watched->period()});
    if (!thread_.joinable()) {
      thread_ = std::thread([this] { run(); });
    } else {
      changed_.notify_all();
    }
  }
  void look_now() {
    const std::lock_guard lock(mutex_);
    is_urgent_ = true;
    changed_.notify_all();
  }
  void stop() {
    {
      const std::lock_guard lock(mutex_);
      has_stopped_ = true;
      changed_.notify_all();
    }
    if (thread_.joinable()) thread_.join();
  }
  bool is_this_thread() {
    const std::lock_guard lock(mutex_);
    return thread_.get_id() == std::this_thread::get_id();
  }

 private:
  struct Item {
    std::weak_ptr<PolledObject> watched;
    Clock::time_point due;
    std::chrono::milliseconds period;
  };

  void run() {
    ::pthread_setname_np(::pthread_self(), "watch");
    std::vector<Item> items;  // local to this thread, so that look() may watch more objects
    std::unique_lock lock(mutex_);
    while (!has_stopped_) {
      items.insert(items.end(), added_.begin(), added_.end());
      added_.clear();
      const bool is_urgent = std::exchange(is_urgent_, false);
      lock.unlock();
      look_at(items, is_urgent);
      lock.lock();
      const auto is_needed = [this] { return has_stopped_ || is_urgent_ || !added_.empty(); };
      if (items.empty()) {
        changed_.wait(lock, is_needed);
      } else {
        changed_.wait_until(lock, std::ranges::min(items, {}, &Item::due).due, is_needed);
      }
    }
  }

  static void look_at(std::vector<Item>& items, bool is_urgent) {
    std::erase_if(items, [is_urgent](Item& item) {
      const Clock::time_point now = Clock::now();
      if (!is_urgent && now < item.due) return item.watched.expired();
      item.due = now + item.period;
      const std::shared_ptr<PolledObject> live = item.watched.lock();
      return live == nullptr || !live->look();
    });
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Item> added_;
  bool is_urgent_ = false;
  bool has_stopped_ = false;
  std::thread thread_;
};

Watcher& watcher() {
  static constinit PerProcess<Watcher> only;  // a forked child has no such thread
  // Stopped before the watched objects are destroyed: drivers, which were loaded first, end after this.
  static const int kAtExit = std::atexit([] {
    if (Watcher* own = only.find()) own->stop();
  });
  (void)kAtExit;
  return only.get();
}

}  // namespace

void watch(const std::shared_ptr<PolledObject>& watched) { watcher().add(watched); }
void look_now() { watcher().look_now(); }
bool is_watching_thread() { return watcher().is_this_thread(); }

}  // namespace tessera::comm::detail
