// Continues in the same processes after some ranks were lost. The surviving ranks agree on their list and become the
// ranks 0 to n - 1 of a shrunk world. That world has its own store (a prefix of the old one), groups, devices and
// memory. Objects of the old world must be destroyed before, or stay unused.
//
//   const std::vector<int> left = comm::agree_on_left("a rank died", timeout);   // called by all surviving ranks
//   const comm::SmallerWorld world(left, timeout);                               // called by the ranks that continue
//   ...                                             // current_place(), world(), store() are those of the new world
#pragma once

#include <chrono>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/base/rank.h"

namespace tessera::comm {

/// Ends all pending operations of all groups of this rank, on all ranks, and returns the surviving world ranks, the
/// same list on each of them. Ranks that are creating a group get an AbortedError. Throws NotSupported if the backend
/// cannot shrink (mpi) or the ranks are threads.
TESSERA_API std::vector<int> agree_on_left(std::string_view reason, std::chrono::nanoseconds timeout);

/// While this object lives, the calling thread and the threads it starts work for a rank of the shrunk world. Shrunk
/// worlds nest.
class TESSERA_API SmallerWorld {
 public:
  /// Creates the world; called by each of `ranks` of the current world. New world ranks follow this order. Throws
  /// TimeoutError if not all of them arrive.
  SmallerWorld(std::span<const int> ranks, std::chrono::nanoseconds timeout);
  /// Returns to the previous world. All objects of the shrunk world must be destroyed before.
  ~SmallerWorld();
  SmallerWorld(const SmallerWorld&) = delete;
  SmallerWorld& operator=(const SmallerWorld&) = delete;

 private:
  std::shared_ptr<RankContext> rank_;
  RankScope scope_;
};

}  // namespace tessera::comm
