// Copies of record files in run directories. A copy appears whole or not at all: it is written to a temporary file,
// synced and renamed over the path, which replaces the link that was there.
#pragma once

#include <cstdint>
#include <string>

namespace tessera::probe::detail {

/// Copies a record file to `path`, in a run directory. `from` is a descriptor of the record, which its process may
/// still be writing. Returns 0 or an errno. On an error nothing has changed, with one exception: if the sync of the
/// directory fails, the copy is in its place, but may not survive a crash.
int copy_record(int from, std::uint64_t nbytes, const std::string& path);

}  // namespace tessera::probe::detail
