#include "tessera/comm/detail/deadlock_detector.h"

#include <utility>

#include "tessera/base/error.h"

namespace tessera::comm::detail {

void DeadlockDetector::enter(Rank rank, CycleWait wait) {
  const std::lock_guard lock(mutex_);
  waits_.insert_or_assign(rank, std::move(wait));
}

void DeadlockDetector::leave(Rank rank) {
  const std::lock_guard lock(mutex_);
  waits_.erase(rank);
}

// While the lock is held, each noted rank stays in its wait, so its condition can be read. A word that is not raised
// now can only be raised by a rank that is noted too.
std::string DeadlockDetector::of(Rank rank) const {
  const std::lock_guard lock(mutex_);
  std::string text;
  Rank at = rank;
  for (std::size_t seen = 0; seen <= waits_.size(); ++seen) {
    const auto found = waits_.find(at);
    if (found == waits_.end()) return "";
    const CycleWait& wait = found->second;
    if (wait.word->load(std::memory_order_acquire) >= wait.least) return "";
    // For example in an aborted group: the rank sleeps, and notices when it wakes.
    if ((*wait.is_over)()) return "";
    text += tessera::detail::concat(text.empty() ? "" : ", ", "rank ", at, " waits for rank ", wait.peer, " in ",
                                    wait.what);
    at = wait.peer;
    if (at == rank) return text;
  }
  return "";  // it waits for a cycle, but is not part of it
}

}  // namespace tessera::comm::detail
