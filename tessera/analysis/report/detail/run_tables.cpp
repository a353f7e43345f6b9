#include "tessera/analysis/report/detail/run_tables.h"

#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

#include "tessera/analysis/detail/launch_file.h"
#include "tessera/base/bytes.h"
#include "tessera/base/error.h"
#include "tessera/base/json_depth.h"
#include "tessera/base/regular_file.h"

namespace tessera::analysis::detail {
namespace {

using tessera::detail::concat;

constexpr std::uint64_t kMaxMetrics = 64 << 20;  // bytes: about 190,000 lines; of a larger file, only the end is read
constexpr std::uint64_t kHead = 64 << 10;        // bytes of metrics.jsonl that contain the first step
constexpr std::uint64_t kMaxLosses = 64 << 20;
constexpr std::uint64_t kMaxSummary = 16 << 20;
constexpr std::size_t kMaxOwners = 24;
constexpr std::size_t kMaxName = 200;  // bytes of the name of an owner
constexpr std::int64_t kMaxRanks = 16384;
constexpr std::size_t kMaxDepth = 64;  // maximum nesting of JSON
constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

// A file, or its end if it is longer than allowed.
struct Text {
  std::string bytes;
  bool is_cut = false;
  FileCursor end = {};  // of the complete lines
};

std::uint64_t inode_of(const RegularFile& file) {
  struct stat found = {};
  return ::fstat(file.descriptor(), &found) == 0 ? found.st_ino : 0;
}

// Returns nothing if no regular file can be read there.
std::optional<Text> read_end(const std::string& path, std::uint64_t most) {
  try {
    const RegularFile file(path);
    const std::uint64_t taken = std::min(file.nbytes(), most);
    Text text{.bytes = file.read(file.nbytes() - taken, taken), .is_cut = taken < file.nbytes()};
    const std::size_t complete = text.bytes.rfind('\n') + 1;  // 0 without a line end
    text.end = {.inode = inode_of(file), .offset = file.nbytes() - taken + complete};
    const std::size_t end = text.bytes.find('\n');
    if (text.is_cut) text.bytes.erase(0, end == std::string::npos ? end : end + 1);
    return text;
  } catch (const IoError&) {
    return std::nullopt;
  }
}

// Calls `take` for the complete lines of a text; the rest after the last line end is still being written.
template <class Take>
void for_each_line(std::string_view text, const Take& take) {
  while (true) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) return;
    take(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
}

// Returns NaN if the cell is not a number.
double number_in_cell(std::string_view cell) {
  double value = kNone;
  const char* end = cell.data() + cell.size();
  const auto [stop, error] = std::from_chars(cell.data(), end, value);
  return error == std::errc() && stop == end && std::isfinite(value) ? value : kNone;
}

std::optional<LossLine> loss_line(std::string_view line) {
  std::vector<std::string_view> cells;
  while (cells.size() < 6) {
    const std::size_t comma = line.find(',');
    cells.push_back(line.substr(0, comma));
    if (comma == std::string_view::npos) break;
    line.remove_prefix(comma + 1);
  }
  if (cells.size() != 5) return std::nullopt;
  const double step = number_in_cell(cells[0]);
  if (!(step >= 1 && step < 1e15)) return std::nullopt;
  LossLine found{.step = static_cast<std::int64_t>(step),
                 .loss = number_in_cell(cells[1]),
                 .grad_norm = number_in_cell(cells[2]),
                 .learning_rate = number_in_cell(cells[3])};
  if (const double held_out = number_in_cell(cells[4]); std::isfinite(held_out)) found.held_out = held_out;
  return found;
}

// Sorts by step; of duplicates, as after a restart, keeps the last.
template <class Line>
void settle(std::vector<Line>& lines) {
  std::stable_sort(lines.begin(), lines.end(), [](const Line& a, const Line& b) { return a.step < b.step; });
  const auto kept =
      std::unique(lines.rbegin(), lines.rend(), [](const Line& a, const Line& b) { return a.step == b.step; });
  lines.erase(lines.begin(), kept.base());
}

// Returns 0 unless the time is after 1970 and before the year 5000.
double sound_time(double seconds) { return seconds > 0 && seconds < 1e11 ? seconds : 0; }

void take_owners(const PageJson& memory, StepLine& line, RunTables& tables) {
  for (const auto& [owner, nbytes] : memory.items()) {
    if (owner == "total" || !nbytes.is_number_unsigned()) continue;
    auto place = std::find(tables.owners.begin(), tables.owners.end(), owner);
    if (place == tables.owners.end()) {
      if (tables.owners.size() == kMaxOwners || owner.size() > kMaxName) continue;
      place = tables.owners.insert(place, owner);
    }
    const auto index = static_cast<std::size_t>(place - tables.owners.begin());
    if (line.owners.size() <= index) line.owners.resize(index + 1);
    line.owners[index] = nbytes.get<std::uint64_t>();
    line.total += line.owners[index];
  }
}

bool take_metrics(std::string_view text, RunTables& tables) {
  if (tessera::detail::json_depth(text) > kMaxDepth) return false;
  const PageJson line = PageJson::parse(text, nullptr, false);
  const auto rank = number_at(line, "rank");
  const auto step = number_at(line, "step");
  if (!rank || !step || *rank < 0 || *rank >= kMaxRanks || *step < 1 || *step > 1e15) return false;
  StepLine found{.step = static_cast<std::int64_t>(*step),
                 .loss = number_at(line, "loss").value_or(kNone),
                 .grad_norm = number_at(line, "grad_norm").value_or(kNone),
                 .learning_rate = number_at(line, "learning_rate").value_or(kNone),
                 .time = sound_time(number_at(line, "time").value_or(0)),
                 .tokens = number_at(line, "tokens").value_or(0),
                 .seconds = number_at(line, "seconds").value_or(0),
                 .exposed_seconds = number_at(line, "exposed_seconds").value_or(0)};
  if (const PageJson& memory = part_at(line, "memory"); memory.is_object()) take_owners(memory, found, tables);
  tables.ranks[static_cast<int>(*rank)].push_back(std::move(found));
  return true;
}

class TableReader {
 public:
  explicit TableReader(const std::string& directory) : directory_(directory) {}

  RunTables read() {
    read_summary();
    read_mesh();
    read_losses();
    read_metrics();
    read_times();
    return std::move(tables_);
  }

 private:
  void miss(const std::string& what, const std::string& why) { tables_.missing.push_back({what, why}); }
  void pass_over(const std::string& file, std::size_t lines) {
    if (lines > 0) tables_.problems.push_back(concat(file, ": ", lines, " unreadable lines were skipped"));
  }

  void read_summary() {
    auto summary = detail::read_summary(directory_);
    if (!summary) {
      miss("summary.json", "Rank 0 writes it at the end. The run is active, was killed, or was not a training run.");
      return;
    }
    tables_.summary = std::move(*summary);
    if (tables_.summary.is_object()) return;
    miss("summary.json", "The file is not a JSON object; its data cannot be shown.");
  }

  void read_mesh() {
    const auto axis = [&](std::string_view name) {
      return number_at(part_at(tables_.summary, "mesh"), name).value_or(0);
    };
    tables_.mesh = sound_mesh(axis("dp"), axis("fsdp"), axis("tp"));
    if (tables_.mesh.size() == 0) {
      tables_.mesh = trained_mesh(directory_);
      tables_.world_size = tables_.mesh.size();
    }
    const auto told = number_at(tables_.summary, "world_size");
    if (told && *told >= 1 && *told <= kMaxRanks) tables_.world_size = static_cast<int>(*told);
  }

  void read_losses() {
    const auto text = read_end(directory_ + "/loss.csv", kMaxLosses);
    if (!text) {
      miss("loss.csv",
           "Rank 0 of a training run writes one line per step. No step has finished, or this was not a training run.");
      return;
    }
    tables_.losses_end = text->end;
    const std::size_t spoilt = parse_losses(text->bytes, tables_);
    settle(tables_.losses);
    pass_over("loss.csv", spoilt);
    if (tables_.losses.empty()) miss("loss.csv", "The file contains no step; none has finished.");
    if (text->is_cut)
      miss("loss.csv", concat("The file is long; only its last ", format_bytes(kMaxLosses), " are shown."));
  }

  void read_metrics() {
    const auto text = read_end(directory_ + "/metrics.jsonl", kMaxMetrics);
    if (!text) {
      miss("metrics.jsonl",
           "Each rank of a training run writes one line per step. No step has finished, or this was not a training "
           "run.");
      return;
    }
    tables_.metrics_end = text->end;
    const std::size_t spoilt = parse_metrics(text->bytes, tables_);
    for (auto& [rank, lines] : tables_.ranks) settle(lines);
    pass_over("metrics.jsonl", spoilt);
    if (tables_.ranks.empty()) miss("metrics.jsonl", "The file contains no step; none has finished.");
    if (text->is_cut)
      miss("metrics.jsonl", concat("The file is long; only its last ", format_bytes(kMaxMetrics), " are shown."));
  }

  // From launch.json and the lines of metrics.jsonl, whose first line may precede those that were read.
  void read_times() {
    RunTables head;
    try {
      const RegularFile file(directory_ + "/metrics.jsonl");
      parse_metrics(file.read(0, kHead), head);
    } catch (const IoError&) {  // a run without metrics
    }
    for (const RunTables* tables : {&std::as_const(head), &std::as_const(tables_)}) {
      for (const auto& [rank, lines] : tables->ranks) {
        for (const StepLine& line : lines) {
          if (line.time > 0) take_time(line.time - line.seconds, line.time);
        }
      }
    }
    std::vector<std::string> ignored;  // the records list them
    if (const auto launch = read_launch_file(directory_ + "/launch.json", ignored))
      take_time(static_cast<double>(launch->started_ns) / 1e9, static_cast<double>(launch->ended_ns) / 1e9);
  }

  void take_time(double began, double ended) {
    if (sound_time(began) > 0 && (tables_.began == 0 || began < tables_.began)) tables_.began = began;
    tables_.ended = std::max(tables_.ended, sound_time(ended));
  }

  const std::string& directory_;
  RunTables tables_;
};

}  // namespace

void keep_ranks_of(int world_size, RunTables& tables) {
  if (world_size <= 0) return;
  const std::size_t dropped = std::erase_if(tables.ranks, [&](const auto& each) { return each.first >= world_size; });
  if (dropped > 0)
    tables.missing.push_back(
        {"earlier ranks", concat("metrics.jsonl contains ", dropped,
                                 " more ranks, from a larger world before this one of ", world_size, " ranks.")});
}

std::optional<PageJson> read_summary(const std::string& directory) {
  const auto text = read_end(directory + "/summary.json", kMaxSummary);
  if (!text) return std::nullopt;
  if (tessera::detail::json_depth(text->bytes) > kMaxDepth) return PageJson();
  PageJson summary = PageJson::parse(text->bytes, nullptr, false);
  return summary.is_object() ? std::optional(std::move(summary)) : std::optional(PageJson());
}

std::size_t parse_losses(std::string_view text, RunTables& tables) {
  std::size_t spoilt = 0;
  for_each_line(text, [&](std::string_view line) {
    if (line.starts_with("step,")) return;
    if (const auto found = loss_line(line)) {
      tables.losses.push_back(*found);
    } else {
      ++spoilt;
    }
  });
  return spoilt;
}

std::size_t parse_metrics(std::string_view text, RunTables& tables) {
  std::size_t spoilt = 0;
  for_each_line(text, [&](std::string_view line) { spoilt += take_metrics(line, tables) ? 0U : 1U; });
  return spoilt;
}

RunTables read_run_tables(const std::string& directory) { return TableReader(directory).read(); }

std::optional<double> number_at(const PageJson& object, std::string_view key) {
  const PageJson& found = part_at(object, key);
  if (!found.is_number()) return std::nullopt;
  const double value = found.get<double>();
  return std::isfinite(value) ? std::optional(value) : std::nullopt;
}

const PageJson& part_at(const PageJson& object, std::string_view key) {
  static const PageJson none;
  if (!object.is_object()) return none;
  const auto found = object.find(std::string(key));
  return found == object.end() ? none : *found;
}

}  // namespace tessera::analysis::detail
