#include "tessera/base/probe/orphans.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <optional>

#include "tessera/base/error.h"
#include "tessera/base/probe/detail/process_identity.h"

namespace tessera::probe {
namespace {

// The name alone says whose a file is (record_store.cpp makes it), so that a file whose process died while making it,
// or whose header is spoilt, is known too.
std::optional<std::pair<detail::ProcessIdentity, int>> parse_name(const std::string& name) {
  unsigned long long name_space = 0;
  unsigned long long pid = 0;
  unsigned long long start = 0;
  unsigned long long serial = 0;
  int rank = 0;
  int end = 0;
  const int got = std::sscanf(name.c_str(), "tessera-n%llu-p%llu-t%llu-r%d-%llu.record%n", &name_space, &pid, &start,
                              &rank, &serial, &end);
  if (got != 5 || end == 0 || static_cast<std::size_t>(end) != name.size()) return std::nullopt;
  return std::pair{detail::ProcessIdentity{pid, start, name_space}, rank};
}

Liveness liveness_of(const detail::ProcessIdentity& writer, const detail::ProcessIdentity& self) {
  if (writer.pid_namespace != self.pid_namespace) return Liveness::kUnknown;
  const auto start = detail::process_start(writer.pid);
  return start.has_value() && *start == writer.start ? Liveness::kAlive : Liveness::kOrphan;
}

}  // namespace

std::vector<FoundRecord> list_records(const std::string& directory) {
  const std::string where = directory.empty() ? "/dev/shm" : directory;
  std::error_code error;
  std::filesystem::directory_iterator files(where, error);
  TESSERA_CHECK_AS(IoError, !error, "listing record files in ", where, ": ", error.message());
  const auto self = detail::this_process();
  std::vector<FoundRecord> found;
  for (const auto& file : files) {
    const auto writer = parse_name(file.path().filename().string());
    if (!writer || !file.is_regular_file(error) || file.is_symlink(error)) continue;
    const std::uint64_t nbytes = file.file_size(error);
    found.push_back({file.path().string(), writer->first.pid, writer->first.start, writer->second, error ? 0 : nbytes,
                     liveness_of(writer->first, self)});
  }
  std::sort(found.begin(), found.end(), [](const FoundRecord& a, const FoundRecord& b) { return a.path < b.path; });
  return found;
}

RemovedOrphans remove_orphans(const std::string& directory) {
  RemovedOrphans result;
  for (FoundRecord& record : list_records(directory)) {
    if (record.liveness != Liveness::kOrphan) continue;
    if (unlink(record.path.c_str()) == 0) {
      result.removed.push_back(std::move(record));
    } else if (errno != ENOENT) {  // somebody else was faster
      result.problems.push_back(record.path + ": " + std::strerror(errno));
    }
  }
  return result;
}

}  // namespace tessera::probe
