// Output of a bench program: a table that grows row by row, and one JSON file per suite.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tessera/base/testing/bench.h"

namespace tessera::bench {

/// Returns the header line of the table.
std::string table_head();
std::string table_row(const BenchResult& result);

/// Returns names and values that describe this machine: cpu, cores, memory, os, compiler, build, gpu if present, date.
std::vector<std::pair<std::string, std::string>> describe_machine();

/// Returns the suite as JSON: {"suite", "machine": {...}, "results": [{"name", "value", "unit", "reference",
/// "reference_value", "ratio", ...}]}. Without a reference, its fields and the ratio are null.
std::string to_json(const std::string& suite, const std::vector<std::pair<std::string, std::string>>& machine,
                    const std::vector<BenchResult>& results);

/// Writes the file atomically through a temporary file. Creates the directory.
void write_file(const std::string& path, const std::string& text);

}  // namespace tessera::bench
