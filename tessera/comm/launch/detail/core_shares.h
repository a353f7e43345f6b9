// The cores of this machine, divided between the ranks that run on it.
#pragma once

#include <sched.h>

#include <vector>

#include "tessera/base/cores.h"

namespace tessera::comm::detail {

/// Returns the kernel's core numbers for each rank: equal shares up to a difference of one, with neighbors together.
/// Throws InvalidArgument if there are fewer cores than ranks.
std::vector<std::vector<int>> divide_cores(std::vector<CorePlace> cores, int ranks);
/// Returns the cores as a cpu_set_t.
cpu_set_t core_set(const std::vector<int>& cpus);

}  // namespace tessera::comm::detail
