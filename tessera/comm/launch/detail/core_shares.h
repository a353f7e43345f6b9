// The cores of this machine, divided between the ranks that run on it.
#pragma once

#include <sched.h>

#include <vector>

namespace tessera::comm::detail {

/// A core (a hardware thread) and its location.
struct CorePlace {
  int node = 0;  ///< NUMA node with the nearest memory
  int core = 0;  ///< physical core, which hardware threads share
  int cpu = 0;   ///< number in the kernel
  /// Sorts neighbors together.
  friend auto operator<=>(const CorePlace&, const CorePlace&) = default;
};

/// Returns the cores that this process may use.
std::vector<CorePlace> usable_cores();
/// Returns the kernel's core numbers for each rank: equal shares up to a difference of one, with neighbors together.
/// Throws InvalidArgument if there are fewer cores than ranks.
std::vector<std::vector<int>> divide_cores(std::vector<CorePlace> cores, int ranks);
/// Returns the cores as a cpu_set_t.
cpu_set_t core_set(const std::vector<int>& cpus);

}  // namespace tessera::comm::detail
