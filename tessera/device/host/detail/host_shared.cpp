#include "tessera/device/host/detail/host_shared.h"

#include <pthread.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "tessera/base/fork.h"
#include "tessera/device/detail/state.h"

namespace tessera::device::host::detail {
namespace {

using std::chrono::nanoseconds;
using std::chrono::steady_clock;

// About 5 us: longer than a hand-over between two running threads, shorter than a sleep and a wake.
constexpr int kSpins = 150;

// Devices of ranks that live as long as the process. Never destroyed; when the process ends, their ended threads are
// joined, since sanitizers require that.
struct LivingDevices {
  std::mutex mutex;
  std::set<HostShared*> all;

  static LivingDevices& get() {
    static constinit PerProcess<LivingDevices> one;
    static const int kAtExit = std::atexit([] {
      if (LivingDevices* own = one.find()) own->reap();
    });
    (void)kAtExit;
    return one.get();
  }
  void reap() {
    const std::lock_guard lock(mutex);
    for (HostShared* device : all) device->reap();
  }
};

}  // namespace

HostShared::HostShared(std::string name, std::shared_ptr<SeededScheduler> scheduler)
    : name_(std::move(name)), scheduler_(std::move(scheduler)) {
  LivingDevices& living = LivingDevices::get();
  const std::lock_guard lock(living.mutex);
  living.all.insert(this);
}

HostShared::~HostShared() {
  LivingDevices& living = LivingDevices::get();
  const std::lock_guard lock(living.mutex);
  living.all.erase(this);
}

nanoseconds HostShared::now() const {
  return scheduler_ != nullptr ? scheduler_->now() : steady_clock::now().time_since_epoch();
}

void HostShared::refuse_caller() const {
  TESSERA_THROW(InvalidArgument, name_,
                ": this thread is not a participant of the seeded scheduler; start it with SeededScheduler::spawn or "
                "create a SeededScheduler::Participant first");
}

bool HostShared::sleep_until(const Alarm& alarm, const std::function<bool()>& over, nanoseconds timeout) {
  const auto start = steady_clock::now();
  for (int spin = 0; spin < kSpins; ++spin) {
    if (over()) return true;
    pause_briefly();
  }
  nanoseconds nap = std::min<nanoseconds>(alarm.slice, std::chrono::microseconds(20));
  for (;;) {
    const nanoseconds left = timeout == kForever ? kForever : timeout - (steady_clock::now() - start);
    if (left.count() <= 0) return over();
    const std::uint32_t seen = alarm.bell->listen();
    if (alarm.timeline != nullptr) alarm.timeline->want(alarm.sequence);
    if (over()) return true;
    alarm.bell->sleep(seen, std::min(left, nap));
    if (over()) return true;
    nap = std::min(alarm.slice, nap * 2);
  }
}

void HostShared::start_thread(const std::string& name, std::function<void()> body) {
  auto has_ended = std::make_shared<std::atomic<bool>>(false);
  auto whole = [body = std::move(body), has_ended, short_name = name.substr(0, 15)]() mutable {
    pthread_setname_np(pthread_self(), short_name.c_str());
    is_device_worker = true;
    // Also if the body ends its thread by pthread_exit.
    struct End {
      std::function<void()>& body;
      std::atomic<bool>& has_ended;
      ~End() {
        body = nullptr;
        has_ended.store(true);
      }
    };
    const End end{body, *has_ended};
    body();
  };
  const std::lock_guard lock(mutex_);
  OwnThread& own = threads_.emplace_back();
  own.has_ended = has_ended;
  try {
    if (scheduler_ != nullptr) {
      own.seeded = scheduler_->spawn_unranked(name_ + ": " + name, std::move(whole));
    } else {
      own.thread = std::thread(std::move(whole));
      own.id = own.thread.get_id();
    }
  } catch (...) {
    threads_.pop_back();
    throw;
  }
}

bool HostShared::has_threads() {
  const std::lock_guard lock(mutex_);
  return std::ranges::any_of(threads_, [](const OwnThread& own) { return !own.has_ended->load(); });
}

void HostShared::join(OwnThread& own) {
  if (own.seeded != 0) {
    scheduler_->join(own.seeded);
  } else if (own.id == std::this_thread::get_id()) {
    own.thread.detach();
  } else {
    own.thread.join();
  }
}

void HostShared::reap() {
  // A seeded thread that has ended for us may still hold the baton for a moment: joining it would be a wait. stop()
  // joins these threads.
  if (scheduler_ != nullptr) return;
  std::vector<OwnThread> ended;
  {
    const std::lock_guard lock(mutex_);
    for (auto own = threads_.begin(); own != threads_.end();) {
      if (own->has_ended->load()) {
        ended.push_back(std::move(*own));
        own = threads_.erase(own);
      } else {
        ++own;
      }
    }
  }
  for (OwnThread& own : ended) join(own);
}

void HostShared::announce_stop() {
  stopping_.store(true);
  value_bell_.ring();
}

void HostShared::stop() {
  for (;;) {
    std::vector<OwnThread> all;
    {
      const std::lock_guard lock(mutex_);
      all.swap(threads_);
    }
    if (all.empty()) return;
    for (OwnThread& own : all) {
      try {
        join(own);
      } catch (const Error&) {
        // A seeded thread that destroys the device cannot join itself; the scheduler detaches it.
      }
    }
  }
}

}  // namespace tessera::device::host::detail
