// launch.json of a run directory: the command, its processes, and how each ended. The file is rewritten and replaced
// atomically at each event, so that it is always current and survives crashes.
//
//   {"launch_id": "5f0c...", "command": [...], "ranks": 4, "host": "node7", "launcher_pid": 41, "directory": "/work",
//    "started": "2026-...Z", "store": "tcp://127.0.0.1:40311", "exit_code": 137, "ended": "...",
//    "starts": [{"time": "...", "ranks": [{"rank": 0, "pid": 42, "end": "was killed by signal 9 (Killed)",
//                                          "exit_code": 0, "signal": 9, "time": "...", "signals": [...]}, ...]}]}
//
// A running rank has no "end"; an active run has no "exit_code". "signals" lists the signals that the launcher sent to
// the rank; docs/running.md describes the fields. If a killed rank has no matching signal, another process killed it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/base/run_directory.h"
#include "tessera/comm/launch/launch.h"

namespace tessera::comm::detail {

/// Why the launcher sent a signal to a rank. The names in launch.json are in launch_record.cpp.
enum class SignalReason : std::uint8_t {
  kReceived,       ///< the launcher received this signal and forwarded it
  kReceivedAgain,  ///< the launcher received a second request to stop, and sent SIGKILL
  kRankFailed,     ///< another rank failed, and LaunchOptions::on_failure is kKill
  kGraceExpired,   ///< the rank did not end within LaunchOptions::grace after SIGTERM
  kOutputClosed,   ///< the reader of the launcher's output closed it
};

/// A signal that the launcher sends to ranks.
struct SentSignal {
  int number = 0;                                 ///< signal number
  SignalReason reason = SignalReason::kReceived;  ///< why it is sent
  std::string text = {};                          ///< the reason as a clause, human-readable
  std::optional<int> failed_rank = {};            ///< rank whose failure is the reason
  std::optional<int> sender_pid = {};             ///< sender of a received signal; 0: the kernel
  std::optional<unsigned> sender_uid = {};        ///< user of the sender of a received signal
};

/// The record of one run. Not thread-safe.
class LaunchJournal {
 public:
  /// Creates the run directory of the options or the environment, and locks it for the lifetime of this object. A
  /// directory that is created and stays empty, because no rank could be started, is removed at the end. Throws IoError
  /// if the directory cannot be created or an active run has locked it.
  explicit LaunchJournal(const LaunchOptions& options);
  /// Returns the absolute path of the run directory.
  [[nodiscard]] std::string directory() const { return directory_.string(); }
  /// Returns the value of TESSERA_RUN_DIR_LOCK for the ranks.
  [[nodiscard]] std::string lock_identity() const { return lock_->identity(); }
  /// Returns an error message if the run directory was removed, renamed or replaced, otherwise an empty string.
  [[nodiscard]] std::string lost_directory() const;

  /// Records the processes of the ranks and the store. Throws IoError if the file cannot be written at the first start.
  void started(const std::vector<int>& pids, const std::string& store);
  /// Records a signal that is about to be sent to these ranks, and writes the file.
  void signalled(const std::vector<int>& ranks, const SentSignal& signal);
  /// Records the end of a rank. Writes the file immediately only if it failed.
  void ended(const RankEnd& end);
  /// Records the end of the run. Returns `exit_code`, or a nonzero code if the file cannot be written.
  int finished(int exit_code);
  /// Returns once why the file could not be written; otherwise an empty string.
  [[nodiscard]] std::string take_problem();

 private:
  struct LoggedSignal {
    SentSignal sent;
    std::string time;  // time of the first
    int count = 1;     // number sent in a row for the same reason
  };
  struct RankLine {
    int pid = 0;
    std::optional<RankEnd> end = {};
    std::string time = {};
    std::vector<LoggedSignal> signals = {};
  };
  struct Start {
    std::string time;
    std::vector<RankLine> ranks;
  };
  void write() const;
  void try_to_write() noexcept;

  std::string id_;
  std::vector<std::string> command_;
  std::filesystem::path directory_;
  NewRunDirectory new_directory_;
  std::unique_ptr<RunDirectoryLock> lock_;
  std::string started_;
  std::string store_;
  std::vector<Start> starts_;
  std::optional<int> exit_code_;
  std::string ended_;
  std::string problem_;
  bool is_told_ = false;
};

}  // namespace tessera::comm::detail
