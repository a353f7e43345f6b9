#include "tessera/train/metrics.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>
#include <nlohmann/json.hpp>

#include "tessera/base/error.h"
#include "tessera/base/run_directory.h"
#include "tessera/base/sync_directory.h"

namespace tessera::train {

LineFile::LineFile(std::filesystem::path path) : path_(std::move(path)), fd_(open_run_file(path_)) {}

LineFile::~LineFile() { ::close(fd_); }

void LineFile::append(std::string line) {
  line += '\n';
  ssize_t written = -1;
  do {
    written = ::write(fd_, line.data(), line.size());
  } while (written < 0 && errno == EINTR);
  TESSERA_CHECK_AS(IoError, written >= 0, "append: cannot write to '", path_.string(), "': ", std::strerror(errno));
  if (static_cast<std::size_t>(written) == line.size()) return;
  cut_off(written);
  TESSERA_THROW(IoError, "append: must write all ", line.size(), " bytes of a line to '", path_.string(), "', got ",
                written, "; check for a full disk");
}

void LineFile::sync() {
  const int synced = ::fsync(fd_);
  const int error = errno;
  TESSERA_CHECK_AS(IoError, synced == 0 || error == EINVAL || error == ENOTSUP, "cannot sync '", path_.string(),
                   "': ", std::strerror(error));
  if (is_named_) return;
  sync_directory(path_.parent_path().string());
  is_named_ = true;
}

// The last appended bytes end at the position of this descriptor.
void LineFile::cut_off(std::int64_t nbytes) const {
  const off_t end = ::lseek(fd_, 0, SEEK_CUR);
  struct stat now = {};
  const bool is_last = end >= 0 && ::fstat(fd_, &now) == 0 && now.st_size == end;
  if (is_last) [[maybe_unused]]
    const int cut = ::ftruncate(fd_, end - nbytes);
}

std::string_view to_string(StepEnd end) {
  switch (end) {
    case StepEnd::kDone: return "done";
    case StepEnd::kSkippedNan: return "skipped_nan";
    case StepEnd::kSkippedSpike: return "skipped_spike";
  }
  return "unknown";
}

std::string metrics_line(int rank, const StepReport& report, std::span<const OwnedBytes> memory) {
  nlohmann::ordered_json line = {{"rank", rank},
                                 {"step", report.step},
                                 {"loss", report.loss},
                                 {"grad_norm", report.grad_norm},
                                 {"learning_rate", report.learning_rate},
                                 {"end", to_string(report.end)},
                                 {"tokens", report.tokens},
                                 {"seconds", report.seconds},
                                 {"exposed_seconds", report.exposed_seconds},
                                 {"tokens_per_second", static_cast<double>(report.tokens) / report.seconds}};
  if (report.time > 0) line["time"] = report.time;
  auto& owners = line["memory"] = nlohmann::ordered_json::object();
  for (const OwnedBytes& each : memory) owners[each.owner] = each.nbytes;
  return line.dump();
}

}  // namespace tessera::train
