// The default run directory of commands.
#pragma once

#include <string>

namespace tessera::cli {

/// Returns the newest run directory under ./runs and names it on stderr. Throws IoError if ./runs has no run directory.
std::string newest_run();
/// Returns `given`, or newest_run() if it is empty.
inline std::string run_or_newest(const std::string& given) { return given.empty() ? newest_run() : given; }

}  // namespace tessera::cli
