#include "tessera/device/host/detail/stream_core.h"

#include <algorithm>

#include "tessera/base/caught.h"
#include "tessera/base/error.h"
#include "tessera/device/detail/state.h"
#include "tessera/device/host/detail/work.h"

namespace tessera::device::host::detail {
namespace {

using std::chrono::nanoseconds;

// About 20 us: a producer in a loop finds its worker awake.
constexpr int kIdleSpins = 500;

// The streams whose operations this thread is running, innermost first: an operation that waits for its own stream
// would wait forever.
struct RunningScope {
  explicit RunningScope(const StreamCore* running)
      : core(running), outer(innermost), was_worker(std::exchange(is_device_worker, true)) {
    innermost = this;
  }
  ~RunningScope() {
    innermost = outer;
    is_device_worker = was_worker;
  }
  RunningScope(const RunningScope&) = delete;
  RunningScope& operator=(const RunningScope&) = delete;

  static bool contains(const StreamCore* core) {
    for (const RunningScope* scope = innermost; scope != nullptr; scope = scope->outer) {
      if (scope->core == core) return true;
    }
    return false;
  }

  // The initial-exec model avoids a call per access.
  [[gnu::tls_model("initial-exec")]] static constinit thread_local RunningScope* innermost;

  const StreamCore* core;
  RunningScope* outer;
  bool was_worker;
};
constinit thread_local RunningScope* RunningScope::innermost = nullptr;

std::exception_ptr thread_ended(const std::string& where) {
  return std::make_exception_ptr(AbortedError(
      {__FILE__, __LINE__}, where + ": must return or throw, got pthread_exit (or a cancellation) of its thread"));
}

}  // namespace

void HostHold::release() {
  GateState held = GateState::kHeld;
  state_.compare_exchange_strong(held, GateState::kReleased);
  bell_.ring();
}

void HostHold::wait(HostShared& shared, const std::string& stream) {
  const bool in_time = shared.wait(
      bell_, [&] { return is_over(); }, timeout_,
      [&] { return tessera::detail::concat("the release of a hold on stream '", stream, "'"); });
  GateState held = GateState::kHeld;
  if (in_time || !state_.compare_exchange_strong(held, GateState::kTimedOut)) return;
  TESSERA_THROW(TimeoutError, "stream '", stream, "' was held for ", timeout_,
                " and not released; call Hold::release in time, or pass a longer timeout to hold");
}

StreamCore::StreamCore(std::shared_ptr<HostShared> shared, std::string name, bool is_inline)
    : shared_(std::move(shared)), name_(std::move(name)), is_inline_(is_inline) {}

StreamCore::~StreamCore() { magic_ = 0; }

StreamCore& StreamCore::from_native(void* native) {
  auto* core = static_cast<StreamCore*>(native);
  TESSERA_CHECK(core != nullptr && core->magic_ == kMagic, "not a stream of a host device: ", native);
  return *core;
}

void StreamCore::remove_user() {
  if (users_.fetch_sub(1) == 1) bell_.ring();
}

void StreamCore::set_delay(nanoseconds delay) {
  delay_ns_.store(delay.count());
  is_hindered_.store(is_stalled_.load() || delay.count() > 0);
}

void StreamCore::set_stalled(bool stalled) {
  is_stalled_.store(stalled);
  is_hindered_.store(stalled || delay_ns_.load() > 0);
  bell_.ring();
}

bool StreamCore::synchronize(nanoseconds timeout) {
  TESSERA_CHECK(!RunningScope::contains(this), "stream '", name_,
                "' cannot be waited for by work that runs on it; wait from outside");
  return shared_->wait_for({timeline_, queue_.pushed()}, timeout,
                           [&] { return tessera::detail::concat("stream '", name_, "' to finish"); });
}

void StreamCore::drain() {
  if (!is_inline_) {
    shared_->yield();
    return;
  }
  if (is_idle()) return;
  const auto self = shared_from_this();  // the work may release the last stream and device
  while (!is_idle()) {
    Runner nobody = Runner::kNobody;
    if (!runner_.compare_exchange_strong(nobody, Runner::kCaller)) return;
    if (run_pending(false)) {
      runner_.store(Runner::kNobody);
      continue;
    }
    hand_over();
    return;
  }
}

// The caller is the runner, and stays it if no thread can be started.
void StreamCore::hand_over() {
  try {
    const std::lock_guard lock(producer_);
    if (!has_worker_) start_worker();
  } catch (const std::exception&) {
    run_pending(true);
    runner_.store(Runner::kNobody);
    return drain();
  }
  runner_.store(Runner::kWorker);
  bell_.ring();
}

void StreamCore::start_worker() {
  shared_->start_thread(name_, [self = shared_from_this()] { self->work(); });
  has_worker_ = true;
}

bool StreamCore::has_work() const { return is_inline_ ? runner_.load() == Runner::kWorker : !is_idle(); }

void StreamCore::wait_for_work() {
  const auto over = [this] { return has_work() || is_closing(); };
  if (shared_->scheduler() != nullptr) {
    if (!over()) shared_->scheduler()->park(over, "work");
    return;
  }
  for (int spin = 0; spin < kIdleSpins; ++spin) {
    if (over()) return;
    pause_briefly();
  }
  while (!over()) {
    const std::uint32_t seen = bell_.listen();
    if (!over()) bell_.sleep(seen, std::chrono::hours(1));
  }
}

void StreamCore::work() {
  for (;;) {
    wait_for_work();
    if (!has_work()) return;
    run_pending(true);
    if (!is_inline_) continue;
    runner_.store(Runner::kNobody);
    Runner nobody = Runner::kNobody;
    if (!is_idle()) runner_.compare_exchange_strong(nobody, Runner::kWorker);
  }
}

// Runs operations until the queue is empty. Returns false if the next one must wait and `may_wait` is false.
bool StreamCore::run_pending(bool may_wait) {
  const RunningScope scope(this);
  while (Op* op = queue_.front()) {
    if (!run_front(*op, timeline_->done() + 1, may_wait)) return false;
    timeline_->advance(queue_.pop());  // captures of the operation are destroyed before it is visibly complete
    shared_->yield();
  }
  return true;
}

// Parks the error of `body`. Calls `lost` if the thread ends in it.
template <class Body, class Lost>
void StreamCore::attempt(std::uint64_t sequence, const Body& body, const Lost& lost) {
  const auto failed = [&] { timeline_->fail(sequence, caught_error("stream '" + name_ + "': its work")); };
  run_guarded(body, failed, lost);
}

void StreamCore::run_claimed(HostFunction& body) {
  {
    const RunningScope scope(this);
    const std::uint64_t sequence = timeline_->done() + 1;
    attempt(
        sequence, [&] { body(); }, [&] { lose_thread(sequence, queue_.pop_held(), false); });
    body.reset();  // captures are destroyed before the work is visibly complete
    timeline_->advance(queue_.pop_held());
  }
  runner_.store(Runner::kNobody);
  drain();
}

bool StreamCore::run_front(Op& op, std::uint64_t sequence, bool may_wait) {
  const bool is_hindered = is_hindered_.load();
  if (!may_wait && (is_hindered || must_wait(op))) return false;
  const auto run = [&] {
    attempt(
        sequence,
        [&] {
          if (is_hindered) [[unlikely]]
            hinder();
          execute(op, timeline_->failure_at(sequence));
        },
        [&] { lose_thread(sequence, queue_.pop(), may_wait); });
  };
  if (may_wait) {
    rank_.enter(run);  // left before the operation is visibly complete: a worker keeps no rank alive
  } else {
    run();
  }
  return true;
}

// The thread that runs the stream ends during its work. That work has failed, and another thread runs later work.
void StreamCore::lose_thread(std::uint64_t sequence, std::uint64_t popped, bool is_worker) {
  timeline_->fail(sequence, thread_ended("stream '" + name_ + "': its work"));
  timeline_->advance(popped);
  runner_.store(Runner::kNobody);
  const std::lock_guard lock(producer_);
  if (is_worker) has_worker_ = false;
  Runner nobody = Runner::kNobody;
  if (is_idle() || (is_inline_ && !runner_.compare_exchange_strong(nobody, Runner::kWorker))) return;
  try {
    if (!has_worker_) start_worker();
    bell_.ring();
  } catch (const std::exception&) {
    runner_.store(Runner::kNobody);  // the next operation provides a thread
  }
}

bool StreamCore::must_wait(const Op& op) const {
  if (const auto* wait = std::get_if<WaitOp>(&op)) return !wait->point.reached();
  if (const auto* hold = std::get_if<HoldOp>(&op)) return !hold->hold->is_over();
  if (const auto* word = std::get_if<WaitValueOp>(&op)) return !value_holds(word->from, word->value, word->compare);
  if (const auto* graph = std::get_if<GraphOp>(&op)) return !graph->previous.reached() || graph->plan->may_wait();
  return false;
}

void StreamCore::hinder() {
  const std::int64_t delay = delay_ns_.load();
  if (delay > 0) {
    Bell nobody;
    shared_->wait(
        nobody, [] { return false; }, nanoseconds(delay), [] { return std::string("a delay"); });
  }
  shared_->wait(
      bell_, [&] { return !is_stalled_.load(); }, kForever,
      [&] { return tessera::detail::concat("the end of a stall of stream '", name_, "'"); });
}

void StreamCore::execute(Op& op, const std::exception_ptr& poison) {
  const bool skip = poison != nullptr;
  if (auto* work = std::get_if<HostFunction>(&op)) {
    if (!skip) (*work)();
  } else if (auto* record = std::get_if<RecordOp>(&op)) {
    if (record->stamp != nullptr) record->stamp->store(shared_->now().count());
    show(record->tick);
  } else if (auto* wait = std::get_if<WaitOp>(&op)) {
    execute(*wait);
  } else if (auto* graph = std::get_if<GraphOp>(&op)) {
    execute(*graph, poison);
  } else if (auto* word = std::get_if<WaitValueOp>(&op)) {
    if (!skip) wait_for_value(*shared_, word->from, word->value, word->compare);
  } else if (auto* hold = std::get_if<HoldOp>(&op)) {
    if (!skip) hold->hold->wait(*shared_, name_);
  }
}

void StreamCore::execute(WaitOp& op) {
  shared_->wait_for(op.point, kForever, [&] { return tessera::detail::concat("an event, on stream '", name_, "'"); });
  if (const auto error = op.point.failure()) std::rethrow_exception(error);
}

// A skipped launch still waits for the previous one: the next launch relies on the end of this one for both.
void StreamCore::execute(GraphOp& op, const std::exception_ptr& poison) {
  const auto body = [&] {
    if (op.previous.timeline != timeline_) {
      shared_->wait_for(op.previous, kForever, [&] {
        return tessera::detail::concat("the launch before of a graph, on stream '", name_, "'");
      });
    }
    if (poison == nullptr) {
      op.plan->replay(op.points.get(), op.replay);
    } else {
      op.plan->give_up(op.points.get(), poison);
    }
  };
  const auto failed = [&] {
    op.plan->give_up(op.points.get(), caught_error("a replay"));
    throw;
  };
  run_guarded(body, failed, [&] { op.plan->give_up(op.points.get(), thread_ended("a replay")); });
}

}  // namespace tessera::device::host::detail
