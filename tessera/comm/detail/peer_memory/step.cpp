#include "tessera/comm/detail/peer_memory/step.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "tessera/base/error.h"
#include "tessera/comm/collectives/detail/offers.h"
#include "tessera/comm/detail/group_record.h"
#include "tessera/comm/detail/peer_memory/failures.h"
#include "tessera/comm/detail/streaming.h"

namespace tessera::comm::detail {
namespace {

using std::chrono::nanoseconds;

// Up to this size, a copy through the stage is cheaper than a second meeting.
constexpr std::int64_t kSmallBytes = std::int64_t{16} << 10;

// Bytes of a stage that are prefetched; the hardware prefetches the rest.
constexpr std::size_t kFetchedBytes = 2048;

}  // namespace

void PeerSteps::run(const Task& task) {
  task_ = &task;
  has_met_ = false;
  name_ = *task.group;
  sequence_ = task.sequence.load(std::memory_order_relaxed);
  registrations_ = task.registrations;
  deadline_ = task.deadline;
  if (memory_.waiting().is_virtual()) began_ = memory_.waiting().now();
  try {
    run_operations(task);
  } catch (const std::exception& error) {
    end_group(error, task);
    wait_until_none_reaches(memory_);
    throw;
  }
}

// A rank that fails during an operation cannot take part in later ones, so the group ends.
void PeerSteps::end_group(const std::exception& error, const Task& task) const {
  if (has_verdict(group_)) return;
  write_verdict(group_, memory_.waiting(),
                {.kind = Failure::Kind::kLost,
                 .by = rank_,
                 .sequence = sequence_,
                 .operation = task.operations[0].kind,
                 .missing = {rank_},
                 .text = "operation " + std::to_string(sequence_) + ": " + text_of_members(memory_, rank_) +
                         " failed: " + error.what()});
}

void PeerSteps::run_operations(const Task& task) {
  if (has_verdict(group_)) throw_verdict(group_, name_);
  Board& board = group_.board(rank_);
  board.task.store(sequence_, std::memory_order_relaxed);
  if (group_digest_ != task.group_digest) {
    group_digest_ = task.group_digest;
    board.group[name_.copy(board.group, sizeof board.group - 1)] = 0;
  }
  const bool is_checked = group_.rules().is_checked != 0;
  if (task.operations.size() == 1 && !is_message(task.operations[0].kind) && !is_checked) {
    ++collectives_;
    to_come_ = 0;
    return run_collective(task.operations[0]);
  }
  tasks_.note_began(task);
  std::vector<Operation> messages;
  std::ranges::copy_if(task.operations, std::back_inserter(messages), is_message, &Operation::kind);
  if (messages.size() < task.operations.size()) ++collectives_;
  to_come_ = messages.size();
  if (is_checked) check_ahead(task, messages);
  for (const Operation& operation : task.operations) {
    if (!is_message(operation.kind)) run_collective(operation);
  }
  if (!messages.empty()) run_messages(messages, /*is_ahead=*/false);
}

void PeerSteps::check_ahead(const Task& task, std::span<const Operation> messages) {
  for (const Operation& operation : task.operations) {
    if (is_message(operation.kind)) continue;
    announce(operation, /*is_staged=*/false);
    meet(operation);
    if (definition(operation.kind).offer == nullptr) continue;
    for (const Transfer& transfer : definition(operation.kind).transfers(operation, rank_, group_.size())) {
      (void)resolve(operation, transfer);
    }
  }
  if (!messages.empty()) run_messages(messages, /*is_ahead=*/true);
  if (messages.size() == task.operations.size()) return;
  // The other ranks learn here what one rank found wrong.
  const Operation all_is_right{.kind = OpKind::kBarrier};
  announce(all_is_right, /*is_staged=*/true);
  meet(all_is_right);
}

void PeerSteps::run_collective(const Operation& operation) {
  const auto item = static_cast<std::int64_t>(itemsize(operation.dtype));
  const std::int64_t most = max_input_of(operation, group_.size());
  const bool is_small = most >= 0 && most * item <= kSmallBytes;
  announce(operation, is_small);
  tasks_.note_began(*task_);  // while the peers see that this rank has arrived
  meet(operation);
  if (is_small) own_ahead(static_cast<std::size_t>(most * item));
  if (operation.kind == OpKind::kBarrier) return;
  if (is_small && operation.kind == OpKind::kAllReduce) return fold_stages(operation);
  if (is_small || !all_are_reachable()) {
    transfer_by_stages(operation, is_small);
  } else {
    transfer_directly(operation);
    part(operation);
  }
}

bool PeerSteps::all_are_reachable() const {
  for (int peer = 0; peer < group_.size(); ++peer) {
    const Notice& notice = group_.notice(peer, step_);
    const bool is_reachable = notice.in.is_reachable != 0 && notice.out.is_reachable != 0;
    if (!is_reachable) return false;
  }
  return true;
}

// Does what transfer_by_stages() does for a small all_reduce, without building transfers: each rank reduces all of it.
void PeerSteps::fold_stages(const Operation& operation) const {
  if (operation.count == 0) return;
  SmallVector<const std::byte*, 16> in;
  for (int peer = 0; peer < group_.size(); ++peer) in.push_back(group_.stage(peer, step_));
  fold(operation.dtype, operation.reduction, in, std::span(&operation.out, 1), operation.count);
}

void PeerSteps::announce(const Operation& operation, bool is_staged) {
  ++step_;
  is_staged_ = is_staged;
  const CollectiveDef& def = definition(operation.kind);
  const Extents extents = def.extents(operation, rank_, group_.size());
  const std::size_t item = itemsize(operation.dtype);
  Notice& notice = *::new (&group_.notice(rank_, step_)) Notice(notice_of(operation, collectives_, group_digest_));
  notice.registrations = registrations_;
  notice.in = {.nbytes = static_cast<std::size_t>(extents.in) * item};
  notice.out = {.nbytes = static_cast<std::size_t>(extents.out) * item};
  if (is_staged) {
    stage_window(operation, 0);
  } else {
    if (extents.in > 0) notice.in = memory_.place_of(operation.in, notice.in.nbytes);
    if (extents.out > 0) notice.out = memory_.place_of(operation.out, notice.out.nbytes);
  }
  if (def.offer != nullptr) {
    for (int peer = 0; peer < group_.size(); ++peer) {
      group_.offer(rank_, peer, step_) = def.offer(operation, rank_, peer);
    }
  }
  Board& board = group_.board(rank_);
  memory_.waiting().raise(board.arrived, step_, board.sleepers);
}

void PeerSteps::meet(const Operation& operation) {
  const int size = group_.size();
  for (int peer = 0; peer < size; ++peer) {
    if (peer != rank_) wait_for(group_.board(peer).arrived, step_, peer, operation);
  }
  for (int peer = 0; peer < size; ++peer) {
    if (peer != rank_) fetch_ahead(peer);
  }
  if (!has_met_ && to_come_ == 0) note_met();
  const Notice& mine = group_.notice(rank_, step_);
  for (int peer = 0; peer < size; ++peer) {
    const Notice& other = group_.notice(peer, step_);
    const bool is_same_log =
        other.registrations == mine.registrations || other.registrations == 0 || mine.registrations == 0;
    const bool agrees = other.fingerprint == mine.fingerprint && other.task == mine.task && is_same_log;
    if (!agrees) fail_mismatch(operation);
  }
}

// Once per launch: at its first meeting, or for messages when all peers have arrived.
void PeerSteps::note_met() {
  has_met_ = true;
  task_->record->met(*task_);
}

// The data of the peer is in the cache of another core: prefetches all lines that are read first, not one by one.
void PeerSteps::fetch_ahead(int peer) const {
  constexpr std::size_t kLine = 64;
  const auto* notice = reinterpret_cast<const std::byte*>(&group_.notice(peer, step_));
  // Staged operations do not read the locations, which are after the first line.
  static_assert(offsetof(Notice, registrations) < kLine);
  const std::size_t read = is_staged_ ? kLine : offsetof(Notice, first_parts);
  for (std::size_t at = 0; at < read; at += kLine) __builtin_prefetch(notice + at);
  const std::byte* stage = group_.stage(peer, step_);
  const std::size_t staged = std::min<std::size_t>(group_.notice(rank_, step_).in.nbytes, kFetchedBytes);
  for (std::size_t at = 0; at < staged; at += kLine) __builtin_prefetch(stage + at);
}

// Peers last read the memory that this rank writes in the next step. Prefetches its lines for writing, since the next
// announcement would otherwise wait for them one by one. No rank reads them any more: all have arrived.
void PeerSteps::own_ahead(std::size_t nbytes) const {
  constexpr std::size_t kLine = 64;
  const auto own = [](const std::byte* line) { asm volatile("prefetchw %0" : : "m"(*line)); };
  const auto* notice = reinterpret_cast<const std::byte*>(&group_.notice(rank_, step_ + 1));
  for (std::size_t at = 0; at < offsetof(Notice, first_parts); at += kLine) own(notice + at);
  const std::byte* stage = group_.stage(rank_, step_ + 1);
  for (std::size_t at = 0; at < std::min(nbytes, kFetchedBytes); at += kLine) own(stage + at);
}

void PeerSteps::part(const Operation& operation) {
  Board& board = group_.board(rank_);
  memory_.waiting().raise(board.finished, step_, board.sleepers);
  for (int peer = 0; peer < group_.size(); ++peer) {
    if (peer != rank_) wait_for(group_.board(peer).finished, step_, peer, operation);
  }
}

Transfer PeerSteps::resolve(const Operation& operation, const Transfer& transfer) {
  if (transfer.from_offset != kOffered) return transfer;
  Accepted accepted = accept(operation, transfer, group_.offer(transfer.from, rank_, step_), rank_, group_.size());
  if (!accepted.wrong.empty()) {
    fail({.kind = Failure::Kind::kMismatch, .missing = {}, .text = std::move(accepted.wrong)}, operation);
  }
  return accepted.transfer;
}

void PeerSteps::make(const Operation& operation, const Transfer& transfer, std::span<const std::byte* const> in,
                     std::span<std::byte* const> out) const {
  const auto item = static_cast<std::int64_t>(itemsize(operation.dtype));
  SmallVector<std::byte*, 8> to;
  for (int rank = 0; rank < group_.size(); ++rank) {
    if (transfer.to == rank || (transfer.to == kEveryone && out[static_cast<std::size_t>(rank)] != nullptr)) {
      to.push_back(out[static_cast<std::size_t>(rank)] + transfer.to_offset * item);
    }
  }
  if (transfer.from == kEveryone) {
    SmallVector<const std::byte*, 8> from;
    for (const std::byte* input : in) from.push_back(input + transfer.from_offset * item);
    fold(operation.dtype, operation.reduction, from, to, transfer.count);
    return;
  }
  const std::byte* from = in[static_cast<std::size_t>(transfer.from)] + transfer.from_offset * item;
  for (std::byte* target : to) {
    if (target != from) copy_bytes(target, from, static_cast<std::size_t>(transfer.count * item));
  }
}

void PeerSteps::transfer_directly(const Operation& operation) {
  const Reaching reaching(memory_, rank_, name_);
  const int size = group_.size();
  SmallVector<const std::byte*, 16> in;
  SmallVector<std::byte*, 16> out;
  for (int peer = 0; peer < size; ++peer) {
    const Notice& notice = group_.notice(peer, step_);
    const bool is_own = peer == rank_;
    in.push_back(notice.in.nbytes == 0 ? nullptr : is_own ? operation.in : memory_.reach(peer, notice.in));
    out.push_back(notice.out.nbytes == 0 ? nullptr : is_own ? operation.out : memory_.reach(peer, notice.out));
  }
  for (const Transfer& transfer : definition(operation.kind).transfers(operation, rank_, size)) {
    const Transfer resolved = resolve(operation, transfer);
    if (resolved.count > 0) make(operation, resolved, in, out);
  }
}

void PeerSteps::stage_window(const Operation& operation, std::uint64_t window) {
  const std::uint64_t nbytes = group_.notice(rank_, step_).in.nbytes;
  const std::uint64_t first = window * kStageBytes;
  if (first >= nbytes) return;
  std::memcpy(group_.stage(rank_, step_), operation.in + first, std::min<std::uint64_t>(kStageBytes, nbytes - first));
}

// Makes all transfers to this rank, including those that another rank would make with direct access.
void PeerSteps::transfer_by_stages(const Operation& operation, bool is_first_staged) {
  const int size = group_.size();
  const auto item = static_cast<std::int64_t>(itemsize(operation.dtype));
  Transfers transfers;
  std::uint64_t most = 0;
  for (int maker = 0; maker < size; ++maker) {
    most = std::max(most, group_.notice(maker, step_).in.nbytes);
    for (const Transfer& transfer : definition(operation.kind).transfers(operation, maker, size)) {
      if (transfer.to == rank_ || transfer.to == kEveryone) transfers.push_back(resolve(operation, transfer));
    }
  }
  const std::int64_t per_window = static_cast<std::int64_t>(kStageBytes) / item;
  const std::uint64_t windows = (most + kStageBytes - 1) / kStageBytes;
  SmallVector<std::byte*, 16> out;
  for (int peer = 0; peer < size; ++peer) out.push_back(peer == rank_ ? operation.out : nullptr);
  for (std::uint64_t window = 0; window < windows; ++window) {
    if (window > 0 || !is_first_staged) next_window(operation, window);
    const std::int64_t first = static_cast<std::int64_t>(window) * per_window;
    SmallVector<const std::byte*, 16> in;
    for (int peer = 0; peer < size; ++peer) in.push_back(group_.stage(peer, step_));
    for (const Transfer& transfer : transfers) {
      const std::int64_t from = std::max(transfer.from_offset, first);
      const std::int64_t end = std::min(transfer.from_offset + transfer.count, first + per_window);
      if (from >= end) continue;
      make(operation,
           {.from = transfer.from,
            .from_offset = from - first,
            .to = rank_,
            .to_offset = transfer.to_offset + from - transfer.from_offset,
            .count = end - from},
           in, out);
    }
  }
}

void PeerSteps::next_window(const Operation& operation, std::uint64_t window) {
  const Notice last = group_.notice(rank_, step_);
  ++step_;
  group_.notice(rank_, step_) = last;
  stage_window(operation, window);
  Board& board = group_.board(rank_);
  memory_.waiting().raise(board.arrived, step_, board.sleepers);
  meet(operation);
}

nanoseconds PeerSteps::time_left() const {
  if (deadline_ == nanoseconds::max()) return deadline_;
  const nanoseconds extra = tasks_.extra();
  const nanoseconds spent = memory_.waiting().is_virtual() ? memory_.waiting().now() - began_ : tasks_.elapsed();
  return std::max(deadline_ + extra - spent, nanoseconds(0));
}

void PeerSteps::wait_for(const std::atomic<std::uint64_t>& word, std::uint64_t least, int peer,
                         const Operation& operation) {
  if (memory_.waiting().comes_soon(word, least)) return;
  const std::function<bool()> is_there = [&] { return word.load(std::memory_order_acquire) >= least; };
  const std::function<bool()> is_given_up = [&] {
    return has_verdict(group_) || has_passed(operation, peer) || detail::is_gone(memory_, peer);
  };
  CycleView cycle(memory_);
  const std::function<bool()> is_over = [&] {
    return is_given_up() || cycle.finds({peer, word, least, is_given_up,
                                         tessera::detail::concat(to_string(operation.kind), " of group ", name_)});
  };
  std::string what;
  if (memory_.waiting().is_virtual()) {
    what = tessera::detail::concat(to_string(operation.kind), " of group ", name_, ", rank ", peer, " to arrive");
  }
  while (true) {
    const bool came = memory_.waiting().wait({.is_there = is_there,
                                              .word = word,
                                              .sleepers = group_.board(peer).sleepers,
                                              .is_over = is_over,
                                              .timeout = time_left(),
                                              .what = what.c_str()});
    if (came) return;
    // Unless the deadline was extended meanwhile.
    if (!is_over() && time_left() > nanoseconds(0)) continue;
    if (const std::string text = cycle.text(); !text.empty()) {
      fail({.kind = Failure::Kind::kMismatch, .missing = {peer}, .text = text}, operation);
    }
    fail_waiting(operation, peer);
  }
}

// Whether the peer took the registration that a rendezvous is for without one, so that it will not come.
bool PeerSteps::has_passed(const Operation& operation, int peer) const {
  if (operation.registration == 0) return false;
  const Board& board = group_.board(peer);
  return board.passed.load(std::memory_order_acquire) >= operation.registration &&
         board.arrived.load(std::memory_order_acquire) < step_;
}

void PeerSteps::fail_waiting(const Operation& operation, int peer) {
  if (has_verdict(group_)) throw_verdict(group_, name_);
  if (has_passed(operation, peer)) {
    fail({.kind = Failure::Kind::kMismatch,
          .missing = {peer},
          .text = text_of_passed(text_of_members(memory_, rank_), text_of_members(memory_, peer))},
         operation);
  }
  if (detail::is_gone(memory_, peer)) {
    fail({.kind = Failure::Kind::kDeadRank, .missing = {peer}, .text = text_of_gone(memory_, peer)}, operation);
  }
  Failure failure{.kind = Failure::Kind::kDeadline};
  std::vector<std::uint64_t> tasks;
  for (int other = 0; other < group_.size(); ++other) {
    const std::uint64_t arrived = group_.board(other).arrived.load(std::memory_order_acquire);
    if (arrived >= step_ && other != peer) continue;
    failure.missing.push_back(other);
    tasks.push_back(group_.board(other).task.load(std::memory_order_relaxed));
  }
  failure.text = text_of_late({.ranks = failure.missing,
                               .world = world_of(memory_),
                               .deadline = deadline_,
                               .extra = tasks_.extra(),
                               .tasks = std::move(tasks)});
  fail(std::move(failure), operation);
}

void PeerSteps::fail_mismatch(const Operation& operation) {
  std::vector<Notice> notices;
  std::vector<std::string> groups;
  for (int peer = 0; peer < group_.size(); ++peer) {
    notices.push_back(group_.notice(peer, step_));
    groups.emplace_back(group_.board(peer).group);
  }
  fail(difference_of(notices, world_of(memory_), groups), operation);
}

void PeerSteps::fail(Failure failure, const Operation& operation) {
  failure = seen_in(operation, sequence_, rank_, std::move(failure));
  write_verdict(group_, memory_.waiting(), failure);
  if (has_verdict(group_)) throw_verdict(group_, name_);
  // Another rank was writing the verdict and may have died while doing so.
  throw_failure(failure.kind, failure.text, name_);
}

}  // namespace tessera::comm::detail
