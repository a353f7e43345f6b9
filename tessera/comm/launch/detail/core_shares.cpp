#include "tessera/comm/launch/detail/core_shares.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "tessera/base/error.h"

namespace tessera::comm::detail {
namespace {

// Returns the number in a file; 0 if the file has no number.
int number_in(const std::string& path) {
  int number = 0;
  std::ifstream(path) >> number;
  return number;
}

// The directory of a core has a link "node1".
int node_of(const std::string& directory) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("node") && name.find_first_not_of("0123456789", 4) == std::string::npos && name.size() > 4)
      return std::stoi(name.substr(4));
  }
  return 0;
}

}  // namespace

std::vector<CorePlace> usable_cores() {
  cpu_set_t usable;
  TESSERA_CHECK_AS(NotSupported, ::sched_getaffinity(0, sizeof usable, &usable) == 0,
                   "cannot pin ranks: the cores of this process are unknown: ", std::strerror(errno));
  std::vector<CorePlace> cores;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(static_cast<std::size_t>(cpu), &usable)) continue;
    const std::string directory = "/sys/devices/system/cpu/cpu" + std::to_string(cpu);
    cores.push_back({node_of(directory), number_in(directory + "/topology/core_id"), cpu});
  }
  return cores;
}

std::vector<std::vector<int>> divide_cores(std::vector<CorePlace> cores, int ranks) {
  const auto count = static_cast<std::size_t>(ranks);
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
