// Reads the groups of a rank from its record file: records of the comm ring and rows of the state tables
// (comm/records.h), assembled launch by launch. Fields are read by name, so that files of other versions are readable.
// Records are not trusted: invalid ones are ignored, and counted in a problem.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tessera/analysis/evidence.h"
#include "tessera/base/probe/reader.h"

namespace tessera::analysis::detail {

/// Returns the groups in the order of creation, each with at most its last `last_launches` launches.
std::vector<Group> read_groups(const probe::RecordFile& file, std::size_t last_launches,
                               std::vector<std::string>& problems);

/// Parses ranks as groups write them, "0-3,5"; empty if the text is invalid.
std::vector<int> parse_ranks(const std::string& text);

}  // namespace tessera::analysis::detail
