#include "tessera/comm/launch/detail/core_shares.h"

#include <algorithm>

#include "tessera/base/error.h"

namespace tessera::comm::detail {
std::vector<std::vector<int>> divide_cores(std::vector<CorePlace> cores, int ranks) {
  const auto count = static_cast<std::size_t>(ranks);
  TESSERA_CHECK_AS(NotSupported, !cores.empty(), "cannot pin ranks: the cores of this process are unknown");
  TESSERA_CHECK(cores.size() >= count, "cannot pin ", ranks, " ranks to ", cores.size(),
                " cores; start fewer ranks, or do not pin them");
  std::ranges::sort(cores);
  std::vector<std::vector<int>> shares(count);
  for (std::size_t rank = 0; rank < count; ++rank) {
    for (std::size_t i = rank * cores.size() / count; i < (rank + 1) * cores.size() / count; ++i)
      shares[rank].push_back(cores[i].cpu);
  }
  return shares;
}

cpu_set_t core_set(const std::vector<int>& cpus) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int cpu : cpus) CPU_SET(static_cast<std::size_t>(cpu), &set);
  return set;
}

}  // namespace tessera::comm::detail
