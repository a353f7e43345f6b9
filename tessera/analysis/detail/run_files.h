// The record files of a run directory: links to tmpfs or copies, named rank-N.HOST.PID.SERIAL.record. A restarted run
// has several per rank, and other programs may have left files; those of the last start count. Survivors of a lost rank
// write new files, as ranks of a shrunk world; those of the last world count.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/analysis/detail/launch_file.h"
#include "tessera/analysis/detail/process_state.h"

namespace tessera::analysis::detail {

/// A record file, described by its name and header.
struct RunFile {
  std::string path = {};      ///< Path in the run directory.
  int rank = 0;               ///< Rank in the name.
  std::string host = {};      ///< Host in the name.
  ProcessName process = {};   ///< Writer, from the header or the link target; pid 0 if unknown.
  int world_size = 0;         ///< World size in the header; 0 if unreadable.
  std::int64_t began_ns = 0;  ///< Start of the record, since 1970; without a header, the modification time.
  std::string problem = {};   ///< Reason if nothing is readable; empty if the header is.
};

/// Files of the last start: at most one per rank. The contents of `launch`, if it exists, take precedence.
struct RunFiles {
  std::vector<RunFile> files = {};  ///< Files by rank.
  int world_size = 0;               ///< Size that most of them state; 0 if none does.
  int larger_size = 0;              ///< Size of the original world of these survivors; 0 if this is the original world.
  bool is_after_launch = false;     ///< True if they began after the runs in `launch` were over.
  bool has_any = false;             ///< True if there was any file, of any start.
};
/// Scans a directory. Unreadable files are added to `problems`.
RunFiles find_run_files(const std::string& directory, const LaunchFile* launch, std::vector<std::string>& problems);
/// Returns the file at this path, with any name and the rank of the header. World size 0: the header is unreadable.
RunFile run_file_at(const std::string& path);

}  // namespace tessera::analysis::detail
