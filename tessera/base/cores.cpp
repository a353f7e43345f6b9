#include "tessera/base/cores.h"

#include <sched.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>

namespace tessera {
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

std::vector<CorePlace> usable_cores(const std::string& directory) {
  cpu_set_t usable;
  std::vector<CorePlace> cores;
  if (::sched_getaffinity(0, sizeof usable, &usable) != 0) return cores;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(static_cast<std::size_t>(cpu), &usable)) continue;
    const std::string of_core = directory + "/cpu" + std::to_string(cpu);
    cores.push_back({node_of(of_core), number_in(of_core + "/topology/core_id"), cpu});
  }
  return cores;
}

bool span_nodes(const std::vector<CorePlace>& cores) {
  return std::ranges::adjacent_find(cores, std::not_equal_to(), &CorePlace::node) != cores.end();
}

}  // namespace tessera
