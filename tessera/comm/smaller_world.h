// Going on in the same processes after some ranks were lost. Those that are left agree on who they are, and become the
// ranks 0 to n - 1 of a world of their own: with its own store (a part of the old one), its own groups, devices and
// memory. What was made in the old world must be gone, or stay unused, by then.
//
//   const std::vector<int> left = comm::agree_on_left("a rank died", timeout);   // by all that are left
//   const comm::SmallerWorld world(left, timeout);                               // by those that go on, a part of them
//   ...                                                       // current_place(), world(), store() are the new world's
#pragma once

#include <chrono>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/base/rank.h"

namespace tessera::comm {

/// Ends everything that any group of this rank has pending, on all its ranks, and finds out who is left of the world:
/// the same list of ranks on each. NotSupported: a backend that cannot go on (mpi), or ranks that are threads.
TESSERA_API std::vector<int> agree_on_left(std::string_view reason, std::chrono::nanoseconds timeout);

/// While it lives this thread, and those it starts, work for a rank of the smaller world. They nest.
class TESSERA_API SmallerWorld {
 public:
  /// Made by each of `ranks` of the current world; places are in this order. TimeoutError: not all of them came.
  SmallerWorld(std::span<const int> ranks, std::chrono::nanoseconds timeout);
  /// Returns to the world before; everything made in this one must be gone.
  ~SmallerWorld();
  SmallerWorld(const SmallerWorld&) = delete;
  SmallerWorld& operator=(const SmallerWorld&) = delete;

 private:
  std::shared_ptr<RankContext> rank_;
  RankScope scope_;
};

}  // namespace tessera::comm
