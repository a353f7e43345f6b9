// What a bench program prints and writes: a table that grows row by row, and one JSON file for a suite.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tessera/base/testing/bench.h"

namespace tessera::bench {

/// The line above the rows of a table.
std::string table_head();
/// One row of the table.
std::string table_row(const Result& result);

/// Name and value of what is known about this machine: cpu, cores, memory, os, compiler, build, gpu where there is one,
/// date.
std::vector<std::pair<std::string, std::string>> describe_machine();

/// The suite as JSON text: {"suite", "machine": {...}, "results": [{"name", "value", "unit", "reference",
/// "reference_value", "ratio", ...}]}. Where there is no reference, its fields and the ratio are null.
std::string to_json(const std::string& suite, const std::vector<std::pair<std::string, std::string>>& machine,
                    const std::vector<Result>& results);

/// Writes beside the file and renames, so that a reader never sees half of it. Makes the folder.
void write_file(const std::string& path, const std::string& text);

}  // namespace tessera::bench
