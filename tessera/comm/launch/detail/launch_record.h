// launch.json of a run directory: what was started, as which processes, and how each ended. Written anew as a whole
// when something happens, so that it is true at any moment and whole after any crash.
//
//   {"command": [...], "ranks": 4, "host": "node7", "launcher_pid": 41, "directory": "/work", "started":
//   "2026-...Z",
//    "store": "tcp://127.0.0.1:40311", "exit_code": 137, "ended": "...",
//    "starts": [{"time": "...", "ranks": [{"rank": 0, "pid": 42, "end": "was killed by signal 9 (Killed)",
//                                          "exit_code": 0, "signal": 9, "time": "..."}, ...]}]}
//
// A rank that runs has no "end"; a run that goes on has no "exit_code".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tessera/comm/launch/launch.h"

namespace tessera::comm::detail {

/// The record of one run. Not thread-safe.
class LaunchRecord {
 public:
  /// Makes the run directory, as the options or the environment name it. IoError when it cannot be, or is that of a run
  /// that goes on.
  explicit LaunchRecord(const LaunchOptions& options);
  /// The run directory, from the root.
  [[nodiscard]] const std::string& directory() const { return directory_; }

  /// Ranks with these processes were started, at this store. IoError: it cannot be written, of the first start.
  void started(const std::vector<int>& pids, const std::string& store);
  /// One ended; written at once only when it failed.
  void ended(const RankEnd& end);
  /// The run is over. The code, which is not 0 where this cannot be written.
  int finished(int exit_code);
  /// Why it could not be written, once; empty: it was, or that is told.
  [[nodiscard]] std::string take_problem();

 private:
  struct RankLine {
    int pid = 0;
    std::optional<RankEnd> end = {};
    std::string time = {};
  };
  struct Start {
    std::string time;
    std::vector<RankLine> ranks;
  };
  void write() const;
  void try_to_write() noexcept;

  std::vector<std::string> command_;
  std::string directory_;
  std::string started_;
  std::string store_;
  std::vector<Start> starts_;
  std::optional<int> exit_code_;
  std::string ended_;
  std::string problem_;
  bool is_told_ = false;
};

}  // namespace tessera::comm::detail
