// `tessera record`: prints the record file of a rank in human-readable form: its groups with their progress, and the
// last records of its rings, one line each.
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "tessera/base/error.h"
#include "tessera/base/probe/reader.h"
#include "tessera/cli/table.h"
#include "tessera/cli/verb.h"
#include "tessera/comm/records.h"

namespace tessera::cli {
namespace {

struct Options {
  std::string file;
  std::string ring = "comm";
  std::size_t last = 50;
  bool json = false;
};

struct Line {
  std::int64_t wall_ns = 0;
  std::uint32_t thread = 0;
  std::string ring;
  std::string text;
};

// A record without a label or stack has string 0, which the reader shows as that of a full table.
std::string without_empty_strings(std::string text) {
  constexpr std::string_view kEmpty = "(table full)";
  for (std::size_t at = text.find(kEmpty); at != std::string::npos; at = text.find(kEmpty, at)) {
    text.replace(at, kEmpty.size(), "-");
  }
  return text;
}

// Returns the lines, oldest first.
std::vector<Line> lines_of(const probe::RecordFile& file, const Options& options) {
  std::vector<Line> lines;
  const auto& records = file.records();
  for (auto at = records.rbegin(); at != records.rend() && lines.size() < options.last; ++at) {
    const probe::Record record = file.read(*at);
    if (options.ring != "all" && record.ring != options.ring) continue;
    const std::optional<std::string> told = comm::text_of_record(file, *at);
    lines.push_back({record.wall_ns, record.thread.tid, record.ring,
                     told ? *told : without_empty_strings(probe::to_string(record))});
  }
  std::reverse(lines.begin(), lines.end());
  return lines;
}

std::string time_text(std::int64_t wall_ns) {
  return fmt::format("{:%H:%M:%S}.{:06}", fmt::gmtime(static_cast<std::time_t>(wall_ns / 1'000'000'000)),
                     wall_ns / 1000 % 1'000'000);
}

// For a directory, which is often a run, the error lists its record files.
void check_file(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) return;
  std::vector<std::string> files;
  for (std::filesystem::directory_iterator entry(path, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.starts_with("rank-") && name.ends_with(".record")) files.push_back(entry->path().string());
  }
  std::ranges::sort(files);
  TESSERA_THROW(
      IoError, "record: FILE: must be the record file of a rank, got directory '", path, "'; ",
      files.empty() ? "it contains none" : "give one of its " + std::to_string(files.size()) + ", as in " + files[0],
      ", or use `tessera explain ", path, "` for the run");
}

int show(const Options& options) {
  check_file(options.file);
  const auto file = probe::RecordFile::open(options.file);
  for (const std::string& problem : file.problems()) std::fprintf(stderr, "tessera: %s\n", problem.c_str());
  const std::vector<std::string> groups = comm::text_of_groups(file);
  const std::vector<Line> lines = lines_of(file, options);
  if (options.json) {
    nlohmann::ordered_json records = nlohmann::ordered_json::array();
    for (const Line& line : lines) {
      records.push_back({{"wall_ns", line.wall_ns}, {"thread", line.thread}, {"ring", line.ring}, {"text", line.text}});
    }
    print_json({{"file", options.file}, {"rank", file.info().rank}, {"groups", groups}, {"records", records}});
    return kDone;
  }
  for (const std::string& group : groups) std::printf("%s\n", group.c_str());
  for (const Line& line : lines) {
    std::printf("%s\t%u\t%s\n", time_text(line.wall_ns).c_str(), line.thread, line.text.c_str());
  }
  return kDone;
}

Body declare(Command& command) {
  const auto options = std::make_shared<Options>();
  command.add("FILE", &options->file, "Record file of a rank, active or ended",
              {.is_required = true, .paths = Paths::kFiles});
  command.add("--ring", &options->ring, "Kind of records to show",
              {.shows_default = true, .choices = {"comm", "memory", "launch", "all"}});
  command.add("--last", &options->last, "Number of records to show, the latest", {.shows_default = true});
  command.add("--json", &options->json, "Print JSON");
  command.footer =
      "Prints the groups of the rank with their last enqueued and active operations, then records: time (UTC), thread, "
      "text.\n"
      "  tessera record run/rank-0.node7.4242.a1 --last 20";
  return [options]() -> int {
    try {
      return show(*options);
    } catch (const IoError& error) {  // a missing or invalid file: the source location does not matter
      std::fprintf(stderr, "tessera: %s\n", error.message().c_str());
      return kFailed;
    }
  };
}

const VerbRegistration kRecord({"record", "Show the content of a record file", declare});

}  // namespace
}  // namespace tessera::cli
