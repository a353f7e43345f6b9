// Making names durable. The sync of a file makes its bytes durable, but not its name: files that were made, renamed or
// removed in a directory survive a crash of the machine once the directory itself was synced.
#pragma once

#include <string>

#include "tessera/base/export.h"

namespace tessera {

/// Syncs a directory; an empty path is the current one. Throws IoError if that fails. File systems that cannot sync
/// directories (EINVAL, ENOTSUP) count as synced.
TESSERA_API void sync_directory(const std::string& path);

/// As sync_directory, but returns the error number, 0 if the directory was synced.
TESSERA_API int try_sync_directory(const std::string& path);

}  // namespace tessera
