#include "tessera/analysis/report/live_report.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "tessera/analysis/explain.h"
#include "tessera/analysis/live.h"
#include "tessera/analysis/read_run.h"
#include "tessera/analysis/report/detail/page.h"
#include "tessera/analysis/report/detail/page_data.h"
#include "tessera/analysis/report/detail/run_json.h"
#include "tessera/analysis/report/report.h"
#include "tessera/base/error.h"
#include "tessera/base/regular_file.h"

namespace tessera::analysis {
namespace {

using Clock = std::chrono::steady_clock;
using detail::FileCursor;
using detail::LossLine;
using detail::PageJson;
using detail::RunTables;
using detail::StepLine;

constexpr std::uint64_t kMaxChunk = 1 << 20;  // bytes that an update reads of a file
constexpr std::size_t kLaunches = 256;        // per group and rank: only the last show a hang
constexpr auto kBetweenStates = std::chrono::seconds(1);
constexpr int kCostFactor = 4;

std::string text_of(const FileCursor& cursor) { return fmt::format("{}.{}", cursor.inode, cursor.offset); }

std::optional<FileCursor> cursor_of(std::string_view text) {
  FileCursor cursor;
  const char* end = text.data() + text.size();
  const auto inode = std::from_chars(text.data(), end, cursor.inode);
  if (inode.ec != std::errc() || inode.ptr == end || *inode.ptr != '.') return std::nullopt;
  const auto offset = std::from_chars(inode.ptr + 1, end, cursor.offset);
  if (offset.ec != std::errc() || offset.ptr != end) return std::nullopt;
  return cursor;
}

// Returns the cursor of this name in a query. Throws InvalidArgument.
FileCursor cursor_in(std::string_view query, std::string_view name) {
  while (!query.empty()) {
    const std::size_t end = std::min(query.find('&'), query.size());
    const std::string_view item = query.substr(0, end);
    query.remove_prefix(std::min(end + 1, query.size()));
    if (!item.starts_with(name) || !item.substr(name.size()).starts_with('=')) continue;
    if (const auto cursor = cursor_of(item.substr(name.size() + 1))) return *cursor;
  }
  TESSERA_THROW(InvalidArgument, "update: ", name, ": must be INODE.OFFSET; reload the page");
}

// The lines of a file after a cursor.
struct Chunk {
  std::string text = {};  // complete lines
  FileCursor end = {};
  bool is_replaced = false;  // the cursor does not fit the file
  bool has_more = false;
  double written = 0;  // time of the last write, in seconds since 1970; 0: no file
};

Chunk read_after(const std::string& path, const FileCursor& cursor) {
  Chunk chunk{.end = cursor};
  try {
    const RegularFile file(path);
    struct stat found = {};
    if (::fstat(file.descriptor(), &found) != 0) return chunk;
    chunk.written = static_cast<double>(found.st_mtim.tv_sec) + static_cast<double>(found.st_mtim.tv_nsec) / 1e9;
    const bool is_new = cursor.inode == 0 && cursor.offset == 0;
    chunk.is_replaced = !is_new && (cursor.inode != found.st_ino || cursor.offset > file.nbytes());
    if (chunk.is_replaced) return chunk;
    chunk.text = file.read(cursor.offset, kMaxChunk);
    const bool is_full = chunk.text.size() == kMaxChunk;
    const std::size_t complete = chunk.text.rfind('\n') + 1;  // 0 without a line end
    chunk.has_more = is_full;
    // No line of a run is as long as a chunk: such bytes are skipped.
    if (complete > 0 || !is_full) chunk.text.resize(complete);
    chunk.end = {.inode = found.st_ino, .offset = cursor.offset + chunk.text.size()};
    return chunk;
  } catch (const IoError&) {  // no step has finished
    chunk.is_replaced = cursor.inode != 0;
    return chunk;
  }
}

PageJson number_json(double value) { return std::isfinite(value) ? PageJson(value) : PageJson(); }

PageJson losses_json(const std::vector<LossLine>& lines) {
  PageJson rows = PageJson::array();
  for (const LossLine& line : lines) {
    rows.push_back({line.step, number_json(line.loss), number_json(line.grad_norm), number_json(line.learning_rate),
                    line.held_out ? PageJson(*line.held_out) : PageJson()});
  }
  return rows;
}

// Rows of a step, its tokens, the seconds of its slowest rank, those of all ranks, exposed seconds of all, and ranks.
PageJson speeds_json(const RunTables& tables) {
  struct Sums {
    double tokens = 0;
    double seconds = 0;
    double rank_seconds = 0;
    double exposed_seconds = 0;
    int ranks = 0;
  };
  std::map<std::int64_t, Sums> steps;
  for (const auto& [rank, lines] : tables.ranks) {
    for (const StepLine& line : lines) {
      Sums& step = steps[line.step];
      step.tokens = std::max(step.tokens, line.tokens);
      step.seconds = std::max(step.seconds, line.seconds);
      step.rank_seconds += line.seconds;
      step.exposed_seconds += line.exposed_seconds;
      ++step.ranks;
    }
  }
  PageJson rows = PageJson::array();
  for (const auto& [number, step] : steps)
    rows.push_back({number, step.tokens, step.seconds, step.rank_seconds, step.exposed_seconds, step.ranks});
  return rows;
}

PageJson memory_rows(const RunTables& tables) {
  PageJson rows = PageJson::array();
  for (const auto& [rank, lines] : tables.ranks) {
    for (const StepLine& line : lines) rows.push_back({rank, line.step, line.owners});
  }
  return rows;
}

double now_seconds() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

}  // namespace

struct LiveReport::State {
  explicit State(std::string where) : directory(std::move(where)) {}

  // Data of the report with its cursor, as JSON.
  [[nodiscard]] detail::PageData read() const {
    detail::PageData made = detail::page_data(directory, ReportOptions().max_events);
    const PageJson& state = made.json["run"]["state"];
    if (state == "running" || state == "unknown") {
      made.json["live"] = {
          {"loss", text_of(made.losses_end)}, {"metrics", text_of(made.metrics_end)}, {"now", now_seconds()}};
    }
    return made;
  }

  // Reads the state of the run, unless it was read recently.
  void look() {
    const Clock::time_point begin = Clock::now();
    if (begin < next_look) return;
    RunTables tables;
    tables.summary = detail::read_summary(directory).value_or(PageJson());
    std::optional<Evidence> evidence;
    verdict = nullptr;
    try {
      evidence = read_run(directory, {.last_launches = kLaunches, .has_memory = false});
    } catch (const IoError&) {  // without records, the summary ends the run
    }
    run_state = detail::state_of_run(tables, evidence ? &*evidence : nullptr);
    if (evidence && run_state == "running" && live_view(*evidence, {}).is_hung)
      verdict = detail::explanation_json(*evidence);
    const auto cost = Clock::now() - begin;
    next_look = Clock::now() + std::max<Clock::duration>(kBetweenStates, kCostFactor * cost);
  }

  std::string directory;
  Clock::time_point next_look = {};
  std::string run_state = "unknown";
  PageJson verdict = nullptr;  // null: no rank hangs
};

LiveReport::LiveReport(std::string directory) : state_(std::make_unique<State>(std::move(directory))) {}

LiveReport::~LiveReport() = default;

std::string LiveReport::page() {
  const detail::PageData made = state_->read();
  return detail::page_of(made.json.dump(-1, ' ', true, PageJson::error_handler_t::replace), made.timeline.base64,
                         !detail::part_at(made.json, "live").is_null());
}

std::string LiveReport::data() {
  detail::PageData made = state_->read();
  made.json["events"] = std::move(made.timeline.base64);
  return made.json.dump(-1, ' ', true, PageJson::error_handler_t::replace);
}

std::string LiveReport::update(std::string_view query) {
  const FileCursor losses_from = cursor_in(query, "loss");
  const FileCursor metrics_from = cursor_in(query, "metrics");
  state_->look();  // before the files: the steps of a run that ended are complete
  const Chunk losses = read_after(state_->directory + "/loss.csv", losses_from);
  const Chunk metrics = read_after(state_->directory + "/metrics.jsonl", metrics_from);
  RunTables tables;
  detail::parse_losses(losses.text, tables);
  detail::parse_metrics(metrics.text, tables);
  const double now = now_seconds();
  const double written = std::max(losses.written, metrics.written);
  PageJson json = {{"state", state_->run_state},
                   {"verdict", state_->verdict},
                   {"now", now},
                   {"age", written > 0 ? PageJson(std::max(now - written, 0.0)) : PageJson()},
                   {"is_replaced", losses.is_replaced || metrics.is_replaced},
                   {"has_more", losses.has_more || metrics.has_more},
                   {"cursor", {{"loss", text_of(losses.end)}, {"metrics", text_of(metrics.end)}}},
                   {"losses", losses_json(tables.losses)},
                   {"speeds", speeds_json(tables)},
                   {"owners", tables.owners},
                   {"memory", memory_rows(tables)}};
  return json.dump(-1, ' ', true, PageJson::error_handler_t::replace);
}

}  // namespace tessera::analysis
