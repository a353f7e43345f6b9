// Durable names. The sync of a file makes its bytes durable, but not its name: a file that was created, renamed or
// removed survives a crash of the machine only after its directory was synced.
#pragma once

#include <string>

#include "tessera/base/export.h"

namespace tessera {

/// Syncs a directory; an empty path means the current one. Throws IoError on failure. File systems that cannot sync
/// directories (EINVAL, ENOTSUP) count as synced.
TESSERA_API void sync_directory(const std::string& path);

/// Syncs a directory like sync_directory(), but returns the error number; 0 if the directory was synced.
TESSERA_API int try_sync_directory(const std::string& path);

}  // namespace tessera
