// The current state of a run as terminal lines, one row per rank: the part of `tessera watch` that needs no terminal.
// It uses Evidence (read_run.h) and the end of metrics.jsonl, if the trainer writes one. Text from files is made
// printable before it is shown.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/analysis/evidence.h"
#include "tessera/base/export.h"

namespace tessera::analysis {

/// Last step that a rank reported.
struct StepMetrics {
  std::int64_t step = 0;                            ///< Number of the step.
  std::optional<double> loss = {};                  ///< Unset if not finite or not reported.
  std::optional<double> tokens_per_second = {};     ///< Unset if not finite or not reported.
  std::optional<std::uint64_t> memory_nbytes = {};  ///< Bytes of all owners together.
};
/// Parses the end of a metrics.jsonl, by rank. Skips lines that are truncated, corrupt or of another kind.
TESSERA_API std::map<int, StepMetrics> parse_metrics(std::string_view tail);
/// Reads the end of DIRECTORY/metrics.jsonl. Empty if no such file exists.
TESSERA_API std::map<int, StepMetrics> read_metrics(const std::string& directory, int world_size);

/// Condition of a rank.
enum class RankCondition : std::uint8_t {
  kNone,  ///< No visible fault.
  kLate,  ///< An operation has been in flight for long.
  kDown,  ///< The rank died, failed, was stopped, or left no record.
};

/// One rank of a view.
struct LiveRow {
  int rank = 0;                                     ///< World rank.
  RankCondition failure = RankCondition::kNone;     ///< Condition of the rank.
  std::string state = {};                           ///< "running", "died (signal 9)"
  std::optional<std::int64_t> step = {};            ///< Current step, or the last reported one.
  std::optional<double> loss = {};                  ///< Loss of the last reported step.
  std::optional<double> tokens_per_second = {};     ///< Rate of the last reported step.
  std::optional<double> launches_per_second = {};   ///< Launches ended since the previous view, per second.
  std::uint64_t ended = 0;                          ///< Launches ended so far, over all groups.
  std::optional<std::uint64_t> memory_nbytes = {};  ///< Bytes in use, over all devices.
  std::optional<std::int64_t> in_flight_ns = {};    ///< Time for which `operation` has been in flight.
  std::string operation = {};                       ///< "world 17: all_reduce(f32[1024], sum), waits for others"
  std::string doing = {};  ///< Label of the operation, or the innermost annotation: "forward 2".
};

/// View of a run.
struct LiveView {
  std::string source = {};         ///< Run directory.
  std::int64_t taken_ns = 0;       ///< Time of the view, in nanoseconds since 1970.
  std::vector<LiveRow> rows = {};  ///< Rows by rank.
  std::string summary = {};        ///< "4 ranks: 3 running, 1 died"
  bool is_hung = false;            ///< A rank is down while others run, or an operation has been in flight for long.
  std::size_t problems = 0;        ///< Problems found while reading.
};

/// Time in flight after which an operation counts as late.
inline constexpr std::int64_t kHungAfterNs = 10'000'000'000;
/// Returns the current view. `before` is an earlier view of the same run, from which rates are computed.
TESSERA_API LiveView live_view(const Evidence& evidence, const std::map<int, StepMetrics>& metrics,
                               const LiveView* before = nullptr, std::int64_t hung_after_ns = kHungAfterNs);

/// Size and state of a terminal.
struct Screen {
  std::size_t width = 80;   ///< Columns.
  std::size_t height = 24;  ///< Lines; 0: unlimited.
  std::size_t first = 0;    ///< Rows or lines scrolled away.
  bool has_colors = false;  ///< Enables colors and bold text.
};

/// Returns the headings of live_cells().
TESSERA_API std::vector<std::string> live_headings();
/// Returns a row as text, one cell per heading; "-" for unknown values.
TESSERA_API std::vector<std::string> live_cells(const LiveRow& row);
/// Returns the view as lines that fit the screen: a title, the table without columns of unknown values, and `last` at
/// the bottom. If not all ranks fit, ranks with a fault come first.
TESSERA_API std::vector<std::string> live_lines(const LiveView& view, const std::string& last, const Screen& screen);
/// Wraps a text into lines that fit the screen, with `last` at the bottom.
TESSERA_API std::vector<std::string> page_lines(const std::string& text, const std::string& last, const Screen& screen);

/// Replaces everything but printable ASCII by '?', so that file contents cannot move the cursor.
TESSERA_API std::string printable(std::string_view text);
/// Returns "0.4 s", "12 s", "3 min 20 s" or "2 h 5 min".
TESSERA_API std::string text_of_duration(std::int64_t nanoseconds);

}  // namespace tessera::analysis
