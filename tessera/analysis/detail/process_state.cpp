#include "tessera/analysis/detail/process_state.h"

#include <fstream>
#include <iterator>
#include <sstream>

#include "tessera/base/probe/process_identity.h"

namespace tessera::analysis::detail {
namespace {

struct Stat {
  char state = 0;
  std::uint64_t start = 0;
};

// The state is field 3 of /proc/PID/stat, the start field 22; the name before them may contain any bytes.
Stat read_stat(std::uint64_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const auto name_end = text.rfind(')');
  if (name_end == std::string::npos) return {};
  std::istringstream rest(text.substr(name_end + 1));
  Stat stat;
  rest >> stat.state;
  std::string skipped;
  for (int field = 4; field < 22; ++field) rest >> skipped;
  rest >> stat.start;
  return rest ? stat : Stat{};
}

}  // namespace

ProcessState state_of(const ProcessName& process) {
  if (!process.boot_id.empty() && process.boot_id != probe::detail::boot_id()) return ProcessState::kUnseen;
  const std::uint64_t own = probe::detail::this_process().pid_namespace;
  if (own == 0 || process.pid_namespace != own) return ProcessState::kUnseen;
  const Stat stat = read_stat(process.pid);
  if (stat.start != process.start || stat.state == 0) return ProcessState::kGone;
  switch (stat.state) {
    case 'Z':
    case 'X': return ProcessState::kGone;
    case 'T':
    case 't': return ProcessState::kStopped;
    default: return ProcessState::kRunning;
  }
}

}  // namespace tessera::analysis::detail
