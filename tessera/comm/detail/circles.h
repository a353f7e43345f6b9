// Ranks that are threads of one process and wait for each other in a circle: rank 0 for rank 1 in one group, rank 1 for
// rank 0 in another. No deadline is needed to know that none of them will come: each of them has one thread, and that
// thread waits.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>

#include "tessera/base/ids.h"

namespace tessera::comm::detail {

/// The waits of a simulation that have taken a while. Thread-safe.
class Circles {
 public:
  /// A rank that waits until a peer raises a word.
  struct Wait {
    Rank peer;                               ///< of the world
    const std::atomic<std::uint64_t>* word;  ///< that it raises
    std::uint64_t least;                     ///< to this
    const std::function<bool()>* is_over;    ///< whether the wait ends without it; any thread may ask
    std::string what;                        ///< "all_gather of group 0-1"
  };
  /// Notes what a rank waits for, in place of what it waited for before.
  void enter(Rank rank, Wait wait);
  /// It waits no more.
  void leave(Rank rank);
  /// What all in the circle wait for that this rank is part of; empty: it is in none.
  [[nodiscard]] std::string of(Rank rank) const;

 private:
  mutable std::mutex mutex_;
  std::map<Rank, Wait> waits_;
};

}  // namespace tessera::comm::detail
