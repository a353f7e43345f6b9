// The cores that this process may use, and where they are in the machine.
#pragma once

#include <string>
#include <vector>

#include "tessera/base/export.h"

namespace tessera {

/// A core (a hardware thread) and its location.
struct CorePlace {
  int node = 0;  ///< NUMA node with the nearest memory
  int core = 0;  ///< physical core, which hardware threads share
  int cpu = 0;   ///< number in the kernel
  /// Sorts neighbors together.
  friend auto operator<=>(const CorePlace&, const CorePlace&) = default;
};

/// Returns the cores that the calling thread may use, in the order of the kernel. Empty if the kernel does not report
/// them. `directory` is the kernel's directory of cores.
TESSERA_API std::vector<CorePlace> usable_cores(const std::string& directory = "/sys/devices/system/cpu");
/// Returns true if some cores are on another NUMA node than others.
TESSERA_API bool span_nodes(const std::vector<CorePlace>& cores);

}  // namespace tessera
