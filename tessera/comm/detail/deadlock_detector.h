// Detects deadlocks between ranks that are threads of one process: rank 0 waits for rank 1 in one group, rank 1 for
// rank 0 in another. Each rank has one thread and that thread waits, so a wait cycle is a deadlock before any deadline
// passes.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>

#include "tessera/base/ids.h"

namespace tessera::comm::detail {

/// The long waits of a simulation. Thread-safe.
class DeadlockDetector {
 public:
  /// The wait of a rank until a peer raises a word.
  struct CycleWait {
    Rank peer;                               ///< world rank
    const std::atomic<std::uint64_t>* word;  ///< word that the peer raises
    std::uint64_t least;                     ///< value that ends the wait
    const std::function<bool()>* is_over;  ///< returns true if the wait ends for another reason; called from any thread
    std::string what;                      ///< "all_gather of group 0-1"
  };
  /// Notes the wait of a rank and replaces its previous one.
  void enter(Rank rank, CycleWait wait);
  /// Removes the wait of a rank.
  void leave(Rank rank);
  /// Describes the waits of the cycle that contains this rank; empty if the rank is in no cycle.
  [[nodiscard]] std::string of(Rank rank) const;

 private:
  mutable std::mutex mutex_;
  std::map<Rank, CycleWait> waits_;
};

}  // namespace tessera::comm::detail
