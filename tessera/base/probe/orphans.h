// Record files on tmpfs and their owners. A killed process leaves its record there. If the process had a run directory,
// the record belongs in it: adopt_records() copies it there and frees the memory. remove_orphans() removes records that
// no run directory wants.
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
  std::string run_path = {};        ///< the file in the run directory of the writer that links to it; empty: none
};

/// The record files in a directory (empty: /dev/shm), by path. Throws IoError if it cannot be listed.
TESSERA_API std::vector<FoundRecord> list_records(const std::string& directory = {});

/// Result of adopt_records() and adopt_links().
struct AdoptedRecords {
  std::vector<std::string> moved;     ///< records that are now in the run directory, by their path there
  std::vector<std::string> problems;  ///< one line for each record that could not be moved
};

/// Moves the records of ended processes of this user into their run directory: links in `run_dir` become copies, a copy
/// that a process made before it was killed is replaced by its last state, and the originals are removed. Each copy
/// appears whole or not at all. Several processes may call it at the same time.
TESSERA_API AdoptedRecords adopt_records(const std::string& run_dir);
/// Moves only the records that a link in `run_dir` names. Also finds them after the directory was renamed.
TESSERA_API AdoptedRecords adopt_links(const std::string& run_dir);

/// Moves the records of ended processes of this user in `directory` (empty: /dev/shm) into the run directories that
/// want them, whichever these are. A record that another process is moving is left to it.
TESSERA_API AdoptedRecords adopt_orphans(const std::string& directory = {});

/// Result of remove_orphans().
struct RemovedOrphans {
  std::vector<FoundRecord> removed = {};   ///< these are gone
  std::vector<FoundRecord> moved = {};     ///< these are now at their run_path
  std::vector<FoundRecord> kept = {};      ///< their run directory is gone or was renamed, and may link to them
  std::vector<std::string> problems = {};  ///< one line for each that could not be removed or moved
};

/// Frees the files of list_records() whose process is gone. A record that a run directory links to is moved into the
/// run directory, as adopt_records() does. A record whose run directory cannot be found is kept, unless `removes_lost`.
TESSERA_API RemovedOrphans remove_orphans(const std::string& directory = {}, bool removes_lost = false);

}  // namespace tessera::probe
