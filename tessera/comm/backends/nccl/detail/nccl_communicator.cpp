#include "tessera/comm/backends/nccl/detail/nccl_communicator.h"

#include <algorithm>
#include <cstring>
#include <thread>

#include "tessera/base/error.h"
#include "tessera/base/log.h"
#include "tessera/comm/backends/nccl/detail/calls.h"
#include "tessera/comm/backends/nccl/detail/library.h"
#include "tessera/comm/deadline_text.h"
#include "tessera/comm/detail/peer_memory/failures.h"
#include "tessera/comm/detail/store_wait.h"
#include "tessera/memory/allocator.h"

namespace tessera::comm::nccl {
namespace {

using std::chrono::nanoseconds;

constexpr std::chrono::milliseconds kLook{20};    // polling period for pending operations
constexpr std::chrono::milliseconds kIdle{1000};  // polling period for NCCL errors while idle
constexpr std::chrono::seconds kFarewell{2};      // limit for a regular end
constexpr std::chrono::microseconds kPoll{50};    // polling period until NCCL is ready
constexpr std::chrono::hours kLongest{24};        // maximum wait, so that clocks do not overflow

std::int64_t ns_of(std::chrono::steady_clock::time_point time) { return time.time_since_epoch().count(); }

std::string label_of(const Task& task) {
  return task.operations.size() == 1 ? std::string(to_string(task.operations[0].kind)) : "coalesced";
}

}  // namespace

NcclCommunicator::NcclCommunicator(const device::Device& device, const ConnectRequest& request)
    : device_(device),
      rank_(request.rank),
      size_(static_cast<int>(request.ranks.size())),
      own_(device_.create_stream({.name = "nccl"})),
      scratch_(memory::Allocator::of(device_).allocate(1, own_)) {
  own_.fill(scratch_.data(), 0, 1, 1);
  own_.synchronize();
  connect(request);
}

// A thread that works for no rank, since it would keep the rank alive; it is never joined.
void NcclCommunicator::start_watching() {
  std::thread([watched = weak_from_this(), bell = bell_] { watch(watched, *bell); }).detach();
}

NcclCommunicator::~NcclCommunicator() {
  bell_->ring();
  if (comm_ == nullptr) return;
  look_at_pending();
  if (!pending_.empty()) {
    end(Failure::Kind::kAborted, "rank " + std::to_string(rank_) + " released its groups");
    abort_comm();
    return;
  }
  try {
    check(library().ncclCommFinalize(comm_), "ncclCommFinalize", comm_);
    wait_until_ready("the end of the communicator", kFarewell);
    library().ncclCommDestroy(comm_);
  } catch (const std::exception& error) {
    log::warn("nccl: the communicator was not finalized: ", error.what());
    library().ncclCommAbort(comm_);
  }
}

// NCCL identifies the ranks of a communicator by an id that the first of them generates.
void NcclCommunicator::connect(const ConnectRequest& request) {
  ncclUniqueId id{};
  if (rank_ == 0) {
    check(library().ncclGetUniqueId(&id), "ncclGetUniqueId", nullptr);
    request.store->set("id", std::string_view(id.internal, sizeof id.internal));
  } else {
    const std::string subject = "group of ranks " + request.name;
    const auto text =
        detail::wait_for_value(*request.store, {.key = "id",
                                                .timeout = request.timeout,
                                                .subject = subject,
                                                .whom = "rank " + to_string(request.ranks[0]) + " to join"});
    TESSERA_CHECK_AS(TimeoutError, text.has_value(), subject, ": rank ", request.ranks[0], " did not join within ",
                     request.timeout);
    TESSERA_CHECK(text->size() == sizeof id.internal, subject, ": the NCCL id must have ", sizeof id.internal,
                  " bytes, got ", text->size());
    std::memcpy(id.internal, text->data(), sizeof id.internal);
  }
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  // The device must be current for the call.
  own_.launch_native([&](void*) {
    check(library().ncclCommInitRankConfig(&comm_, size_, id, rank_, &config), "ncclCommInitRankConfig", nullptr);
  });
  try {
    wait_until_ready("its ranks to connect", request.timeout);
  } catch (const std::exception&) {
    library().ncclCommAbort(comm_);
    comm_ = nullptr;
    throw;
  }
}

void NcclCommunicator::wait_until_ready(const char* what, nanoseconds timeout) {
  const auto until = Clock::now() + std::min<nanoseconds>(timeout, kLongest);
  ncclResult_t state = ncclInProgress;
  while (true) {
    check(library().ncclCommGetAsyncError(comm_, &state), "ncclCommGetAsyncError", comm_);
    if (state != ncclInProgress) break;
    TESSERA_CHECK_AS(TimeoutError, Clock::now() < until, "nccl: waited ", timeout, " for ", what);
    std::this_thread::sleep_for(kPoll);
  }
  check(state, what, comm_);
}

const Capabilities& nccl_capabilities() {
  // The kinds that issue() translates into calls of NCCL.
  static const Capabilities kCan = {
      .kinds = bit_of(OpKind::kAllReduce) | bit_of(OpKind::kAllGather) | bit_of(OpKind::kReduceScatter) |
               bit_of(OpKind::kAllToAll) | bit_of(OpKind::kBroadcast) | bit_of(OpKind::kReduce) |
               bit_of(OpKind::kScatter) | bit_of(OpKind::kGather) | bit_of(OpKind::kBarrier) | bit_of(OpKind::kSend) |
               bit_of(OpKind::kRecv) | bit_of(OpKind::kPermute),
      .device_kinds = {"cuda"},
      .has_fixed_order = false,
      .has_abort = true,
      .has_shrink = false,
      .has_capture = true};
  return kCan;
}

std::exception_ptr NcclCommunicator::error(std::string_view group) {
  const std::lock_guard lock(mutex_);
  if (!ended_) return nullptr;
  try {
    detail::throw_failure(ended_->kind, ended_->text, group);
  } catch (...) {
    return std::current_exception();
  }
}

void NcclCommunicator::enqueue(const std::shared_ptr<Task>& task, const device::Stream& stream) {
  TESSERA_CHECK(stream.device() == device_, "group ", *task->group, ": the stream must be on ", device_.name(),
                ", got stream ", stream.name(), " on ", stream.device().name());
  for (const Operation& operation : task->operations) check_supported(operation);
  const bool is_captured = stream.is_capturing();
  const std::lock_guard lock(launch_mutex_);
  if (const std::exception_ptr error = this->error(*task->group)) {
    if (is_captured) std::rethrow_exception(error);
    task->error = error;
    task->is_done.store(1, std::memory_order_release);
    return;
  }
  launch(*task, stream);
  if (is_captured) return;
  task->sequence.store(sequence_.fetch_add(1, std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  // Weak: the watching thread must not be the last owner of the object that joins it.
  task->look = [weak = weak_from_this(), began = Clock::now()](Task& asked, bool has_ended) {
    if (!has_ended) return;
    if (const auto self = weak.lock()) {
      self->take_in_ended();
      self->finish(asked, began);
    } else {
      asked.is_done.store(1, std::memory_order_release);
    }
  };
  PendingTask pending{.task = task,
                      .sequence = task->sequence.load(std::memory_order_relaxed),
                      .deadline = task->deadline,
                      .text = text_of(task->operations[0]),
                      .launched = detail::Launched::of(*task, rank_),
                      .record = task->record,
                      .group = task->group,
                      .event = device_.create_event(),
                      .since = {}};
  stream.record(pending.event);
  bool was_idle = false;
  {
    const std::lock_guard pending_lock(mutex_);
    was_idle = pending_.empty();
    pending_.push_back(std::move(pending));
  }
  if (was_idle) bell_->ring();
}

void NcclCommunicator::launch(const Task& task, const device::Stream& stream) {
  // The first operation of a kind may load code, which would wait for spinning kernels.
  std::string kind;
  for (const Operation& operation : task.operations) {
    kind = tessera::detail::concat(to_string(operation.kind), to_string(operation.dtype),
                                   to_string(operation.reduction.kind));
  }
  const bool loads_code = launched_.insert(kind).second;
  stream.launch_native([&](void* native) { issue_all(task, native); }, {.label = label_of(task)}, loads_code);
}

void NcclCommunicator::issue_all(const Task& task, void* native) {
  const NcclTarget target{.comm = comm_,
                          .rank = rank_,
                          .size = size_,
                          .stream = static_cast<cudaStream_t>(native),
                          .scratch = scratch_.data()};
  std::vector<ncclRedOp_t> reductions;
  for (const Operation& operation : task.operations) reductions.push_back(make_reduction(operation, comm_));
  check(library().ncclGroupStart(), "ncclGroupStart", comm_);
  std::exception_ptr error;
  try {
    for (std::size_t i = 0; i < reductions.size(); ++i) issue(task.operations[i], reductions[i], target);
  } catch (...) {
    error = std::current_exception();
  }
  // An open group is closed even after an error.
  const ncclResult_t result = library().ncclGroupEnd();
  if (error) std::rethrow_exception(error);
  check(result, "ncclGroupEnd", comm_);
  wait_until_ready("a launch", task.deadline);
  for (std::size_t i = 0; i < reductions.size(); ++i) destroy_reduction(task.operations[i], reductions[i], comm_);
}

void NcclCommunicator::finish(Task& task, Clock::time_point began) {
  const std::exception_ptr error = this->error(*task.group);
  const std::lock_guard lock(mutex_);
  if (task.is_done.load(std::memory_order_acquire) != 0) return;
  task.ran_ns.store(ns_of(Clock::now()) - ns_of(began), std::memory_order_relaxed);
  task.error = error;
  task.is_done.store(1, std::memory_order_release);
}

void NcclCommunicator::end(Failure::Kind kind, const std::string& text) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (!ended_) ended_ = EndedTask{kind, text};
  }
  bell_->ring();
}

// The watching thread aborts the communicator, since that may take long.
void NcclCommunicator::abort(std::string_view reason) noexcept {
  end(Failure::Kind::kAborted, "aborted by rank " + std::to_string(rank_) + ": " + std::string(reason));
}

void NcclCommunicator::extend_deadline(nanoseconds by) {
  const std::lock_guard lock(mutex_);
  for (PendingTask& pending : pending_) pending.extra += by;
}

void NcclCommunicator::WatchBell::ring() {
  const std::lock_guard lock(mutex);
  has_news = true;
  rung.notify_all();
}

void NcclCommunicator::WatchBell::wait(std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex);
  rung.wait_for(lock, timeout, [&] { return has_news; });
  has_news = false;
}

void NcclCommunicator::watch(const std::weak_ptr<NcclCommunicator>& watched, WatchBell& bell) {
  while (true) {
    std::chrono::milliseconds pause = kLook;
    {
      // This may be the last owner.
      const std::shared_ptr<NcclCommunicator> self = watched.lock();
      if (self == nullptr || !self->look_around()) return;
      const std::lock_guard lock(self->mutex_);
      if (self->pending_.empty()) pause = kIdle;
    }
    bell.wait(pause);
  }
}

// Returns true if more work is expected.
bool NcclCommunicator::look_around() {
  look_at_pending();
  {
    const std::lock_guard lock(mutex_);
    if (!ended_) return true;
  }
  abort_comm();
  return false;
}

void NcclCommunicator::abort_comm() {
  {
    const std::lock_guard lock(launch_mutex_);
    library().ncclCommAbort(std::exchange(comm_, nullptr));
  }
  std::deque<PendingTask> left;
  {
    // A thread that processes the first of them finishes it before the swap, or finds none.
    const std::lock_guard looking(look_mutex_);
    const std::lock_guard lock(mutex_);
    left.swap(pending_);
  }
  for (const PendingTask& pending : left) finish(pending);
}

void NcclCommunicator::finish(const PendingTask& pending) {
  // Records first: a thread that sees the task done may read the record immediately.
  if (const std::shared_ptr<const std::string> group = pending.group.lock()) {
    if (!pending.since) pending.record->began(pending.launched, pending.sequence);
    pending.record->ended(pending.launched, pending.sequence, error(*group));
  }
  if (const std::shared_ptr<Task> task = pending.task.lock()) finish(*task, pending.since.value_or(Clock::now()));
}

void NcclCommunicator::look_at_pending() {
  ncclResult_t state = ncclSuccess;
  {
    const std::lock_guard lock(launch_mutex_);
    if (library().ncclCommGetAsyncError(comm_, &state) != ncclSuccess) state = ncclInternalError;
  }
  if (state != ncclSuccess && state != ncclInProgress) {
    end(Failure::Kind::kDeadRank, std::string("NCCL: ") + library().ncclGetErrorString(state));
    return;
  }
  take_in_ended();
}

void NcclCommunicator::take_in_ended() {
  const std::lock_guard looking(look_mutex_);
  while (true) {
    PendingTask front;
    {
      const std::lock_guard lock(mutex_);
      if (pending_.empty()) return;
      PendingTask& first = pending_.front();
      if (!first.since) {
        first.since = Clock::now();
        if (const auto group = first.group.lock()) first.record->began(first.launched, first.sequence);
      }
      front = first;
    }
    bool has_ended = false;
    try {
      has_ended = front.event.query();
    } catch (const std::exception&) {
      has_ended = true;  // other work on its stream has failed, which is reported there
    }
    if (!has_ended) {
      const auto passed = Clock::now() - *front.since;
      if (front.deadline == device::kForever || passed <= front.deadline + front.extra) return;
      end(Failure::Kind::kDeadline,
          tessera::detail::concat("operation ", front.sequence, ", ", front.text, ": did not finish within ",
                                  detail::text_of_deadline(front.deadline, front.extra),
                                  "; NCCL does not report the missing ranks"));
      return;
    }
    {
      const std::lock_guard lock(mutex_);
      if (!pending_.empty()) pending_.pop_front();
    }
    finish(front);
  }
}

}  // namespace tessera::comm::nccl
