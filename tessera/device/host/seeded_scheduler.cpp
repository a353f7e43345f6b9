// The baton is `running`: a slot, or null if no participant can run. The participant that holds it and stops (yields,
// waits, leaves) picks the next under the mutex and wakes it; all others sleep, each on its own condition variable.
// Conditions of waiting slots are evaluated there too, so no condition runs concurrently with a participant.
#include "tessera/device/host/seeded_scheduler.h"

#include <atomic>
#include <condition_variable>
#include <forward_list>
#include <map>
#include <mutex>
#include <thread>

#include "tessera/base/caught.h"
#include "tessera/base/error.h"
#include "tessera/base/fnv1a.h"
#include "tessera/base/rank.h"

namespace tessera::device::host {
namespace {

enum class SlotState : std::uint8_t { kRunnable, kWaiting, kParked, kLeft };

constexpr std::chrono::nanoseconds kNever = std::chrono::nanoseconds::max();

// Serial numbers, not addresses: a new scheduler at the address of a destroyed one must not be mistaken for it.
std::uint64_t next_serial() {
  static std::atomic<std::uint64_t> serial{0};
  return ++serial;
}

}  // namespace

struct SchedulerSlot {
  std::uint64_t scheduler = 0;
  std::uint64_t id = 0;
  std::string name;
  SlotState state = SlotState::kRunnable;
  std::atomic<bool> has_left{false};  // read by its own thread without the mutex
  const std::function<bool()>* ready = nullptr;
  std::chrono::nanoseconds deadline = kNever;
  std::string what;
  bool timed_out = false;
  std::string deadlock;  // the report, if this waiter must fail
  std::condition_variable baton;
  std::exception_ptr error;
};

namespace {

// The slots of this thread: one per scheduler that it takes part in.
std::forward_list<std::shared_ptr<SchedulerSlot>>& own_slots() {
  thread_local std::forward_list<std::shared_ptr<SchedulerSlot>> slots;
  return slots;
}

}  // namespace

struct SeededScheduler::Impl {
  explicit Impl(std::uint64_t seed) : state(seed * 0x9E3779B97F4A7C15ull + 0x1234567ull) {}

  const std::uint64_t serial = next_serial();
  mutable std::mutex mutex;
  std::vector<std::shared_ptr<SchedulerSlot>> slots;  // in order of joining
  std::map<std::uint64_t, std::pair<std::thread, std::shared_ptr<SchedulerSlot>>> threads;
  SchedulerSlot* running = nullptr;
  std::uint64_t state;
  std::uint64_t next_id = 1;
  std::uint64_t hash = tessera::detail::kFnv1aStart;
  std::uint64_t switch_count = 0;
  std::chrono::nanoseconds now{0};

  std::uint64_t random() {
    state += 0x9E3779B97F4A7C15ull;
    std::uint64_t z = state;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
  }
  void note(std::uint64_t value) { hash = tessera::detail::fnv1a_step(hash, value); }

  std::shared_ptr<SchedulerSlot> add_slot(std::string name) {
    auto slot = std::make_shared<SchedulerSlot>();
    slot->scheduler = serial;
    slot->id = next_id++;
    slot->name = std::move(name);
    slots.push_back(slot);
    return slot;
  }
  void remove_slot(SchedulerSlot& slot) {
    slot.state = SlotState::kLeft;
    slot.has_left = true;
    std::erase_if(slots, [&](const auto& other) { return other.get() == &slot; });
  }

  SchedulerSlot* own() const {
    for (const auto& slot : own_slots()) {
      if (slot->scheduler == serial && !slot->has_left) return slot.get();
    }
    return nullptr;
  }

  static bool can_run(const SchedulerSlot& slot) {
    switch (slot.state) {
      case SlotState::kRunnable: return true;
      case SlotState::kWaiting:
      case SlotState::kParked: return slot.timed_out || !slot.deadlock.empty() || (*slot.ready)();
      case SlotState::kLeft: break;
    }
    return false;
  }

  // No participant can run: advances time to the earliest deadline, otherwise declares a deadlock. Returns false if
  // only parked participants remain.
  bool unblock() {
    SchedulerSlot* first = nullptr;
    bool any_waiting = false;
    for (const auto& slot : slots) {
      if (slot->state != SlotState::kWaiting) continue;
      any_waiting = true;
      if (slot->deadline != kNever && (first == nullptr || slot->deadline < first->deadline)) first = slot.get();
    }
    if (first != nullptr) {
      now = std::max(now, first->deadline);
      first->timed_out = true;
      return true;
    }
    if (!any_waiting) return false;
    std::string report = "deadlock: every participant waits and no deadline is set:";
    for (const auto& slot : slots) report += "\n  " + slot->name + " waits for " + slot->what;
    for (const auto& slot : slots) {
      if (slot->state == SlotState::kWaiting) slot->deadlock = report;
    }
    return true;
  }

  // Gives the baton to a participant that can run, or to none.
  void dispatch() {
    for (;;) {
      std::vector<SchedulerSlot*> able;
      able.reserve(slots.size());
      for (const auto& slot : slots) {
        if (can_run(*slot)) able.push_back(slot.get());
      }
      if (!able.empty()) {
        SchedulerSlot* next = able[able.size() == 1 ? 0 : random() % able.size()];
        note(next->id);
        if (next != running) {
          ++switch_count;
          running = next;
          next->baton.notify_one();
        }
        return;
      }
      if (!unblock()) {
        running = nullptr;
        return;
      }
    }
  }

  void await_baton(std::unique_lock<std::mutex>& lock, SchedulerSlot& self) {
    self.baton.wait(lock, [&] { return running == &self; });
  }

  bool wait(SchedulerSlot& self, const std::function<bool()>& ready, std::chrono::nanoseconds timeout,
            const std::string& what, SlotState as) {
    std::unique_lock lock(mutex);
    self.state = as;
    self.ready = &ready;
    self.what = what;
    self.timed_out = false;
    self.deadline = timeout >= kNever - now ? kNever : now + std::max(timeout, std::chrono::nanoseconds(0));
    dispatch();
    await_baton(lock, self);
    self.state = SlotState::kRunnable;
    self.ready = nullptr;
    const std::string report = std::exchange(self.deadlock, {});
    TESSERA_CHECK_AS(DeviceError, report.empty(), self.name, ": ", report);
    return !self.timed_out;
  }
};

SeededScheduler::SeededScheduler(std::uint64_t seed) : impl_(std::make_unique<Impl>(seed)) {}

std::shared_ptr<SeededScheduler> SeededScheduler::create(std::uint64_t seed) {
  return std::shared_ptr<SeededScheduler>(new SeededScheduler(seed));
}

SeededScheduler::~SeededScheduler() {
  for (auto& [id, entry] : impl_->threads) {
    // A spawned thread may be the last owner of the scheduler; it has left already and only has to end.
    if (entry.first.get_id() == std::this_thread::get_id()) {
      entry.first.detach();
    } else if (entry.first.joinable()) {
      entry.first.join();
    }
  }
}

SeededScheduler::Participant::Participant(std::shared_ptr<SeededScheduler> scheduler, std::string name)
    : scheduler_(std::move(scheduler)) {
  TESSERA_CHECK(scheduler_ != nullptr, "Participant '", name, "': the scheduler must not be null");
  TESSERA_CHECK(!scheduler_->is_participant(), "Participant '", name,
                "': this thread is already a participant; a thread joins a scheduler once");
  Impl& impl = *scheduler_->impl_;
  std::unique_lock lock(impl.mutex);
  slot_ = impl.add_slot(std::move(name));
  own_slots().push_front(slot_);
  if (impl.running == nullptr) impl.dispatch();
  impl.await_baton(lock, *slot_);
}

SeededScheduler::Participant::~Participant() {
  Impl& impl = *scheduler_->impl_;
  const std::lock_guard lock(impl.mutex);
  const bool had_baton = impl.running == slot_.get();
  impl.remove_slot(*slot_);
  std::erase(own_slots(), slot_);
  if (had_baton) {
    impl.running = nullptr;
    impl.dispatch();
  }
}

std::uint64_t SeededScheduler::spawn(std::string name, std::function<void()> body) {
  return spawn_unranked(std::move(name), [rank = current_rank(), body = std::move(body)] {
    const RankScope scope(rank);
    body();
  });
}

std::uint64_t SeededScheduler::spawn_unranked(std::string name, std::function<void()> body) {
  Impl& impl = *impl_;
  const std::lock_guard lock(impl.mutex);
  auto slot = impl.add_slot(std::move(name));
  try {
    std::thread thread([self = shared_from_this(), slot, body = std::move(body)]() mutable {
      Impl& shared = *self->impl_;
      own_slots().push_front(slot);
      {
        std::unique_lock held(shared.mutex);
        shared.await_baton(held, *slot);
      }
      const auto end = [&] {
        // Captures are destroyed while the baton is held, so that their destructors follow the seed too.
        body = nullptr;
        own_slots().clear();
        const std::lock_guard held(shared.mutex);
        shared.remove_slot(*slot);
        shared.running = nullptr;
        shared.dispatch();
      };
      run_guarded(
          body, [&] { slot->error = caught_error("a thread of the seeded scheduler"); }, end);
      end();
    });
    impl.threads.emplace(slot->id, std::pair(std::move(thread), slot));
  } catch (...) {
    impl.remove_slot(*slot);
    throw;
  }
  if (impl.running == nullptr) impl.dispatch();
  return slot->id;
}

void SeededScheduler::join(std::uint64_t id) {
  Impl& impl = *impl_;
  std::shared_ptr<SchedulerSlot> slot;
  {
    const std::lock_guard lock(impl.mutex);
    const auto found = impl.threads.find(id);
    TESSERA_CHECK(found != impl.threads.end(), "join: no thread ", id, " was spawned here, or it was already joined");
    slot = found->second.second;
    TESSERA_CHECK(impl.own() != slot.get(), "join: thread '", slot->name, "' cannot join itself");
    if (impl.running == nullptr) impl.dispatch();  // the caller may have changed a condition of a parked participant
  }
  if (is_participant()) {
    wait_until([&] { return slot->state == SlotState::kLeft; }, kNever, "the end of thread '" + slot->name + "'");
  }
  std::thread thread;
  {
    const std::lock_guard lock(impl.mutex);
    const auto found = impl.threads.find(id);
    TESSERA_CHECK(found != impl.threads.end(), "join: thread '", slot->name, "' was joined by another");
    thread = std::move(found->second.first);
    impl.threads.erase(found);
  }
  thread.join();
  if (slot->error) std::rethrow_exception(slot->error);
}

void SeededScheduler::yield() {
  Impl& impl = *impl_;
  SchedulerSlot* self = impl.own();
  if (self == nullptr) return;
  std::unique_lock lock(impl.mutex);
  impl.dispatch();
  impl.await_baton(lock, *self);
}

bool SeededScheduler::wait_until(const std::function<bool()>& ready, std::chrono::nanoseconds timeout,
                                 const std::string& what) {
  SchedulerSlot* self = impl_->own();
  TESSERA_CHECK(
      self != nullptr, "wait for ", what,
      ": this thread is not a participant of the seeded scheduler; start it with SeededScheduler::spawn or create a "
      "SeededScheduler::Participant first");
  return impl_->wait(*self, ready, timeout, what, SlotState::kWaiting);
}

void SeededScheduler::park(const std::function<bool()>& ready, const std::string& what) {
  SchedulerSlot* self = impl_->own();
  TESSERA_CHECK(self != nullptr, "park for ", what, ": this thread is not a participant of the seeded scheduler");
  impl_->wait(*self, ready, kNever, what, SlotState::kParked);
}

bool SeededScheduler::is_participant() const { return impl_->own() != nullptr; }

std::uint64_t SeededScheduler::pick(std::uint64_t bound) {
  TESSERA_CHECK(bound > 0, "pick: the bound must be positive");
  const std::lock_guard lock(impl_->mutex);
  const std::uint64_t chosen = impl_->random() % bound;
  impl_->note(chosen);
  return chosen;
}

std::chrono::nanoseconds SeededScheduler::now() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->now;
}

std::uint64_t SeededScheduler::order_hash() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->hash;
}

std::uint64_t SeededScheduler::switches() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->switch_count;
}

}  // namespace tessera::device::host
