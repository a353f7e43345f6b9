#include "tessera/base/probe/orphans.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <optional>
#include <utility>

#include "tessera/base/env.h"
#include "tessera/base/error.h"
#include "tessera/base/probe/detail/record_copy.h"
#include "tessera/base/probe/layout.h"
#include "tessera/base/probe/process_identity.h"

namespace tessera::probe {
namespace {

constexpr char kDefaultDirectory[] = "/dev/shm";

// The name alone identifies the owner of a file (record_store.cpp creates it), so that a file whose process died during
// its creation, or whose header is corrupt, is recognized too.
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
  if (writer == self) return Liveness::kAlive;
  if (writer.pid_namespace != self.pid_namespace) return Liveness::kUnknown;
  const auto start = detail::process_start(writer.pid);
  return start.has_value() && *start == writer.start ? Liveness::kAlive : Liveness::kOrphan;
}

// An open record file; empty if it does not exist, belongs to another user, or is not a regular file.
class OpenRecord {
 public:
  explicit OpenRecord(const std::string& path)
      : descriptor_(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)) {
    const bool is_regular = descriptor_ >= 0 && ::fstat(descriptor_, &info_) == 0 && S_ISREG(info_.st_mode);
    if (is_regular) has_header_ = ::pread(descriptor_, &header_, sizeof header_, 0) == sizeof header_;
    has_header_ = has_header_ && std::memcmp(header_.magic, detail::kMagic, sizeof header_.magic) == 0;
    if (!is_regular && descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
  }
  ~OpenRecord() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  OpenRecord(const OpenRecord&) = delete;
  OpenRecord& operator=(const OpenRecord&) = delete;

  [[nodiscard]] int descriptor() const { return descriptor_; }
  [[nodiscard]] bool is_ours() const { return descriptor_ >= 0 && info_.st_uid == ::geteuid(); }
  [[nodiscard]] std::uint64_t nbytes() const { return static_cast<std::uint64_t>(info_.st_size); }
  [[nodiscard]] std::string run_path() const {
    return has_header_ ? std::string(header_.run_path, ::strnlen(header_.run_path, sizeof header_.run_path)) : "";
  }
  // Returns true if another process is moving the file, or has moved it.
  // Otherwise this object holds the right to move it.
  [[nodiscard]] bool is_being_moved() const {
    struct ::stat now = {};
    if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) return true;
    return ::fstat(descriptor_, &now) != 0 || now.st_nlink == 0;
  }
  // Returns true if the same recorder wrote both records.
  [[nodiscard]] bool is_copy_of(const OpenRecord& other) const {
    return has_header_ && other.has_header_ && header_.pid == other.header_.pid &&
           header_.process_start == other.header_.process_start && run_path() == other.run_path();
  }

 private:
  int descriptor_;
  struct ::stat info_ = {};
  detail::FileHeader header_ = {};
  bool has_header_ = false;
};

std::string link_target(const std::string& path) {
  std::error_code error;
  const std::string target = std::filesystem::read_symlink(path, error).string();
  return error ? std::string() : target;
}

// Returns true if the file at the run path of the record is the link to it, or an earlier copy of it.
bool is_wanted(const std::string& path, const OpenRecord& record) {
  const std::string run_path = record.run_path();
  if (run_path.empty()) return false;
  const std::string target = link_target(run_path);
  if (!target.empty()) return target == std::filesystem::absolute(path).string();
  return OpenRecord(run_path).is_copy_of(record);
}

// Removes temporary files of this copy whose processes were killed while they wrote them (record_copy.cpp names them).
void remove_unfinished_copies(const std::filesystem::path& copy) {
  const std::string prefix = copy.filename().string() + ".";
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(copy.parent_path(), error)) {
    const std::string name = entry.path().filename().string();
    unsigned long long pid = 0;
    const bool is_temporary = name.starts_with(prefix) && name.ends_with(".part") &&
                              std::sscanf(name.c_str() + prefix.size(), "%llu.", &pid) == 1;
    if (is_temporary && !detail::process_start(pid)) ::unlink(entry.path().c_str());
  }
}

// Copies the record to `to` and removes it. Returns the error, or an empty string.
std::string move_record(const std::string& path, const OpenRecord& record, const std::string& to) {
  if (!record.is_ours()) return tessera::detail::concat("record ", path, " of ", to, " belongs to another user");
  if (const int error = detail::copy_record(record.descriptor(), record.nbytes(), to); error != 0)
    return tessera::detail::concat("record ", path, " cannot be copied to ", to, ": ", std::strerror(error));
  remove_unfinished_copies(to);
  if (::unlink(path.c_str()) == 0 || errno == ENOENT) return {};
  return tessera::detail::concat("record ", path, " was copied to ", to,
                                 ", but cannot be removed: ", std::strerror(errno));
}

void add_moved(AdoptedRecords& adopted, const std::string& path, const OpenRecord& record, const std::string& to) {
  std::string problem = move_record(path, record, to);
  problem.empty() ? adopted.moved.push_back(to) : adopted.problems.push_back(std::move(problem));
}

}  // namespace

AdoptedRecords adopt_links(const std::string& run_dir) {
  AdoptedRecords adopted;
  const auto self = detail::this_process();
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(run_dir, error)) {
    const std::string name = entry.path().filename().string();
    std::error_code ignored;
    if (!name.starts_with("rank-") || !name.ends_with(".record") || !entry.is_symlink(ignored)) continue;
    const std::string target = link_target(entry.path().string());
    const auto writer = parse_name(std::filesystem::path(target).filename().string());
    if (!writer || liveness_of(writer->first, self) != Liveness::kOrphan) continue;
    const OpenRecord record(target);
    if (record.is_ours()) add_moved(adopted, target, record, entry.path().string());
  }
  return adopted;
}

AdoptedRecords adopt_records(const std::string& run_dir) {
  AdoptedRecords adopted = adopt_links(run_dir);
  const std::string where = env::record_dir();
  std::error_code error;
  if (!std::filesystem::is_directory(where.empty() ? kDefaultDirectory : where, error)) return adopted;
  for (const FoundRecord& found : list_records(where)) {
    if (found.liveness != Liveness::kOrphan || found.run_path.empty()) continue;
    const OpenRecord record(found.path);
    const std::filesystem::path run_path = record.run_path();
    const bool is_there = std::filesystem::equivalent(run_path.parent_path(), run_dir, error) && !error;
    if (is_there && record.is_ours() && is_wanted(found.path, record))
      add_moved(adopted, found.path, record, run_path.string());
  }
  return adopted;
}

// Each rank does this at its start: it opens only orphans, and only one of several ranks copies.
AdoptedRecords adopt_orphans(const std::string& directory) {
  AdoptedRecords adopted;
  const auto self = detail::this_process();
  std::error_code error;
  for (const auto& entry :
       std::filesystem::directory_iterator(directory.empty() ? kDefaultDirectory : directory, error)) {
    const auto writer = parse_name(entry.path().filename().string());
    if (!writer || liveness_of(writer->first, self) != Liveness::kOrphan) continue;
    const std::string path = entry.path().string();
    const OpenRecord record(path);
    if (!record.is_ours() || record.is_being_moved() || !is_wanted(path, record)) continue;
    add_moved(adopted, path, record, record.run_path());
  }
  return adopted;
}

std::vector<FoundRecord> list_records(const std::string& directory) {
  const std::string where = directory.empty() ? kDefaultDirectory : directory;
  std::error_code error;
  std::filesystem::directory_iterator files(where, error);
  TESSERA_CHECK_AS(IoError, !error, "cannot list record files in ", where, ": ", error.message());
  const auto self = detail::this_process();
  std::vector<FoundRecord> found;
  for (const auto& file : files) {
    const auto writer = parse_name(file.path().filename().string());
    if (!writer || !file.is_regular_file(error) || file.is_symlink(error)) continue;
    const std::uint64_t nbytes = file.file_size(error);
    const std::string path = file.path().string();
    found.push_back({path, writer->first.pid, writer->first.start, writer->second, error ? 0 : nbytes,
                     liveness_of(writer->first, self), OpenRecord(path).run_path()});
  }
  std::sort(found.begin(), found.end(), [](const FoundRecord& a, const FoundRecord& b) { return a.path < b.path; });
  return found;
}

RemovedOrphans remove_orphans(const std::string& directory, bool removes_lost) {
  RemovedOrphans result;
  for (FoundRecord& found : list_records(directory)) {
    if (found.liveness != Liveness::kOrphan) continue;
    const OpenRecord record(found.path);
    if (is_wanted(found.path, record)) {
      std::string problem = move_record(found.path, record, record.run_path());
      problem.empty() ? result.moved.push_back(std::move(found)) : result.problems.push_back(std::move(problem));
    } else if (!found.run_path.empty() && !removes_lost) {
      result.kept.push_back(std::move(found));
    } else if (::unlink(found.path.c_str()) == 0) {
      result.removed.push_back(std::move(found));
    } else if (errno != ENOENT) {  // another process was faster
      result.problems.push_back(found.path + ": " + std::strerror(errno));
    }
  }
  return result;
}

}  // namespace tessera::probe
