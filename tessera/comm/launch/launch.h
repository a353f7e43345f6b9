// Spawns the ranks of one machine as processes and supervises them: `tessera run`. The launcher hosts their store, sets
// their environment variables, forwards their output line by line, forwards signals to them, and reports how each rank
// ended. If the launcher dies, the kernel kills its ranks.
//
//   rank       runs in a separate process group, so that signals also reach the processes it starts
//   stdin      is /dev/null; stdout and stderr are separate pipes to the launcher
//   run_dir    is the run directory, with launch.json: the command, the ranks, their processes and how they ended
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tessera/base/export.h"

namespace tessera::comm {

/// Action on the other ranks after one fails.
enum class OnFailure : std::uint8_t {
  kKill,    ///< sends SIGTERM to them, and SIGKILL after LaunchOptions::grace
  kKeep,    ///< lets them continue
  kShrink,  ///< lets them continue; the run succeeds if at least one of them succeeds
};

/// Options of a launch.
struct LaunchOptions {
  std::vector<std::string> command = {};     ///< program and arguments
  int ranks = 1;                             ///< number of processes
  OnFailure on_failure = OnFailure::kKill;   ///< action after a rank fails
  int restarts = 0;                          ///< how often all ranks are restarted after a failure
  std::string run_dir = {};                  ///< if empty: TESSERA_RUN_DIR, otherwise ./runs/TIME-PID
  std::string run_dir_option = "--run-dir";  ///< name of the option that sets run_dir, for errors
  bool shared = false;                       ///< group members may read the run directory
  bool pinned = false;     ///< binds each rank to separate adjacent cores, and sets TESSERA_THREADS if it is unset
  std::uint16_t port = 0;  ///< port of the store; 0: any free port
  std::chrono::nanoseconds grace = std::chrono::seconds(3);  ///< time from SIGTERM to SIGKILL
  /// Time without a heartbeat (docs/watchdog.md) before a rank is reported as stopped or stuck.
  std::chrono::nanoseconds patience = std::chrono::seconds(10);
  /// Called after a rank has failed. Returns a sentence about the cause, which is printed at the end; empty if the
  /// cause is unknown. By default it is not called.
  std::function<std::string(const std::string& run_dir)> verdict = {};
  int out = 1;  ///< descriptor for the stdout of the ranks
  int err = 2;  ///< descriptor for the stderr of the ranks and the messages of the launcher
};

/// The end of a rank's process.
struct RankEnd {
  int rank = 0;       ///< world rank
  int pid = 0;        ///< process id
  int exit_code = 0;  ///< exit code; 0 if a signal killed it
  int signal = 0;     ///< signal that killed it; 0 if it exited
  /// Returns true if the process exited with code 0.
  [[nodiscard]] bool is_good() const { return exit_code == 0 && signal == 0; }
};
/// Formats the end of a rank: "exited with 3", "was killed by signal 9 (Killed)".
TESSERA_API std::string to_string(const RankEnd& end);

/// The result of a launch.
struct LaunchReport {
  /// Exit code of the first failure (128 + signal if a signal killed the rank), or 0 if all ranks succeeded. With
  /// kShrink: 0 if a rank succeeded, otherwise the code of the last failure.
  int exit_code = 0;
  std::optional<RankEnd> first_failure = {};  ///< first failure since the last restart
  std::vector<RankEnd> ends = {};             ///< ends since the last restart, by rank
  int restarts = 0;                           ///< number of restarts
  std::string run_dir = {};                   ///< the run directory
};

/// Runs the ranks until all have ended. Forwards the signals INT, TERM, HUP, USR1 and USR2 of the calling thread to the
/// ranks, except those that the process ignores, which the ranks ignore too. A second INT or TERM kills the ranks. If
/// the reader of `out` or `err` closes it, the ranks get SIGTERM and the exit code is not 0; if the process ignores
/// SIGHUP, the run continues and the output is dropped. Call it from the main thread; no other thread may handle those
/// signals. Throws InvalidArgument if an option is invalid, and IoError if the program cannot be started, the port is
/// in use, or the run directory cannot be created or an active run has locked it. If launch.json cannot be written
/// later, the ranks continue, and the exit code is not 0. Records of killed ranks are moved into the run directory.
TESSERA_API LaunchReport launch(const LaunchOptions& options);

}  // namespace tessera::comm
