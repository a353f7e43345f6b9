#include "tessera/cli/newest_run.h"

#include <cstdio>
#include <filesystem>
#include <optional>

#include "tessera/base/error.h"

namespace tessera::cli {
namespace {

namespace fs = std::filesystem;

// Returns the time of the last start of a run, or of the last change of its record files; nullopt if this is not a run
// directory. A later HTML report or export does not make a run newer.
std::optional<fs::file_time_type> time_of(const fs::path& directory) {
  std::optional<fs::file_time_type> newest;
  std::error_code error;
  for (fs::directory_iterator entry(directory, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    const bool is_of_run =
        name == "launch.json" || name == "config.toml" || (name.starts_with("rank-") && name.ends_with(".record"));
    std::error_code unread;
    const fs::file_time_type time = is_of_run ? fs::last_write_time(entry->path(), unread) : fs::file_time_type();
    if (is_of_run && !unread && (!newest || time > *newest)) newest = time;
  }
  return newest;
}

}  // namespace

std::string newest_run() {
  std::string newest;
  std::optional<fs::file_time_type> when;
  std::error_code error;
  for (fs::directory_iterator entry("runs", error), end; !error && entry != end; entry.increment(error)) {
    const auto time = time_of(entry->path());
    if (!time || (when && *time <= *when)) continue;
    when = time;
    newest = entry->path().string();
  }
  TESSERA_CHECK_AS(IoError, !newest.empty(),
                   "RUN_DIR: required, no run found under ./runs; use the --run-dir or TESSERA_RUN_DIR of the run");
  std::fprintf(stderr, "tessera: RUN_DIR: %s, the newest run under ./runs\n", newest.c_str());
  return newest;
}

}  // namespace tessera::cli
