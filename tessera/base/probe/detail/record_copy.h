// Copies of record files in run directories. A copy appears atomically: it is written to a temporary file, synced and
// renamed to the path, where it replaces the link.
#pragma once

#include <cstdint>
#include <string>

namespace tessera::probe::detail {

/// Copies a record file to `path` in a run directory. `from` is a descriptor of the record, which its process may still
/// be writing. Returns 0 or an errno. On an error nothing has changed, with one exception: if the sync of the directory
/// fails, the copy is in place, but may not survive a crash.
int copy_record(int from, std::uint64_t nbytes, const std::string& path);

}  // namespace tessera::probe::detail
