// The cores of this machine, divided between the ranks that run on it.
#pragma once

#include <sched.h>

#include <vector>

namespace tessera::comm::detail {

/// A core (a hardware thread) and where it is.
struct CorePlace {
  int node = 0;  ///< NUMA node: its memory is nearest
  int core = 0;  ///< physical core, which hardware threads share
  int cpu = 0;   ///< number that the kernel gives it
  /// Neighbours first.
  friend auto operator<=>(const CorePlace&, const CorePlace&) = default;
};

/// Returns the cores that this process may use.
std::vector<CorePlace> usable_cores();
/// Returns the kernel's numbers of the cores of each rank: equal shares, give or take one, in which neighbours stay
/// together. Throws InvalidArgument if there are fewer cores than ranks.
std::vector<std::vector<int>> divide_cores(std::vector<CorePlace> cores, int ranks);
/// Returns the same cores as the kernel takes them.
cpu_set_t core_set(const std::vector<int>& cpus);

}  // namespace tessera::comm::detail
