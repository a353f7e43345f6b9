#include "tessera/cli/table.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <sstream>
#include <nlohmann/json.hpp>

namespace tessera::cli {
namespace {

constexpr std::size_t kGap = 2;
constexpr std::size_t kMinWrap = 24;  // narrower columns are harder to read than long lines

std::string bold(const std::string& text) { return "\033[1m" + text + "\033[0m"; }

// A cell in a pipe must not contain the separators of cells and rows.
std::string one_line(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char letter) { return letter == '\t' || letter == '\n'; }, ' ');
  return text;
}

std::vector<std::string> wrapped(const std::string& text, std::size_t width) {
  std::vector<std::string> lines(1);
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (!lines.back().empty() && lines.back().size() + 1 + word.size() > width) lines.emplace_back();
    if (!lines.back().empty()) lines.back() += ' ';
    lines.back() += word;
  }
  return lines;
}

// Appends the last cell, which starts at `indent` and is wrapped there.
void put_last(std::string& out, const std::string& cell, std::size_t indent, Style style) {
  if (style.width < indent + kMinWrap) {
    out += cell + "\n";
    return;
  }
  bool first = true;
  for (const std::string& line : wrapped(cell, style.width - indent)) {
    if (!first) out += std::string(indent, ' ');
    first = false;
    out += line + "\n";
  }
}

std::string joined_by_tabs(const std::vector<std::string>& cells) {
  std::string line;
  for (const std::string& cell : cells) line += (line.empty() && &cell == &cells.front() ? "" : "\t") + one_line(cell);
  return line + "\n";
}

}  // namespace

Style stdout_style() {
  Style style;
  style.is_terminal = ::isatty(STDOUT_FILENO) == 1;
  winsize size = {};
  if (style.is_terminal && ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0) style.width = size.ws_col;
  return style;
}

std::string to_text(const Table& table, Style style) {
  std::string out;
  if (!style.is_terminal) {
    out += joined_by_tabs(table.headings);
    for (const auto& row : table.rows) out += joined_by_tabs(row);
    return out;
  }
  const std::size_t last = table.headings.size() - 1;
  std::vector<std::size_t> widths;
  for (std::size_t i = 0; i <= last; ++i) {
    widths.push_back(table.headings[i].size());
    for (const auto& row : table.rows) widths[i] = std::max(widths[i], row[i].size());
  }
  std::size_t indent = 0;
  for (std::size_t i = 0; i < last; ++i) indent += widths[i] + kGap;
  std::string heading;
  for (std::size_t i = 0; i < last; ++i) heading += fmt::format("{:<{}}", table.headings[i], widths[i] + kGap);
  out += bold(heading + table.headings[last]) + "\n";
  for (const auto& row : table.rows) {
    for (std::size_t i = 0; i < last; ++i) out += fmt::format("{:<{}}", row[i], widths[i] + kGap);
    put_last(out, row[last], indent, style);
  }
  return out;
}

std::string to_text(const std::vector<PrintedSection>& sections, Style style) {
  std::string out;
  for (const PrintedSection& section : sections) {
    std::size_t widest = 0;
    for (const auto& [key, value] : section.entries) widest = std::max(widest, key.size());
    if (style.is_terminal) out += (out.empty() ? "" : "\n") + bold(section.title) + "\n";
    for (const auto& [key, value] : section.entries) {
      if (style.is_terminal) {
        out += fmt::format("  {:<{}}", key, widest + kGap);
        put_last(out, value, widest + kGap + 2, style);
      } else {
        out += joined_by_tabs({section.title + "." + key, value});
      }
    }
  }
  return out;
}

void print_json(const nlohmann::ordered_json& json) {
  std::puts(json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace).c_str());
}

void print_tables(const std::vector<Table>& tables) {
  const Style style = stdout_style();
  for (std::size_t i = 0; i < tables.size(); ++i)
    std::fputs(((i > 0 ? "\n" : "") + to_text(tables[i], style)).c_str(), stdout);
}

}  // namespace tessera::cli
