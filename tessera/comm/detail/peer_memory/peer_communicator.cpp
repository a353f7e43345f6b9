#include "tessera/comm/detail/peer_memory/peer_communicator.h"

#include <algorithm>

#include "tessera/base/error.h"
#include "tessera/base/mutant.h"
#include "tessera/comm/detail/peer_memory/failures.h"
#include "tessera/comm/detail/peer_memory/signals.h"

namespace tessera::comm::detail {
namespace {

std::int64_t now_ns() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

// What this rank's buffers a task reads and writes; peers do, too, while it runs.
SmallVector<device::Access, 8> accesses_of(const Task& task, int rank, int size) {
  SmallVector<device::Access, 8> accesses;
  for (const Operation& operation : task.operations) {
    const std::size_t item = itemsize(operation.dtype);
    Extents extents;
    if (operation.kind == OpKind::kSend) {
      extents.in = operation.count;
    } else if (operation.kind == OpKind::kRecv) {
      extents.out = operation.count;
    } else {
      extents = definition(operation.kind).extents(operation, rank, size);
    }
    if (extents.in > 0) accesses.push_back(device::reads(operation.in, static_cast<std::size_t>(extents.in) * item));
    if (extents.out > 0)
      accesses.push_back(device::writes(operation.out, static_cast<std::size_t>(extents.out) * item));
  }
  return accesses;
}

}  // namespace

PeerCommunicator::PeerCommunicator(std::unique_ptr<PeerMemory> memory, const ConnectRequest& request)
    : memory_(std::move(memory)), rank_(request.rank), steps_(*memory_, request.rank) {
  const GroupMemory& group = memory_->group();
  Board& own = group.board(rank_);
  memory_->waiting().raise(own.joined, 1, own.sleepers);
  // Nobody goes on before all are there: none can then leave memory behind that another has yet to find.
  for (int peer = 0; peer < group.size(); ++peer) {
    Board& board = group.board(peer);
    const std::function<bool()> is_there = [&] { return board.joined.load(std::memory_order_acquire) != 0; };
    const std::function<bool()> is_over = [&] { return memory_->is_dead(peer); };
    const bool came = memory_->waiting().wait({.is_there = is_there,
                                               .word = board.joined,
                                               .sleepers = board.sleepers,
                                               .is_over = is_over,
                                               .timeout = request.timeout,
                                               .what = "the ranks of a new group"});
    TESSERA_CHECK_AS(TimeoutError, came, "ranks ", request.name, ": rank ", peer, " of them (rank ",
                     request.ranks[static_cast<std::size_t>(peer)], " of the world) ",
                     memory_->is_dead(peer) ? "died before it joined"
                                            : tessera::detail::concat("did not join within ", request.timeout));
  }
}

PeerCommunicator::~PeerCommunicator() {
  leave();
  if (pads_.empty()) return;
  try {
    wait_until_none_reaches(*memory_);
  } catch (const std::exception&) {
    // Ranks that take turns wait for each other; they are told so elsewhere.
  }
}

void PeerCommunicator::leave() noexcept {
  const GroupMemory& group = memory_->group();
  group.board(rank_).has_left.store(1, std::memory_order_seq_cst);
  memory_->waiting().wake(group.board(rank_).arrived);
  memory_->waiting().wake(group.board(rank_).finished);
}

const Capabilities& PeerCommunicator::capabilities() const {
  static const Capabilities kAll = {.kinds = (1U << kOpKinds) - 1,
                                    .device_kinds = 1,
                                    .has_fixed_order = true,
                                    .has_abort = true,
                                    .has_shrink = true,
                                    .has_symmetric_memory = true,
                                    .has_capture = true};
  return kAll;
}

void PeerCommunicator::enqueue(std::shared_ptr<Task> task, const device::Stream& stream) {
  const SmallVector<device::Access, 8> accesses = accesses_of(*task, rank_, memory_->group().size());
  const std::string_view label =
      task->operations.size() == 1 ? to_string(task->operations[0].kind) : std::string_view("coalesced");
  stream.run([self = shared_from_this(), task = std::move(task)] { self->run(*task); },
             {.label = label, .accesses = std::span<const device::Access>(accesses)});
}

void PeerCommunicator::run(Task& task) {
  task.began_ns.store(now_ns(), std::memory_order_relaxed);
  try {
    const std::unique_lock lock(running_, std::try_to_lock);
    TESSERA_CHECK(lock.owns_lock(), "group ", *task.group, ": two operations run at once on rank ", rank_,
                  ", from streams that are not ordered; inside captures, order them by events");
    const std::uint64_t step = TESSERA_MUTANT("comm.sequence_stands_still") ? 0 : 1;
    task.sequence.store(sequence_.fetch_add(step, std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    steps_.run(task);
  } catch (...) {
    if (!TESSERA_MUTANT("comm.error_lost")) task.error = std::current_exception();
  }
  task.ended_ns.store(now_ns(), std::memory_order_relaxed);
  const std::exception_ptr error = task.error;
  task.is_done.store(1, std::memory_order_release);
  task.is_done.notify_all();
  if (error) std::rethrow_exception(error);
}

void PeerCommunicator::abort(std::string_view reason) noexcept {
  try {
    write_verdict(memory_->group(), memory_->waiting(),
                  {.kind = Failure::Kind::kAborted,
                   .by = rank_,
                   .sequence = sequence(),
                   .text = "aborted by rank " + std::to_string(rank_) + ": " + std::string(reason)});
  } catch (const std::exception&) {
    // No memory for the words: a verdict without them.
    write_verdict(memory_->group(), memory_->waiting(), {.kind = Failure::Kind::kAborted, .by = rank_});
  }
}

void PeerCommunicator::extend_deadline(std::chrono::nanoseconds by) {
  steps_.extend(by);
  extended_ns_.fetch_add(by.count(), std::memory_order_relaxed);
}

std::optional<PeerPlace> PeerCommunicator::place_of(const void* address, std::size_t nbytes) {
  const Place place = memory_->place_of(address, nbytes);
  return place.is_reachable != 0 ? std::optional(PeerPlace{place.where}) : std::nullopt;
}

std::byte* PeerCommunicator::reach(int peer, const PeerPlace& place) {
  return memory_->reach(peer, {.where = place.where});
}

std::shared_ptr<SignalBackend> PeerCommunicator::connect_signals(SignalPads pads) {
  {
    const std::lock_guard lock(pads_mutex_);
    if (std::ranges::find(pads_, pads.memory) == pads_.end()) pads_.push_back(pads.memory);
  }
  return std::make_shared<PeerSignals>(shared_from_this(), *memory_, extended_ns_, rank_, std::move(pads));
}

void PeerCommunicator::note_passed(std::uint64_t registration) {
  memory_->group().board(rank_).passed.store(registration, std::memory_order_release);
}

std::vector<int> PeerCommunicator::gone() const {
  std::vector<int> ranks;
  for (int peer = 0; peer < memory_->group().size(); ++peer) {
    if (peer == rank_) continue;
    const bool has_left = memory_->group().board(peer).has_left.load(std::memory_order_acquire) != 0;
    if (has_left || memory_->is_dead(peer)) ranks.push_back(peer);
  }
  return ranks;
}

}  // namespace tessera::comm::detail
