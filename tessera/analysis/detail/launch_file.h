// launch.json of a run directory, written by tessera run (comm/launch): the processes of the last start, and their
// ends. The file is not trusted: missing and invalid values are ignored.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace tessera::analysis::detail {

/// End of a rank as the launcher saw it.
struct LaunchedEnd {
  int exit_code = 0;          ///< Exit code; 0 if killed by a signal.
  int signal = 0;             ///< Signal that killed it; 0 if it exited.
  std::string words = {};     ///< "was killed by signal 9 (Killed)"
  std::int64_t time_ns = 0;   ///< Since 1970, with a resolution of 1 s; 0 if unknown.
  std::string sent_for = {};  ///< Reason for which the launcher sent the signal that ended it; otherwise empty.
  bool is_assumed = false;    ///< The launcher died first, and the kernel then kills its ranks.
};
/// A rank of the last start.
struct LaunchedRank {
  std::uint64_t pid = 0;
  std::optional<LaunchedEnd> end = {};  ///< Unset if the launcher has not recorded an end.
};
/// The run, from its last start on.
struct LaunchFile {
  int ranks = 0;  ///< Number of started ranks.
  std::string host = {};
  std::int64_t started_ns = 0;  ///< Time of the last start, since 1970, with a resolution of 1 s; 0 if unknown.
  std::int64_t ended_ns = 0;    ///< End of the run; 0 if it is active.
  std::map<int, LaunchedRank> by_rank = {};  ///< Ranks with valid entries.
};

/// Maximum size of a world: a larger one indicates a corrupt file.
inline constexpr int kMaxRanks = 1 << 16;

/// Reads the file; nothing if it does not exist. Unreadable contents yield a line in `problems`, with the file.
std::optional<LaunchFile> read_launch_file(const std::string& path, std::vector<std::string>& problems);

}  // namespace tessera::analysis::detail
