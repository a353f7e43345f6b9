#include "tessera/comm/detail/watch.h"

#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <vector>

namespace tessera::comm::detail {
namespace {

class Watcher {
 public:
  void add(const std::shared_ptr<Watched>& watched) {
    const std::lock_guard lock(mutex_);
    if (has_stopped_) return;
    watched_.push_back(watched);
    if (!thread_.joinable()) {
      thread_ = std::thread([this] { run(); });
    } else if (watched_.size() == 1) {
      changed_.notify_all();
    }
  }
  void stop() {
    {
      const std::lock_guard lock(mutex_);
      has_stopped_ = true;
      changed_.notify_all();
    }
    if (thread_.joinable()) thread_.join();
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    while (!has_stopped_) {
      if (watched_.empty()) {
        changed_.wait(lock);
        continue;
      }
      std::vector<std::weak_ptr<Watched>> now;
      now.swap(watched_);
      lock.unlock();
      std::erase_if(now, [](const std::weak_ptr<Watched>& each) {
        const std::shared_ptr<Watched> live = each.lock();
        return live == nullptr || !live->look();
      });
      lock.lock();
      watched_.insert(watched_.end(), now.begin(), now.end());
      if (!watched_.empty()) changed_.wait_for(lock, kWatchPeriod, [this] { return has_stopped_; });
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::weak_ptr<Watched>> watched_;
  bool has_stopped_ = false;
  std::thread thread_;
};

}  // namespace

void watch(const std::shared_ptr<Watched>& watched) {
  // Stopped before what it looks at goes: drivers, which were there first, end after this.
  static Watcher& watcher = *[] {
    static auto* const made = new Watcher;
    std::atexit([] { made->stop(); });
    return made;
  }();
  watcher.add(watched);
}

}  // namespace tessera::comm::detail
