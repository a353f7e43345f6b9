// Records the end of a rank process: an uncaught exception, and an exit code other than 0. A process killed by a signal
// leaves a file that was never closed, which is sufficient.
#pragma once

#include <string>

namespace tessera::watch::detail {

/// Starts to record both. Call once; the rank of this process must have its recorder.
void watch_ends();
/// Sets the reason of failure if the rank of this process exits with a code other than 0. The first one counts.
void note_reason(const std::string& reason);
/// Records that the current rank failed. Never throws.
void save_failure(const std::string& reason) noexcept;

}  // namespace tessera::watch::detail
