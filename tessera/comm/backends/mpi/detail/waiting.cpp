// Waits for messages: a rank polls MPI repeatedly, which is also how MPI makes progress, and in between polls for news
// and checks the deadline. Also contains the failures of waits.
#include <sched.h>

#include <algorithm>
#include <thread>

#include "tessera/base/error.h"
#include "tessera/comm/backends/mpi/detail/steps.h"
#include "tessera/comm/detail/peer_memory/failures.h"

namespace tessera::comm::mpi {
namespace {

using std::chrono::nanoseconds;
using std::chrono::steady_clock;

// A poll takes about 100 ns. A peer on a separate core replies within these polls; after that the rank yields the core
// between polls, and later it sleeps briefly.
constexpr int kSpins = 500;
constexpr int kCrowdedSpins = 10;
constexpr int kYields = 300;
constexpr nanoseconds kNap = std::chrono::microseconds(20);
// A rank that yields to a busy program gets its core back after milliseconds; a rank that sleeps gets it back
// immediately. After one such delay, the rank only sleeps for this many waits.
constexpr nanoseconds kLongYield = std::chrono::microseconds(500);
constexpr int kShyWaits = 1000;
// Number of polls between two checks of news and deadline.
constexpr int kLook = 16;

}  // namespace

void MpiSteps::pause(int round) {
  const int spins = crowded_ ? kCrowdedSpins : kSpins;
  if (round < spins) return;
  if (round == spins && shy_waits_ > 0) --shy_waits_;
  if (shy_waits_ == 0 && round < spins + kYields) {
    const auto before = steady_clock::now();
    sched_yield();
    if (steady_clock::now() - before > kLongYield) shy_waits_ = kShyWaits;
  } else {
    std::this_thread::sleep_for(kNap);
  }
}

nanoseconds MpiSteps::time_left() const {
  return std::max<nanoseconds>(until_ + tasks_.extra() - steady_clock::now(), nanoseconds(0));
}

const std::vector<int>& MpiSteps::wait_some(const Operation& operation) {
  for (int round = 0;; ++round) {
    endpoint_.test(requests_, done_);
    if (!done_.empty()) break;
    if (round % kLook == kLook - 1) {
      endpoint_.look();
      const bool is_left =
          std::ranges::any_of(open_, [&](const OpenRequest& open) { return endpoint_.has_left(open.peer); });
      if (endpoint_.has_ended() || is_left || time_left() == nanoseconds(0)) {
        // Messages that arrived before the news count; they are here by now.
        endpoint_.test(requests_, done_);
        if (!done_.empty()) break;
        fail_if_over(operation);
      }
    }
    pause(round);
  }
  std::ranges::sort(done_, std::greater<>());
  for (int& entry : done_) {
    const auto at = static_cast<std::size_t>(entry);
    entry = open_[at].owner;
    requests_[at] = requests_.back();
    open_[at] = open_.back();
    requests_.pop_back();
    open_.pop_back();
  }
  return done_;
}

void MpiSteps::finish(const Operation& operation) {
  while (!requests_.empty()) (void)wait_some(operation);
}

void MpiSteps::fail_if_over(const Operation& operation) {
  if (endpoint_.has_ended()) endpoint_.throw_end(name_);
  std::vector<int> missing;
  for (const OpenRequest& open : open_) {
    if (std::ranges::find(missing, open.peer) == missing.end()) missing.push_back(open.peer);
  }
  std::ranges::sort(missing);
  for (const int peer : missing) {
    if (!endpoint_.has_left(peer)) continue;
    fail({.kind = Failure::Kind::kDeadRank,
          .missing = {peer},
          .text = detail::text_of_members(std::span(&peer, 1), endpoint_.world()) + " has left the group"},
         operation);
  }
  if (time_left() > nanoseconds(0)) return;
  // Their last letters contain their progress.
  std::vector<std::uint64_t> tasks;
  for (const int peer : missing) tasks.push_back(letter(peer).notice.task);
  std::string text = detail::text_of_late({.ranks = missing,
                                           .world = endpoint_.world(),
                                           .deadline = deadline_,
                                           .extra = tasks_.extra(),
                                           .tasks = std::move(tasks),
                                           .is_at = " was last seen at operation "});
  fail({.kind = Failure::Kind::kDeadline, .missing = std::move(missing), .text = std::move(text)}, operation);
}

void MpiSteps::fail(Failure failure, const Operation& operation) {
  endpoint_.end(detail::seen_in(operation, sequence_, rank_, std::move(failure)));
  endpoint_.throw_end(name_);
}

// MPI may still write to receive buffers and read send buffers. The caller gets them back when that has ended, or after
// a time limit, which only a peer that is stopped can exceed.
void MpiSteps::let_go_of_buffers() noexcept {
  if (requests_.empty()) return;
  constexpr nanoseconds kBound = std::chrono::seconds(2);
  try {
    for (std::size_t i = 0; i < requests_.size(); ++i) {
      if (open_[i].is_receive) endpoint_.cancel(requests_[i]);
    }
    const auto until = steady_clock::now() + kBound;
    for (int round = 0; steady_clock::now() < until; ++round) {
      endpoint_.test(requests_, done_);
      bool is_free = true;
      for (std::size_t i = 0; i < requests_.size(); ++i) {
        is_free &= requests_[i] == endpoint_.no_request() || open_[i].is_ours;
      }
      if (is_free) break;
      pause(round);
    }
  } catch (const std::exception&) {
    // MPI itself fails: the buffers cannot be released any better.
  }
  requests_.clear();
  open_.clear();
}

}  // namespace tessera::comm::mpi
