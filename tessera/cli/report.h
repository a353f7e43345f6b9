// What verbs print: for people on a terminal (aligned, wrapped, headings in bold), for programs in a pipe (one line per
// row, cells separated by tabs, nothing wrapped or cut). The same calls make both.
#pragma once

#include <string>
#include <utility>
#include <vector>
#include <nlohmann/json_fwd.hpp>

namespace tessera::cli {

/// How to print.
struct Style {
  bool is_terminal = false;  ///< for people, else for programs
  std::size_t width = 0;     ///< columns of the terminal; 0: do not wrap
};

/// The style for stdout.
Style stdout_style();

/// Rows under headings.
struct Table {
  std::vector<std::string> headings;           ///< one per column
  std::vector<std::vector<std::string>> rows;  ///< as many cells each
};

/// Keys and values under a title.
struct Section {
  std::string title;                                         ///< one word
  std::vector<std::pair<std::string, std::string>> entries;  ///< in the order to show them
};

/// The table as text. In a pipe the first line is the headings.
std::string to_text(const Table& table, Style style);

/// The sections as text. In a pipe a line is "title.key<tab>value".
std::string to_text(const std::vector<Section>& sections, Style style);

/// Prints JSON; bytes that are not UTF-8 are replaced.
void print_json(const nlohmann::ordered_json& json);
/// Prints tables, an empty line between.
void print_tables(const std::vector<Table>& tables);

}  // namespace tessera::cli
