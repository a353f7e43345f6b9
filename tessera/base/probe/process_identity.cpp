#include "tessera/base/probe/process_identity.h"

#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

namespace tessera::probe::detail {

std::optional<std::uint64_t> process_start(std::uint64_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const auto name_end = text.rfind(')');  // the name may contain any characters, including brackets and spaces
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream rest(text.substr(name_end + 1));
  char state = 0;
  rest >> state;
  if (state == 'Z' || state == 'X') return std::nullopt;
  std::string skipped;
  for (int field = 4; field < 22; ++field) rest >> skipped;
  std::uint64_t start = 0;
  if (!(rest >> start)) return std::nullopt;
  return start;
}

ProcessIdentity this_process() {
  ProcessIdentity self;
  self.pid = static_cast<std::uint64_t>(getpid());
  self.start = process_start(self.pid).value_or(0);
  struct stat info {};
  if (stat("/proc/self/ns/pid", &info) == 0) self.pid_namespace = info.st_ino;
  return self;
}

std::string host_name() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "";
}

std::string boot_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(file, id);
  return id;
}

}  // namespace tessera::probe::detail
