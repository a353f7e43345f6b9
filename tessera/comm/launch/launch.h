// Starts the ranks of one machine as processes and looks after them: `tessera run`. The launcher hosts the store they
// meet at, gives each rank its place by environment variables, passes their output on line by line, passes signals on
// to them, and says which rank ended of what. When it dies itself, however that happens, the kernel kills its ranks.
//
//   rank       a process group of its own, so that what it starts is signalled with it and ends with it
//   stdin      /dev/null;  stdout and stderr: pipes to the launcher, kept apart
//   run_dir    the run directory, with launch.json: the command, the ranks, their processes and how they ended
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tessera/base/export.h"

namespace tessera::comm {

/// What happens to the other ranks when one fails.
enum class OnFailure : std::uint8_t {
  kKill,    ///< they are told to end (SIGTERM), and killed after LaunchOptions::grace
  kKeep,    ///< they go on
  kShrink,  ///< they go on, and the run counts as good when one of them ends well: it went on without those that failed
};

/// What to start, and how.
struct LaunchOptions {
  std::vector<std::string> command = {};     ///< program and arguments
  int ranks = 1;                             ///< processes
  OnFailure on_failure = OnFailure::kKill;   ///< of a rank
  int restarts = 0;                          ///< how often all ranks are started again after a failure
  std::string run_dir = {};                  ///< empty: TESSERA_RUN_DIR, else ./runs/TIME-PID
  std::string run_dir_option = "--run-dir";  ///< how the user gives another, for errors
  bool shared = false;                       ///< group members may read the run directory
  bool pinned = false;     ///< each rank gets cores of its own, near each other, and TESSERA_THREADS unless that is set
  std::uint16_t port = 0;  ///< of the store; 0: one that is free
  std::chrono::nanoseconds grace = std::chrono::seconds(3);  ///< from SIGTERM to SIGKILL
  /// For how long the heartbeat of a rank (docs/watchdog.md) may stand still before that is told.
  std::chrono::nanoseconds patience = std::chrono::seconds(10);
  /// Asked for once a rank has failed: what went wrong in the run of this directory, in a sentence that is told at the
  /// end; empty: nothing is known. Not given: it is not asked for.
  std::function<std::string(const std::string& run_dir)> verdict = {};
  int out = 1;  ///< descriptor for what ranks write to stdout
  int err = 2;  ///< for stderr, and for what the launcher says
};

/// How a rank ended.
struct RankEnd {
  int rank = 0;       ///< which
  int pid = 0;        ///< its process
  int exit_code = 0;  ///< what it exited with; 0 when killed by a signal
  int signal = 0;     ///< what killed it; 0: it exited
  /// Whether it ended well.
  [[nodiscard]] bool is_good() const { return exit_code == 0 && signal == 0; }
};
/// "exited with 3", "was killed by signal 9 (Killed)".
TESSERA_API std::string to_string(const RankEnd& end);

/// How a run went.
struct LaunchReport {
  /// Of the first failure, 128 + signal where one killed it; 0: all went well. With kShrink: 0 when a rank ended well,
  /// else of the last failure.
  int exit_code = 0;
  std::optional<RankEnd> first_failure = {};  ///< of the last start
  std::vector<RankEnd> ends = {};             ///< of the last start, by rank
  int restarts = 0;                           ///< that were made
  std::string run_dir = {};                   ///< the run directory
};

/// Runs the ranks until they have ended. Signals INT, TERM, HUP, USR1 and USR2 that reach the calling thread meanwhile
/// go to the ranks, except those that the process ignores, which the ranks ignore too. A second INT or TERM kills the
/// ranks. If the reader of `out` or `err` closes it, the ranks get SIGTERM and the exit code is not 0; if the process
/// ignores SIGHUP, the run continues and the output is dropped. Call it from the main thread, with no other thread that
/// takes those signals. Throws InvalidArgument if an option is invalid, and IoError if the program cannot be started,
/// the port is in use, or the run directory cannot be made or an active run holds it. If launch.json cannot be written
/// later, the ranks continue, and the exit code is not 0. Records of ranks that were killed are moved into the run
/// directory.
TESSERA_API LaunchReport launch(const LaunchOptions& options);

}  // namespace tessera::comm
