// Reads a run directory into Evidence: the record files of its ranks (of processes that run, hang or are gone; links to
// tmpfs or copies; whole, cut short or spoilt) and launch.json. What cannot be read is told in Evidence::problems and
// never stops the rest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "tessera/base/export.h"
#include "tessera/record/evidence.h"

namespace tessera::record {

/// How much of it to read.
struct ReadOptions {
  /// Of each group and rank, at most; of old ones of groups that seldom do something fewer than there are, since not
  /// all records are looked at.
  std::size_t last_launches = 4096;
  bool has_memory = true;  ///< whether the memory of ranks is looked at
  /// Nanoseconds since 1970: of a run that went on as a smaller world then, what began before is left out, and ranks
  /// are those of that world. 0: as the run was started.
  std::int64_t smaller_since_ns = 0;
};

/// Reads it. IoError: there is no such directory, or nothing in it that a run leaves behind; its words say what
/// was looked for.
TESSERA_API Evidence read_run(const std::string& directory, const ReadOptions& options = {});
/// Reads the record of one rank, wherever it is: evidence of that rank alone, in the world that its header says.
/// IoError: it is no record, or cannot be read.
TESSERA_API Evidence read_record(const std::string& path, const ReadOptions& options = {});

}  // namespace tessera::record
