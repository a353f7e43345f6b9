// What a record file tells of the groups of its rank: records of the comm ring and rows of the state tables
// (comm/records.h), put together launch by launch. Fields are read by name, so that files of other versions are read as
// far as they go. Records are not believed: what cannot be is left out, and counted in a problem.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tessera/base/probe/reader.h"
#include "tessera/record/evidence.h"

namespace tessera::record::detail {

/// The groups, in the order they were made. Of each at most its last `last_launches` launches.
std::vector<Group> read_groups(const probe::RecordFile& file, std::size_t last_launches,
                               std::vector<std::string>& problems);

/// The ranks of a text as groups write it, "0-3,5"; empty: it is no such text.
std::vector<int> parse_ranks(const std::string& text);

}  // namespace tessera::record::detail
