// Output of commands. On a terminal it is human-readable (aligned, wrapped, bold headings); in a pipe it is
// machine-readable (one line per row, cells separated by tabs, no wrapping). The same calls produce both.
#pragma once

#include <string>
#include <utility>
#include <vector>
#include <nlohmann/json_fwd.hpp>

namespace tessera::cli {

/// Output style.
struct Style {
  bool is_terminal = false;  ///< human-readable, otherwise machine-readable
  std::size_t width = 0;     ///< columns of the terminal; 0: no wrapping
};

/// Returns the style for stdout.
Style stdout_style();

/// Rows under headings.
struct Table {
  std::vector<std::string> headings;           ///< one per column
  std::vector<std::vector<std::string>> rows;  ///< one cell per column each
};

/// Keys and values with a title.
struct PrintedSection {
  std::string title;                                         ///< one word
  std::vector<std::pair<std::string, std::string>> entries;  ///< in display order
};

/// Formats the table. In a pipe, the first line holds the headings.
std::string to_text(const Table& table, Style style);

/// Formats the sections. In a pipe, each line is "title.key<tab>value".
std::string to_text(const std::vector<PrintedSection>& sections, Style style);

/// Prints JSON. Replaces bytes that are not UTF-8.
void print_json(const nlohmann::ordered_json& json);
/// Prints tables, separated by empty lines.
void print_tables(const std::vector<Table>& tables);

}  // namespace tessera::cli
