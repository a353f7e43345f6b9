// Record files on tmpfs and whether anybody still writes them. A killed process leaves its file, which is the point;
// once it has been read it may go.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/base/export.h"

namespace tessera::probe {

/// Whether a record file has a writer.
enum class Liveness {
  kAlive,    ///< its process runs
  kOrphan,   ///< its process is gone
  kUnknown,  ///< its process lives, or lived, in another pid namespace (a container): cannot be told from here
};

/// A record file found on tmpfs.
struct FoundRecord {
  std::string path;                 ///< of the file
  std::uint64_t pid = 0;            ///< of the writer
  std::uint64_t process_start = 0;  ///< its start, in clock ticks since boot: tells it from a later process of that pid
  int rank = 0;                     ///< of the writer
  std::uint64_t nbytes = 0;         ///< taken on tmpfs
  Liveness liveness = {};           ///< whether it still runs
};

/// The record files in a directory (empty: /dev/shm), by path. Throws IoError if it cannot be listed.
TESSERA_API std::vector<FoundRecord> list_records(const std::string& directory = {});

/// What remove_orphans() did.
struct RemovedOrphans {
  std::vector<FoundRecord> removed;   ///< these are gone
  std::vector<std::string> problems;  ///< one line for each that could not be removed
};

/// Removes the files of list_records() whose process is gone, and no others.
TESSERA_API RemovedOrphans remove_orphans(const std::string& directory = {});

}  // namespace tessera::probe
