// Reads a run directory into Evidence: launch.json and the record files of its ranks. Ranks may be running, hung or
// dead. Record files may be links to tmpfs or copies, and complete, truncated or corrupt. Unreadable data is listed in
// Evidence::problems and does not stop the reading.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "tessera/analysis/evidence.h"
#include "tessera/base/export.h"

namespace tessera::analysis {

/// Amount of data to read.
struct ReadOptions {
  /// Maximum number of launches per group and rank. Rarely used groups may yield fewer old launches, because not all
  /// records are examined.
  std::size_t last_launches = 4096;
  bool has_memory = true;  ///< Reads the memory of ranks.
  /// Nanoseconds since 1970, for a run that continued as a shrunk world at that time: earlier records are omitted, and
  /// the ranks are those of the shrunk world, even before they have records. 0: the last world with records.
  std::int64_t smaller_since_ns = 0;
};

/// Reads a run directory. Throws IoError, with the files it searched for, if the directory does not exist or holds no
/// files of a run.
TESSERA_API Evidence read_run(const std::string& directory, const ReadOptions& options = {});
/// Reads the record file of one rank: evidence of that rank alone, in the world that its header states. Throws IoError
/// if the file is not a record or cannot be read.
TESSERA_API Evidence read_record(const std::string& path, const ReadOptions& options = {});

}  // namespace tessera::analysis
