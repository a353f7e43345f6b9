#include "tessera/comm/detail/peer_memory/peer_communicator.h"

#include <algorithm>

#include "tessera/base/error.h"
#include "tessera/base/log.h"
#include "tessera/comm/detail/peer_memory/failures.h"
#include "tessera/comm/detail/peer_memory/signals.h"

namespace tessera::comm::detail {
namespace {

// Asks from time to time why a wait for the other ranks must end. The answer takes a request of the store.
class WhyOver {
 public:
  explicit WhyOver(const ConnectRequest& request) : request_(request) {}
  bool is_over() {
    const auto now = WaitNotice::Clock::now();
    if (request_.why_over == nullptr || now < next_) return false;
    constexpr std::chrono::milliseconds kLook(50);
    next_ = now + kLook;
    text_ = request_.why_over();
    return !text_.empty();
  }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  const ConnectRequest& request_;
  WaitNotice::Clock::time_point next_ = WaitNotice::Clock::now();
  std::string text_;
};

}  // namespace

PeerCommunicator::PeerCommunicator(std::unique_ptr<PeerMemory> memory, const ConnectRequest& request,
                                   NoticeDelays delays)
    : memory_(std::move(memory)),
      rank_(request.rank),
      tasks_(request.rank, memory_->group().size()),
      steps_(*memory_, request.rank, tasks_) {
  const GroupMemory& group = memory_->group();
  Board& own = group.board(rank_);
  memory_->waiting().raise(own.joined, 1, own.sleepers);
  const std::string what = "the creation of group " + request.name;
  WaitNotice notice(WaitNotice::Clock::now(), delays);
  WhyOver why(request);
  // No rank continues before all have joined, so that no rank can leave before another has found its memory.
  for (int peer = 0; peer < group.size(); ++peer) {
    Board& board = group.board(peer);
    const std::function<bool()> is_there = [&] { return board.joined.load(std::memory_order_acquire) != 0; };
    const std::function<bool()> is_given_up = [&] { return has_verdict(group) || memory_->is_dead(peer); };
    CycleView cycle(*memory_);
    const std::function<bool()> is_over = [&] {
      const auto waited = notice.due(WaitNotice::Clock::now());
      if (waited && !memory_->waiting().is_virtual()) log_wait(request.name, *waited);
      return is_given_up() || why.is_over() || cycle.finds({peer, board.joined, 1, is_given_up, what});
    };
    const bool came = memory_->waiting().wait({.is_there = is_there,
                                               .word = board.joined,
                                               .sleepers = board.sleepers,
                                               .is_over = is_over,
                                               .timeout = request.timeout,
                                               .what = what.c_str()});
    if (came) continue;
    const bool is_dead = memory_->is_dead(peer);
    Failure failure{.kind = is_dead ? Failure::Kind::kDeadRank : Failure::Kind::kDeadline,
                    .by = rank_,
                    .missing = {peer},
                    .text = tessera::detail::concat("rank ", request.ranks[static_cast<std::size_t>(peer)],
                                                    is_dead ? " ended before it joined" : " did not join in time")};
    if (!why.text().empty()) {
      failure.kind = Failure::Kind::kAborted;
      failure.text = why.text();
    } else if (!cycle.text().empty()) {
      failure.kind = Failure::Kind::kMismatch;
      failure.text = cycle.text();
    }
    write_verdict(group, memory_->waiting(), failure);
    throw_verdict(group, "of ranks " + request.name);
  }
}

// The first rank that has joined logs for all.
void PeerCommunicator::log_wait(const std::string& name, std::chrono::seconds waited) const {
  std::vector<int> missing;
  for (int peer = 0; peer < memory_->group().size(); ++peer) {
    if (memory_->group().board(peer).joined.load(std::memory_order_acquire) == 0) {
      missing.push_back(peer);
    } else if (peer < rank_) {
      return;
    }
  }
  if (missing.empty()) return;
  log::info("group of ranks ", name, ": waiting ", waited.count(), " s for ",
            text_of_members(missing, world_of(*memory_)), " to join");
}

PeerCommunicator::~PeerCommunicator() {
  leave();
  if (pads_.empty() || !owner_.is_this()) return;
  try {
    wait_until_none_reaches(*memory_);
  } catch (const std::exception&) {
    // Ranks under a scheduler wait for each other; the scheduler reports that.
  }
}

void PeerCommunicator::leave() noexcept {
  if (!owner_.is_this()) return;  // a forked child was never a rank of this group
  const GroupMemory& group = memory_->group();
  group.board(rank_).has_left.store(1, std::memory_order_seq_cst);
  memory_->waiting().wake(group.board(rank_).arrived);
  memory_->waiting().wake(group.board(rank_).finished);
}

const Capabilities& peer_capabilities() {
  static const Capabilities kAll = {.kinds = kAllOpKinds,
                                    .device_kinds = {"host"},
                                    .has_fixed_order = true,
                                    .has_abort = true,
                                    .has_shrink = true,
                                    .has_capture = true,
                                    .has_symmetric = true,
                                    .has_checked_mode = true};
  return kAll;
}

bool PeerCommunicator::run_now(Task& task, const device::Stream& stream) {
  return tasks_.run_now(task, stream, [&] { steps_.run(task); });
}

void PeerCommunicator::enqueue(const std::shared_ptr<Task>& task, const device::Stream& stream) {
  tasks_.enqueue(*task, stream,
                 [self = shared_from_this(), task] { self->tasks_.run(*task, [&] { self->steps_.run(*task); }); });
}

void PeerCommunicator::abort(std::string_view reason) noexcept {
  if (!owner_.is_this()) return;
  try {
    write_verdict(memory_->group(), memory_->waiting(),
                  {.kind = Failure::Kind::kAborted,
                   .by = rank_,
                   .sequence = sequence(),
                   .text = "aborted by " + text_of_members(*memory_, rank_) + ": " + std::string(reason)});
  } catch (const std::exception&) {
    // No memory for the text: writes a verdict without it.
    write_verdict(memory_->group(), memory_->waiting(), {.kind = Failure::Kind::kAborted, .by = rank_});
  }
}

void PeerCommunicator::extend_deadline(std::chrono::nanoseconds by) {
  tasks_.extend(by);
  extended_ns_.fetch_add(by.count(), std::memory_order_relaxed);
}

std::optional<PeerPlace> PeerCommunicator::place_of(const void* address, std::size_t nbytes) {
  const BufferLocation place = memory_->place_of(address, nbytes);
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

std::exception_ptr PeerCommunicator::failure(std::string_view group) {
  try {
    if (has_verdict(memory_->group())) throw_verdict(memory_->group(), group);
    // A peer that left regularly is not a failure until an operation needs it.
    const std::vector<int> missing = gone();
    const auto died = std::ranges::find_if(
        missing, [&](int peer) { return memory_->group().board(peer).has_left.load(std::memory_order_acquire) == 0; });
    if (died == missing.end()) return nullptr;
    throw_failure(Failure::Kind::kDeadRank, text_of_gone(*memory_, *died), group);
  } catch (const std::exception&) {
    return std::current_exception();
  }
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
