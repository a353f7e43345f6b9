#include "tessera/comm/detail/peer_memory/step.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "tessera/base/error.h"
#include "tessera/base/mutant.h"
#include "tessera/comm/collectives/detail/definitions.h"
#include "tessera/comm/detail/peer_memory/failures.h"
#include "tessera/comm/detail/streaming.h"

namespace tessera::comm::detail {
namespace {

using std::chrono::nanoseconds;

// Up to this size a copy through the stage is cheaper than a second meeting.
constexpr std::int64_t kSmallBytes = std::int64_t{16} << 10;

// The most elements that one rank gives, where all ranks know it; -1: they do not.
std::int64_t most_given(const Operation& operation, int size) {
  const bool is_uneven = !operation.in_counts.empty() || !operation.out_counts.empty();
  switch (operation.kind) {
    case OpKind::kReduceScatter:
    case OpKind::kScatter: return whole_of(operation.in_counts, operation.count, size);
    case OpKind::kAllGather:
    case OpKind::kGather: return is_uneven ? *std::ranges::max_element(operation.out_counts) : operation.count;
    case OpKind::kAllToAll: return is_uneven ? -1 : operation.count * size;
    case OpKind::kRaggedAllToAll: return -1;
    default: return operation.count;
  }
}

bool is_message(const Operation& operation) {
  return operation.kind == OpKind::kSend || operation.kind == OpKind::kRecv;
}

std::string text_of(const Notice& notice) {
  Operation operation{.kind = notice.kind, .dtype = notice.dtype, .root = notice.root, .count = notice.count};
  operation.reduction.kind = notice.reduction;
  return comm::text_of(operation);
}

std::uint64_t digest_of(const Operation& operation) {
  Operation parts{.in_counts = operation.in_counts, .out_counts = operation.out_counts, .targets = operation.targets};
  return fingerprint(parts).low;
}

}  // namespace

void Steps::run(const Task& task) {
  name_ = *task.group;
  sequence_ = task.sequence.load(std::memory_order_relaxed);
  deadline_ = task.deadline;
  extra_ns_.store(0, std::memory_order_relaxed);
  until_ = deadline_ == nanoseconds::max() ? deadline_ : memory_.waiting().now() + deadline_;
  try {
    run_operations(task);
  } catch (const std::exception& error) {
    end_group(error, task);
    let_go_of_buffers();
    throw;
  }
}

// A rank that fails in the middle of an operation cannot take part in any after it, so nobody can.
void Steps::end_group(const std::exception& error, const Task& task) const {
  if (has_verdict(group_)) return;
  write_verdict(group_, memory_.waiting(),
                {.kind = Failure::Kind::kLost,
                 .by = rank_,
                 .sequence = sequence_,
                 .operation = task.operations[0].kind,
                 .missing = {rank_},
                 .text = "operation " + std::to_string(sequence_) + ": rank " + std::to_string(rank_) +
                         " failed: " + error.what()});
}

void Steps::let_go_of_buffers() const {
  // Peers are not waiting for anything meanwhile, so that only one that is stopped takes longer than a copy does.
  constexpr nanoseconds kBound = std::chrono::seconds(2);
  for (int peer = 0; peer < group_.size(); ++peer) {
    const Board& board = group_.board(peer);
    const std::function<bool()> is_there = [&] { return board.reaching.load(std::memory_order_seq_cst) == 0; };
    const std::function<bool()> is_over = [&] { return is_gone(peer); };
    (void)memory_.waiting().wait({.is_there = is_there,
                                  .word = board.reaching,
                                  .sleepers = group_.board(peer).sleepers,
                                  .is_over = is_over,
                                  .timeout = kBound,
                                  .what = "a peer to let go of buffers"});
  }
}

Steps::Reaching::Reaching(const Steps& steps) : steps_(steps) {
  steps_.group_.board(steps_.rank_).reaching.store(1, std::memory_order_seq_cst);
  if (!has_verdict(steps_.group_)) return;
  end();
  throw_verdict(steps_.group_, steps_.name_);
}
Steps::Reaching::~Reaching() { end(); }
void Steps::Reaching::end() const {
  Board& board = steps_.group_.board(steps_.rank_);
  steps_.memory_.waiting().raise(board.reaching, 0, board.sleepers);
}

void Steps::run_operations(const Task& task) {
  if (has_verdict(group_)) throw_verdict(group_, name_);
  group_.board(rank_).task.store(sequence_, std::memory_order_relaxed);
  std::vector<Operation> messages;
  for (const Operation& operation : task.operations) {
    if (is_message(operation)) {
      messages.push_back(operation);
    } else {
      run_collective(operation);
    }
  }
  if (!messages.empty()) run_messages(messages);
}

void Steps::run_collective(const Operation& operation) {
  const auto item = static_cast<std::int64_t>(itemsize(operation.dtype));
  const std::int64_t most = most_given(operation, group_.size());
  const bool is_small = most >= 0 && most * item <= kSmallBytes;
  announce(operation, is_small);
  meet(operation);
  if (operation.kind == OpKind::kBarrier) return;
  bool is_reachable = true;
  for (int peer = 0; peer < group_.size(); ++peer) {
    const Notice& notice = group_.notice(peer, step_);
    is_reachable &=
        (notice.in.is_reachable != 0 && notice.out.is_reachable != 0) || TESSERA_MUTANT("shm.all_reachable");
  }
  if (is_small || !is_reachable) {
    move_by_stages(operation, is_small);
  } else {
    move_directly(operation);
    part(operation);
  }
}

void Steps::announce(const Operation& operation, bool is_staged) {
  ++step_;
  const CollectiveDef& def = definition(operation.kind);
  const Extents extents = def.extents(operation, rank_, group_.size());
  const std::size_t item = itemsize(operation.dtype);
  Notice& notice = group_.notice(rank_, step_);
  notice.fingerprint = fingerprint(operation);
  notice.task = sequence_;
  notice.kind = operation.kind;
  notice.dtype = operation.dtype;
  notice.reduction = operation.reduction.kind;
  notice.root = operation.root;
  notice.count = operation.count;
  notice.counts_digest = digest_of(operation);
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

void Steps::meet(const Operation& operation) {
  const int last = group_.size() - (TESSERA_MUTANT("comm.meets_all_but_one") ? 1 : 0);
  for (int peer = 0; peer < last; ++peer) {
    if (peer != rank_) wait_for(group_.board(peer).arrived, step_, peer, operation);
  }
  const Notice& mine = group_.notice(rank_, step_);
  for (int peer = 0; peer < group_.size(); ++peer) {
    const Notice& other = group_.notice(peer, step_);
    const bool agrees = other.fingerprint == mine.fingerprint && other.task == mine.task;
    if (!agrees && !TESSERA_MUTANT("comm.no_comparison")) fail_mismatch(operation);
  }
}

void Steps::part(const Operation& operation) {
  Board& board = group_.board(rank_);
  memory_.waiting().raise(board.finished, step_, board.sleepers);
  if (TESSERA_MUTANT("comm.no_parting")) return;
  for (int peer = 0; peer < group_.size(); ++peer) {
    if (peer != rank_) wait_for(group_.board(peer).finished, step_, peer, operation);
  }
}

Move Steps::resolve(const Operation& operation, const Move& move) {
  if (move.from_offset != kOffered) return move;
  const Offer& offer = group_.offer(move.from, rank_, step_);
  Move resolved = move;
  resolved.from_offset = offer.from_offset;
  if (move.to_offset == kOffered) resolved.to_offset = offer.to_offset;
  if (move.count == kOffered) resolved.count = offer.count;
  const std::int64_t room = definition(operation.kind).extents(operation, rank_, group_.size()).out;
  const bool fits = resolved.to_offset >= 0 && resolved.count >= 0 && resolved.count <= room &&
                    resolved.to_offset <= room - resolved.count;
  if ((resolved.count != offer.count || !fits) && !TESSERA_MUTANT("comm.offer_unchecked")) {
    std::string text = "rank " + std::to_string(move.from) + " sends " + std::to_string(offer.count) + " elements";
    text += move.count == kOffered ? " to element " + std::to_string(resolved.to_offset) + " of " + std::to_string(room)
                                   : ", rank " + std::to_string(rank_) + " takes " + std::to_string(move.count);
    fail({.kind = Failure::Kind::kMismatch, .missing = {}, .text = text}, operation);
  }
  return resolved;
}

void Steps::make(const Operation& operation, const Move& move, std::span<const std::byte* const> in,
                 std::span<std::byte* const> out) const {
  const auto item = static_cast<std::int64_t>(itemsize(operation.dtype));
  SmallVector<std::byte*, 8> to;
  for (int rank = 0; rank < group_.size(); ++rank) {
    if (move.to == rank || (move.to == kEveryone && out[static_cast<std::size_t>(rank)] != nullptr)) {
      to.push_back(out[static_cast<std::size_t>(rank)] + move.to_offset * item);
    }
  }
  if (move.from == kEveryone) {
    SmallVector<const std::byte*, 8> from;
    for (const std::byte* input : in) from.push_back(input + move.from_offset * item);
    if (TESSERA_MUTANT("comm.fold_from_self")) std::swap(from[0], from[static_cast<std::size_t>(rank_)]);
    fold(operation.dtype, operation.reduction, from, to, move.count);
    return;
  }
  const std::byte* from = in[static_cast<std::size_t>(move.from)] + move.from_offset * item;
  for (std::byte* target : to) {
    if (target != from) copy_bytes(target, from, static_cast<std::size_t>(move.count * item));
  }
}

void Steps::move_directly(const Operation& operation) {
  const Reaching reaching(*this);
  const int size = group_.size();
  SmallVector<const std::byte*, 16> in;
  SmallVector<std::byte*, 16> out;
  for (int peer = 0; peer < size; ++peer) {
    const Notice& notice = group_.notice(peer, step_);
    const bool is_own = peer == rank_;
    in.push_back(notice.in.nbytes == 0 ? nullptr : is_own ? operation.in : memory_.reach(peer, notice.in));
    out.push_back(notice.out.nbytes == 0 ? nullptr : is_own ? operation.out : memory_.reach(peer, notice.out));
  }
  for (const Move& move : definition(operation.kind).moves(operation, rank_, size)) {
    const Move resolved = resolve(operation, move);
    if (resolved.count > 0) make(operation, resolved, in, out);
  }
}

void Steps::stage_window(const Operation& operation, std::uint64_t window) {
  const std::uint64_t nbytes = group_.notice(rank_, step_).in.nbytes;
  const std::uint64_t first = window * kStageBytes;
  if (first >= nbytes) return;
  std::memcpy(group_.stage(rank_, step_), operation.in + first, std::min<std::uint64_t>(kStageBytes, nbytes - first));
}

// Everything that comes to this rank, whoever would make it when memory is reached directly.
void Steps::move_by_stages(const Operation& operation, bool is_first_staged) {
  const int size = group_.size();
  const auto item = static_cast<std::int64_t>(itemsize(operation.dtype));
  std::vector<Move> moves;
  std::uint64_t most = 0;
  for (int maker = 0; maker < size; ++maker) {
    most = std::max(most, group_.notice(maker, step_).in.nbytes);
    for (const Move& move : definition(operation.kind).moves(operation, maker, size)) {
      if (move.to == rank_ || move.to == kEveryone) moves.push_back(resolve(operation, move));
    }
  }
  const std::int64_t cut = TESSERA_MUTANT("shm.window_short") ? 1 : 0;
  const std::int64_t per_window = static_cast<std::int64_t>(kStageBytes) / item - cut;
  const std::uint64_t windows = (most + kStageBytes - 1) / kStageBytes;
  SmallVector<std::byte*, 16> out;
  for (int peer = 0; peer < size; ++peer) out.push_back(peer == rank_ ? operation.out : nullptr);
  for (std::uint64_t window = 0; window < windows; ++window) {
    if (window > 0 || !is_first_staged) next_window(operation, window);
    const std::int64_t first = static_cast<std::int64_t>(window) * per_window;
    SmallVector<const std::byte*, 16> in;
    for (int peer = 0; peer < size; ++peer) in.push_back(group_.stage(peer, step_));
    for (const Move& move : moves) {
      const std::int64_t from = std::max(move.from_offset, first);
      const std::int64_t end = std::min(move.from_offset + move.count, first + per_window);
      if (from >= end) continue;
      make(operation,
           {.from = move.from,
            .from_offset = from - first,
            .to = rank_,
            .to_offset = move.to_offset + from - move.from_offset,
            .count = end - from},
           in, out);
    }
  }
}

void Steps::next_window(const Operation& operation, std::uint64_t window) {
  const Notice last = group_.notice(rank_, step_);
  ++step_;
  group_.notice(rank_, step_) = last;
  if (!TESSERA_MUTANT("shm.window_not_staged")) stage_window(operation, window);
  Board& board = group_.board(rank_);
  memory_.waiting().raise(board.arrived, step_, board.sleepers);
  meet(operation);
}

nanoseconds Steps::time_left() const {
  if (until_ == nanoseconds::max()) return until_;
  const nanoseconds extra(TESSERA_MUTANT("comm.deadline_not_extended") ? 0 : extra_ns_.load(std::memory_order_relaxed));
  return std::max(until_ + extra - memory_.waiting().now(), nanoseconds(0));
}

void Steps::wait_for(const std::atomic<std::uint64_t>& word, std::uint64_t least, int peer,
                     const Operation& operation) {
  if (word.load(std::memory_order_acquire) >= least) return;
  const std::function<bool()> is_there = [&] { return word.load(std::memory_order_acquire) >= least; };
  const std::function<bool()> is_over = [&] { return has_verdict(group_) || is_gone(peer); };
  while (true) {
    const bool came = memory_.waiting().wait({.is_there = is_there,
                                              .word = word,
                                              .sleepers = group_.board(peer).sleepers,
                                              .is_over = is_over,
                                              .timeout = time_left(),
                                              .what = to_string(operation.kind).data()});
    if (came) return;
    // Unless the deadline was moved meanwhile.
    if (is_over() || time_left() == nanoseconds(0)) fail_waiting(operation, peer);
  }
}

bool Steps::is_gone(int peer) const {
  const bool has_left = group_.board(peer).has_left.load(std::memory_order_acquire) != 0;
  return (has_left && !TESSERA_MUTANT("thread.left_unseen")) || memory_.is_dead(peer);
}

void Steps::fail_waiting(const Operation& operation, int peer) {
  if (has_verdict(group_)) throw_verdict(group_, name_);
  if (is_gone(peer)) {
    // Who has left in order may have ended since.
    const bool has_left = group_.board(peer).has_left.load(std::memory_order_acquire) != 0;
    const char* how = has_left ? " has left the group" : " died";
    fail({.kind = Failure::Kind::kDeadRank, .missing = {peer}, .text = "rank " + std::to_string(peer) + how},
         operation);
  }
  Failure failure{.kind = Failure::Kind::kDeadline};
  std::string behind;
  for (int other = 0; other < group_.size(); ++other) {
    const std::uint64_t arrived = group_.board(other).arrived.load(std::memory_order_acquire);
    if (arrived >= step_ && other != peer) continue;
    failure.missing.push_back(other);
    const std::uint64_t task = group_.board(other).task.load(std::memory_order_relaxed);
    behind += (behind.empty() ? "" : ", ") + ("rank " + std::to_string(other)) +
              (task == 0 ? " has begun none" : " is at operation " + std::to_string(task));
  }
  const double seconds = std::chrono::duration<double>(deadline_).count();
  failure.text =
      text_of_ranks(failure.missing) + " did not come within " + std::to_string(seconds) + " s (" + behind + ")";
  fail(std::move(failure), operation);
}

// The ranks that do something else than most are named.
void Steps::fail_mismatch(const Operation& operation) {
  std::map<std::string, std::vector<int>> by_text;
  for (int peer = 0; peer < group_.size(); ++peer) {
    const Notice& notice = group_.notice(peer, step_);
    std::string text = text_of(notice);
    if (notice.task != sequence_) text += " as operation " + std::to_string(notice.task);
    by_text[text + "#" + std::to_string(notice.counts_digest)].push_back(peer);
  }
  const auto most = std::ranges::max_element(by_text, {}, [](const auto& entry) { return entry.second.size(); });
  const auto shown = [](const std::string& text) { return text.substr(0, text.find('#')); };
  Failure failure{.kind = Failure::Kind::kMismatch};
  failure.text = "ranks differ: " + text_of_ranks(most->second) + " run " + shown(most->first);
  for (const auto& [text, ranks] : by_text) {
    if (text == most->first) continue;
    failure.missing.insert(failure.missing.end(), ranks.begin(), ranks.end());
    failure.text += ", " + text_of_ranks(ranks) + " " + shown(text);
    if (shown(text) == shown(most->first)) failure.text += " with other parts";
  }
  fail(std::move(failure), operation);
}

void Steps::fail(Failure failure, const Operation& operation) {
  failure.by = rank_;
  failure.sequence = sequence_;
  failure.operation = operation.kind;
  failure.text = "operation " + std::to_string(sequence_) + ", " + comm::text_of(operation) + ": " + failure.text;
  write_verdict(group_, memory_.waiting(), failure);
  if (has_verdict(group_)) throw_verdict(group_, name_);
  // Another rank was writing it and may have died in the middle.
  throw_failure(failure.kind, failure.text, name_);
}

}  // namespace tessera::comm::detail
