// The record files of a run directory: links to tmpfs or copies, named rank-N.HOST.PID.SERIAL.record. A run that was
// started again has several for a rank, and other programs may have left theirs; the last start's count. Ranks that
// went on without one that died write anew, as ranks of a smaller world; the last world's count.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/record/detail/launch_file.h"
#include "tessera/record/detail/process_state.h"

namespace tessera::record::detail {

/// A record file, as its name and header tell of it.
struct RunFile {
  std::string path = {};      ///< in the run directory
  int rank = 0;               ///< as its name says
  std::string host = {};      ///< likewise
  ProcessName process = {};   ///< that wrote it, as the header or the link's target says; pid 0: not known
  int world_size = 0;         ///< of the header; 0: there is none to be read
  std::int64_t began_ns = 0;  ///< the record, since 1970; of a file without a header when it was last changed
  std::string problem = {};   ///< why nothing of it can be read; empty: its header can
};

/// The files of the last start: at most one a rank, by rank. What `launch` says of it, if there is one, counts.
struct RunFiles {
  std::vector<RunFile> files = {};  ///< by rank
  int world_size = 0;               ///< as most of them say; 0: none does
  int larger_size = 0;           ///< ranks that were started, of which these are left; 0: this is the world they made
  bool is_after_launch = false;  ///< whether they began when what `launch` tells of was over
  bool has_any = false;          ///< whether there was any, of any start
};
/// Looks through a directory. Files that cannot be read at all are told in `problems`.
RunFiles find_run_files(const std::string& directory, const LaunchFile* launch, std::vector<std::string>& problems);
/// The file at this path, whatever its name; its rank is the header's. World size 0: there is no header to be read.
RunFile run_file_at(const std::string& path);

}  // namespace tessera::record::detail
