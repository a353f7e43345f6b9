// Terminal lines: cells, columns, truncation and wrapping (live.h).
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "tessera/analysis/live.h"
#include "tessera/base/bytes.h"

namespace tessera::analysis {
namespace {

constexpr std::size_t kGap = 2;

std::string cut(const std::string& text, std::size_t width) {
  if (text.size() <= width) return text;
  return width < 4 ? text.substr(0, width) : text.substr(0, width - 3) + "...";
}

std::string coloured(const std::string& text, const char* code, const Screen& screen) {
  return screen.has_colors && !text.empty() ? fmt::format("\033[{}m{}\033[0m", code, text) : text;
}

const char* code_of(RankCondition failure) {
  switch (failure) {
    case RankCondition::kDown: return "31";
    case RankCondition::kLate: return "33";
    case RankCondition::kNone: break;
  }
  return "0";
}

std::string text_of_rate(const LiveRow& row) {
  const auto shown = [](double value, const char* what) {
    if (value >= 1e6) return fmt::format("{:.2f}M {}", value / 1e6, what);
    if (value >= 1e4) return fmt::format("{:.1f}k {}", value / 1e3, what);
    return fmt::format("{:.0f} {}", value, what);
  };
  if (row.tokens_per_second) return shown(*row.tokens_per_second, "tok/s");
  return row.launches_per_second ? shown(*row.launches_per_second, "ops/s") : "-";
}

std::string clock_text(std::int64_t wall_ns) {
  return fmt::format("{:%H:%M:%S} UTC", fmt::gmtime(static_cast<std::time_t>(wall_ns / 1'000'000'000)));
}

struct Columns {
  std::vector<std::vector<std::string>> rows;  // the first row holds headings
  std::vector<std::size_t> widths;             // 0: unknown values, and the column is not shown
};

Columns columns_of(const LiveView& view, const std::vector<const LiveRow*>& rows) {
  Columns columns;
  columns.rows.push_back(live_headings());
  for (const std::string& heading : columns.rows[0]) columns.widths.push_back(heading.size());
  // By all rows, so that columns keep their positions when the visible rows change.
  std::vector<bool> is_known(columns.widths.size(), view.rows.empty());
  is_known.back() = true;
  for (const LiveRow& row : view.rows) {
    const std::vector<std::string> cells = live_cells(row);
    for (std::size_t i = 0; i < cells.size(); ++i) {
      is_known[i] = is_known[i] || cells[i] != "-";
      columns.widths[i] = std::max(columns.widths[i], cells[i].size());
    }
  }
  for (std::size_t i = 0; i < is_known.size(); ++i) {
    if (!is_known[i]) columns.widths[i] = 0;
  }
  for (const LiveRow* row : rows) columns.rows.push_back(live_cells(*row));
  return columns;
}

std::string line_of(const Columns& columns, std::size_t index) {
  std::string line;
  const auto& cells = columns.rows[index];
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (columns.widths[i] == 0) continue;
    line += i + 1 == cells.size() ? cells[i] : fmt::format("{:<{}}", cells[i], columns.widths[i] + kGap);
  }
  return line;
}

void wrap(std::vector<std::string>& lines, const std::string& text, std::size_t width) {
  std::string rest = printable(text);
  while (rest.size() > width) {
    const std::size_t space = rest.rfind(' ', width);
    const bool is_word_end = space != std::string::npos && space > 0;
    lines.push_back(rest.substr(0, is_word_end ? space : width));
    rest.erase(0, is_word_end ? space + 1 : width);
  }
  lines.push_back(rest);
}

}  // namespace

std::string printable(std::string_view text) {
  std::string shown(text);
  for (char& letter : shown) {
    if (letter < 0x20 || letter >= 0x7f) letter = '?';
  }
  return shown;
}

std::string text_of_duration(std::int64_t nanoseconds) {
  const std::int64_t ms = std::max<std::int64_t>(nanoseconds, 0) / 1'000'000;
  const std::int64_t seconds = ms / 1000;
  if (seconds < 10) return fmt::format("{}.{} s", seconds, ms % 1000 / 100);
  if (seconds < 60) return fmt::format("{} s", seconds);
  if (seconds < 3600) return fmt::format("{} min {} s", seconds / 60, seconds % 60);
  return fmt::format("{} h {} min", seconds / 3600, seconds % 3600 / 60);
}

std::vector<std::string> live_headings() {
  return {"RANK", "STATE", "STEP", "LOSS", "RATE", "MEMORY", "FOR", "IN FLIGHT"};
}

std::vector<std::string> live_cells(const LiveRow& row) {
  std::string operation = row.operation.empty() ? "-" : row.operation;
  if (!row.doing.empty()) operation += " in " + row.doing;
  return {std::to_string(row.rank),
          row.state,
          row.step ? std::to_string(*row.step) : "-",
          row.loss ? fmt::format("{:.4f}", *row.loss) : "-",
          text_of_rate(row),
          row.memory_nbytes ? format_bytes(*row.memory_nbytes) : "-",
          row.in_flight_ns ? text_of_duration(*row.in_flight_ns) : "-",
          printable(operation)};
}

std::vector<std::string> live_lines(const LiveView& view, const std::string& last, const Screen& screen) {
  std::vector<const LiveRow*> rows;
  for (const LiveRow& row : view.rows) rows.push_back(&row);
  const std::size_t around = 4;  // title, headings, an empty line (or the number of shown rows), the last line
  const bool is_short = screen.height != 0 && rows.size() + around > screen.height;
  std::size_t room = rows.size();
  if (is_short) {
    room = screen.height > around ? screen.height - around : 0;
    std::stable_sort(rows.begin(), rows.end(),
                     [](const LiveRow* a, const LiveRow* b) { return a->failure > b->failure; });
    const std::size_t first = std::min(screen.first, rows.size() - room);
    rows = {rows.begin() + static_cast<std::ptrdiff_t>(first),
            rows.begin() + static_cast<std::ptrdiff_t>(first + room)};
  }
  const Columns columns = columns_of(view, rows);
  std::string title = printable(view.source) + "  " + view.summary + "  " + clock_text(view.taken_ns);
  if (view.problems > 0) title += fmt::format("  {} incomplete or unreadable files", view.problems);
  std::vector<std::string> lines = {coloured(cut(title, screen.width), "1", screen),
                                    coloured(cut(line_of(columns, 0), screen.width), "1", screen)};
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::string line = cut(line_of(columns, i + 1), screen.width);
    lines.push_back(rows[i]->failure == RankCondition::kNone ? line
                                                             : coloured(line, code_of(rows[i]->failure), screen));
  }
  lines.push_back(
      is_short ? cut(fmt::format("{} of {} ranks, failures first; j and k scroll", rows.size(), view.rows.size()),
                     screen.width)
               : "");
  lines.push_back(cut(printable(last), screen.width));
  if (screen.height != 0 && lines.size() > screen.height) {  // a tiny screen: the last line is the most important
    lines.erase(lines.begin(), lines.end() - static_cast<std::ptrdiff_t>(screen.height));
  }
  return lines;
}

std::vector<std::string> page_lines(const std::string& text, const std::string& last, const Screen& screen) {
  std::vector<std::string> wrapped;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) wrap(wrapped, line, std::max<std::size_t>(screen.width, 1));
  const std::size_t room =
      screen.height == 0 ? wrapped.size() : screen.height - std::min<std::size_t>(screen.height, 1);
  const std::size_t first = std::min(screen.first, wrapped.size() - std::min(wrapped.size(), room));
  const std::size_t shown = std::min(room, wrapped.size() - first);
  std::vector<std::string> lines(wrapped.begin() + static_cast<std::ptrdiff_t>(first),
                                 wrapped.begin() + static_cast<std::ptrdiff_t>(first + shown));
  lines.push_back(cut(printable(last), screen.width));
  return lines;
}

}  // namespace tessera::analysis
