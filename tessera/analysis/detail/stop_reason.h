// Reads from summary.json why the trainer stopped a run whose ranks all worked.
#pragma once

#include <cstdint>
#include <string>

namespace tessera::analysis::detail {

/// Returns the reason for which the trainer of this run stopped: "step 12: loss nan, ...". Returns an empty string if
/// the run did not end that way, or if the file is missing, invalid or older than `since_ns`, when the ranks started.
std::string stop_reason(const std::string& directory, std::int64_t since_ns);

}  // namespace tessera::analysis::detail
