// launch.json of a run directory, as tessera run leaves it (comm/launch): which processes were started last, and how
// those ended that have. Read without trust: what is not there, or makes no sense, is left out.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace tessera::record::detail {

/// How the launcher saw a rank end.
struct LaunchedEnd {
  int exit_code = 0;          ///< what it exited with; 0 when killed by a signal
  int signal = 0;             ///< that killed it; 0: it exited
  std::string words = {};     ///< "was killed by signal 9 (Killed)"
  std::int64_t time_ns = 0;   ///< since 1970, to a second; 0: not known
  std::string sent_for = {};  ///< reason for which the launcher sent the signal that ended it; empty: it did not
  bool is_assumed = false;    ///< the launcher died first, and the kernel then kills its ranks
};
/// A rank of the last start.
struct LaunchedRank {
  std::uint64_t pid = 0;                ///< its process
  std::optional<LaunchedEnd> end = {};  ///< nothing: it has not ended, as far as the launcher wrote
};
/// The run, from its last start on.
struct LaunchFile {
  int ranks = 0;                             ///< that were started
  std::string host = {};                     ///< where
  std::int64_t started_ns = 0;               ///< the last start, since 1970, to a second; 0: not known
  std::int64_t ended_ns = 0;                 ///< of the run; 0: it goes on
  std::map<int, LaunchedRank> by_rank = {};  ///< those that make sense
};

/// The most ranks a world is taken to have: more is a file that is spoilt.
inline constexpr int kMostRanks = 1 << 16;

/// Reads it; nothing when there is no such file. What cannot be read is a line of `problems`, naming the file.
std::optional<LaunchFile> read_launch_file(const std::string& path, std::vector<std::string>& problems);

}  // namespace tessera::record::detail
