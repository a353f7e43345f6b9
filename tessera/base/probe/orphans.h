// Orphaned record files on tmpfs. A killed process leaves its record there. If the process had
// a run directory, adopt_records() moves the record into it and frees the memory.
// remove_orphans() removes records that belong to no run directory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/base/export.h"

namespace tessera::probe {

/// State of the writer of a record file.
enum class Liveness {
  kAlive,    ///< The process is running.
  kOrphan,   ///< The process has ended.
  kUnknown,  ///< The process is, or was, in another pid namespace (a container): unknown from here.
};

/// A record file found on tmpfs.
struct FoundRecord {
  std::string path;       ///< Path of the file.
  std::uint64_t pid = 0;  ///< Process id of the writer.
  /// Start of the writer in clock ticks since boot. Distinguishes it from a later process with the same pid.
  std::uint64_t process_start = 0;
  int rank = 0;              ///< Rank of the writer.
  std::uint64_t nbytes = 0;  ///< Bytes used on tmpfs.
  Liveness liveness = {};    ///< State of the writer.
  /// File in the run directory of the writer that links to the record. Empty if no link exists.
  std::string run_path = {};
};

/// Returns the record files in a directory (empty: /dev/shm), sorted by path. Throws IoError if it cannot be listed.
TESSERA_API std::vector<FoundRecord> list_records(const std::string& directory = {});

/// Result of adopt_records() and adopt_links().
struct AdoptedRecords {
  std::vector<std::string> moved;     ///< Paths in the run directory of the records that were moved there.
  std::vector<std::string> problems;  ///< One line for each record that could not be moved.
};

/// Moves the records of ended processes of this user into their run directory: links in `run_dir` become copies, the
/// last state of a record replaces a copy that its process made before it was killed, and the originals are removed.
/// Each copy appears atomically. Several processes may call it at the same time.
TESSERA_API AdoptedRecords adopt_records(const std::string& run_dir);
/// Moves only the records that a link in `run_dir` names. Also finds them after the directory was renamed.
TESSERA_API AdoptedRecords adopt_links(const std::string& run_dir);

/// Moves the records of ended processes of this user in `directory` (empty: /dev/shm) into their run directories. Skips
/// a record that another process is moving.
TESSERA_API AdoptedRecords adopt_orphans(const std::string& directory = {});

/// Result of remove_orphans().
struct RemovedOrphans {
  std::vector<FoundRecord> removed = {};  ///< Records that were removed.
  std::vector<FoundRecord> moved = {};    ///< Records that were moved to their run_path.
  /// Records whose run directory was removed or renamed, and may link to them.
  std::vector<FoundRecord> kept = {};
  std::vector<std::string> problems = {};  ///< One line for each record that could not be removed or moved.
};

/// Frees the files of list_records() whose process has ended. A record that a run directory links to is moved into the
/// run directory, as by adopt_records(). A record whose run directory cannot be found is kept, unless `removes_lost`.
TESSERA_API RemovedOrphans remove_orphans(const std::string& directory = {}, bool removes_lost = false);

}  // namespace tessera::probe
