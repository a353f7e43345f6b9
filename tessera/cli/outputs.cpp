#include "tessera/cli/outputs.h"

#include <sys/stat.h>

#include <array>
#include <filesystem>
#include <string_view>

#include "tessera/base/error.h"

namespace tessera::cli {
namespace {

namespace fs = std::filesystem;

// For files that do not exist yet, compares the paths.
bool is_same(const std::string& a, const std::string& b) {
  struct ::stat first = {};
  struct ::stat second = {};
  const bool has_first = ::stat(a.c_str(), &first) == 0;
  const bool has_second = ::stat(b.c_str(), &second) == 0;
  if (has_first != has_second) return false;
  if (has_first) return first.st_dev == second.st_dev && first.st_ino == second.st_ino;
  std::error_code error;
  return fs::weakly_canonical(a, error) == fs::weakly_canonical(b, error);
}

// Returns true if `path` or a directory above it is `directory`, which need not exist.
bool is_at_or_below(const std::string& path, const std::string& directory) {
  std::error_code error;
  const fs::path whole = fs::weakly_canonical(fs::absolute(path, error), error);
  for (fs::path at = whole; !error; at = at.parent_path()) {
    if (is_same(at.string(), directory)) return true;
    if (at == at.parent_path()) break;
  }
  return false;
}

bool is_file_of_run(const std::string& name) {
  constexpr std::array<std::string_view, 6> kNames = {"launch.json", "config.toml",  "metrics.jsonl",
                                                      "loss.csv",    "summary.json", "explain.json"};
  constexpr std::array<std::string_view, 3> kPrefixes = {"rank-", "comm_lib_trace_rank_", "nccl_trace_rank_"};
  for (const std::string_view each : kNames) {
    if (name == each) return true;
  }
  for (const std::string_view each : kPrefixes) {
    if (name.starts_with(each)) return true;
  }
  return false;
}

}  // namespace

void check_output(const std::string& option, const std::string& output, const std::vector<std::string>& inputs) {
  for (const std::string& input : inputs) {
    TESSERA_CHECK(!is_same(output, input), option, ": must not be an input, got '", output, "'",
                  input == output ? "" : tessera::detail::concat(", which is the same file as '", input, "'"),
                  "; give another path");
  }
}

void check_directory(const std::string& option, const std::string& directory, const std::vector<std::string>& inputs) {
  for (const std::string& input : inputs) {
    const bool is_inside = is_at_or_below(input, directory);
    TESSERA_CHECK(!is_inside && !is_at_or_below(directory, input), option, ": must not ",
                  is_inside ? "contain" : "be inside", " an input, got '", directory, "' and the input '", input,
                  "'; give another path");
  }
}

std::vector<std::string> files_of_run(const std::string& directory) {
  std::vector<std::string> files;
  std::error_code error;
  for (fs::directory_iterator at(directory, error), end; !error && at != end; at.increment(error)) {
    if (is_file_of_run(at->path().filename().string())) files.push_back(at->path().string());
  }
  const fs::path checkpoints = fs::path(directory) / "checkpoints";
  error.clear();
  for (fs::recursive_directory_iterator at(checkpoints, error), end; !error && at != end; at.increment(error)) {
    std::error_code ignored;
    if (!at->is_directory(ignored)) files.push_back(at->path().string());
  }
  return files;
}

}  // namespace tessera::cli
