// What a run is doing at this moment, a row a rank, as lines for a terminal: the part of `tessera watch` that needs no
// terminal and no job. From Evidence (read_run.h) and the end of metrics.jsonl, where the trainer writes one; text that
// comes from files is made printable before it is shown.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/record/evidence.h"

namespace tessera::record {

/// The last step that a rank told of.
struct StepMetrics {
  std::int64_t step = 0;                            ///< its number
  std::optional<double> loss = {};                  ///< nothing: it was not finite, or not told
  std::optional<double> tokens_per_second = {};     ///< likewise
  std::optional<std::uint64_t> memory_nbytes = {};  ///< of all owners together
};
/// From the end of a metrics.jsonl, by rank: lines that are cut, spoilt or of something else are passed over.
TESSERA_API std::map<int, StepMetrics> parse_metrics(std::string_view tail);
/// From DIRECTORY/metrics.jsonl, of which only the end is read; empty where there is none.
TESSERA_API std::map<int, StepMetrics> read_metrics(const std::string& directory, int world_size);

/// How a rank does.
enum class Trouble : std::uint8_t {
  kNone,  ///< well, as far as can be seen
  kLate,  ///< an operation has been in flight for long
  kDown,  ///< it died, failed, was stopped, or left no record
};

/// A rank.
struct LiveRow {
  int rank = 0;                                     ///< in the world
  Trouble trouble = Trouble::kNone;                 ///< how it does
  std::string state = {};                           ///< "running", "died (signal 9)"
  std::optional<std::int64_t> step = {};            ///< it is in, or told of last
  std::optional<double> loss = {};                  ///< of the last step that it told of
  std::optional<double> tokens_per_second = {};     ///< likewise
  std::optional<double> launches_per_second = {};   ///< that ended since the view before
  std::uint64_t ended = 0;                          ///< launches so far, over all groups
  std::optional<std::uint64_t> memory_nbytes = {};  ///< in use, over all devices
  std::optional<std::int64_t> in_flight_ns = {};    ///< how long the operation below has been in flight
  std::string operation = {};                       ///< "world 17: all_reduce(f32[1024], sum), waits for others"
  std::string doing = {};                           ///< its label, or the innermost mark: "forward 2"
};

/// A run.
struct LiveView {
  std::string source = {};         ///< the directory
  std::int64_t taken_ns = 0;       ///< when, in nanoseconds since 1970
  std::vector<LiveRow> rows = {};  ///< by rank
  std::string summary = {};        ///< "4 ranks: 3 running, 1 died"
  bool is_hung = false;            ///< a rank is down while others run, or an operation has been in flight for long
  std::size_t problems = 0;        ///< that reading met
};

/// When an operation counts as late.
inline constexpr std::int64_t kHungAfterNs = 10'000'000'000;
/// What stands now; `before` is an earlier view of the same run, for rates.
TESSERA_API LiveView live_view(const Evidence& evidence, const std::map<int, StepMetrics>& metrics,
                               const LiveView* before = nullptr, std::int64_t hung_after_ns = kHungAfterNs);

/// A terminal.
struct Screen {
  std::size_t width = 80;   ///< columns
  std::size_t height = 24;  ///< lines; 0: as many as it takes
  std::size_t first = 0;    ///< rows or lines that were scrolled away
  bool has_colors = false;  ///< and bold
};

/// The headings of live_cells.
TESSERA_API std::vector<std::string> live_headings();
/// A row as text, as many cells as there are headings; "-" where nothing is known.
TESSERA_API std::vector<std::string> live_cells(const LiveRow& row);
/// The view as lines of at most the screen's width, at most as many as it has: a title, the table without columns of
/// which nothing is known, and `last` at the bottom. Ranks in trouble come first when not all have room.
TESSERA_API std::vector<std::string> live_lines(const LiveView& view, const std::string& last, const Screen& screen);
/// A text as lines of the same kind, wrapped, with `last` at the bottom.
TESSERA_API std::vector<std::string> page_lines(const std::string& text, const std::string& last, const Screen& screen);

/// The text with everything but printable ASCII replaced by '?': what a file says cannot move the cursor.
TESSERA_API std::string printable(std::string_view text);
/// "0.4 s", "12 s", "3 min 20 s", "2 h 5 min".
TESSERA_API std::string text_of_duration(std::int64_t nanoseconds);

}  // namespace tessera::record
