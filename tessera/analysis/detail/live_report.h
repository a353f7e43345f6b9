// explain.json of a run directory, written by a rank or the launcher during a hang.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <utility>

namespace tessera::analysis::detail {

/// Returns the ranks that the report saw stopped by a signal or a debugger, each with its process id. Returns an empty
/// set if the report is missing or invalid.
std::set<std::pair<int, std::uint64_t>> ranks_seen_stopped(const std::string& directory);

}  // namespace tessera::analysis::detail
