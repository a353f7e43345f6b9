// How a process that is a rank ends, noted in its record: an exception that nobody caught, and an exit code that is not
// 0. What a signal ends leaves a file that was never closed, which says enough.
#pragma once

#include <string>

namespace tessera::watch::detail {

/// Notes both from now on. Once; the rank of this process has its recorder.
void watch_ends();
/// Why the rank of this process will have failed if it exits with a code that is not 0; the first counts.
void note_reason(const std::string& reason);
/// Notes in the record of the current rank that it failed. Never throws.
void save_failure(const std::string& reason) noexcept;

}  // namespace tessera::watch::detail
