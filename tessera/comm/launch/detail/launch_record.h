// launch.json of a run directory: what was started, as which processes, and how each ended. Written anew as a whole
// when something happens, so that it is true at any moment and whole after any crash.
//
//   {"launch_id": "5f0c...", "command": [...], "ranks": 4, "host": "node7", "launcher_pid": 41, "directory": "/work",
//    "started": "2026-...Z", "store": "tcp://127.0.0.1:40311", "exit_code": 137, "ended": "...",
//    "starts": [{"time": "...", "ranks": [{"rank": 0, "pid": 42, "end": "was killed by signal 9 (Killed)",
//                                          "exit_code": 0, "signal": 9, "time": "...", "signals": [...]}, ...]}]}
//
// A rank that runs has no "end"; a run that goes on has no "exit_code". "signals" lists the signals that the launcher
// sent to the rank; docs/running.md describes the fields. A rank without a matching signal was killed by others.
#pragma once

#include <cstdint>
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
  int number = 0;                                 ///< of the signal
  SignalReason reason = SignalReason::kReceived;  ///< why it is sent
  std::string text = {};                          ///< the reason as a clause, for people
  std::optional<int> failed_rank = {};            ///< the rank whose failure is the reason
  std::optional<int> sender_pid = {};             ///< of a received signal: the process that sent it; 0: the kernel
  std::optional<unsigned> sender_uid = {};        ///< of a received signal: the user of that process
};

/// The record of one run. Not thread-safe.
class LaunchRecord {
 public:
  /// Makes the run directory, as the options or the environment name it, and locks it for the life of this object.
  /// Throws IoError if the directory cannot be made or an active run holds it.
  explicit LaunchRecord(const LaunchOptions& options);
  /// The run directory, from the root.
  [[nodiscard]] const std::string& directory() const { return directory_; }
  /// Returns the value of TESSERA_RUN_DIR_LOCK for the ranks.
  [[nodiscard]] std::string lock_identity() const { return lock_->identity(); }
  /// Returns an error message if the run directory was removed, renamed or replaced, otherwise an empty string.
  [[nodiscard]] std::string lost_directory() const;

  /// Ranks with these processes were started, at this store. IoError: it cannot be written, of the first start.
  void started(const std::vector<int>& pids, const std::string& store);
  /// Notes a signal that is about to be sent to these ranks, and writes.
  void signalled(const std::vector<int>& ranks, const SentSignal& signal);
  /// One ended; written at once only when it failed.
  void ended(const RankEnd& end);
  /// The run is over. The code, which is not 0 where this cannot be written.
  int finished(int exit_code);
  /// Why it could not be written, once; empty: it was, or that is told.
  [[nodiscard]] std::string take_problem();

 private:
  struct SignalLine {
    SentSignal sent;
    std::string time;  // of the first
    int count = 1;     // sent in a row for the same reason
  };
  struct RankLine {
    int pid = 0;
    std::optional<RankEnd> end = {};
    std::string time = {};
    std::vector<SignalLine> signals = {};
  };
  struct Start {
    std::string time;
    std::vector<RankLine> ranks;
  };
  void write() const;
  void try_to_write() noexcept;

  std::string id_;
  std::vector<std::string> command_;
  std::string directory_;
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
