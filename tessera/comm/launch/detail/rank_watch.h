// Monitors the ranks of a run from the launcher: the state of their processes, and the heartbeat that the watchdog of
// each rank writes to its record (the row watch_heartbeat; tessera/watch). A rank without a heartbeat, because it does
// not use Tessera or has not initialized it yet, is not monitored.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tessera::comm::detail {

/// The monitor of one run. Not thread-safe.
class RankWatch {
 public:
  using Clock = std::chrono::steady_clock;

  /// Monitors the run in this directory. A heartbeat may pause for `patience`.
  RankWatch(std::string directory, std::chrono::nanoseconds patience);
  /// Notes the processes of a new start of the ranks. Renames a report of an earlier start.
  void started(const std::vector<int>& pids);
  /// Notes that a rank has ended.
  void ended(int rank);

  /// Polls at a limited rate. Returns a line, once, for each rank whose heartbeat has paused for too long.
  std::vector<std::string> look();
  /// Returns the time of the next poll; much later if no heartbeat was seen.
  [[nodiscard]] Clock::time_point next_look() const { return next_look_; }
  /// Reads the heartbeats now.
  void read_heartbeats();
  /// Returns true if a running rank has a heartbeat.
  [[nodiscard]] bool has_heartbeats() const;
  /// Returns true if each of those ranks has reported the failure, or is stopped and cannot.
  [[nodiscard]] bool have_all_told() const;
  /// Returns true if the ranks have written a report.
  [[nodiscard]] bool has_report() const;
  /// Returns a line, once, for each rank that cannot report by itself.
  std::vector<std::string> silent();

 private:
  struct Watched {
    int pid = 0;
    bool has_ended = false;
    std::string file = {};     // its record file
    std::uint64_t beats = 0;   // 0: no heartbeat was seen
    std::uint64_t told = 0;    // number of failures that it has reported
    Clock::time_point beaten;  // when the last heartbeat was seen
    bool was_told = false;     // its pause was reported
  };
  void find_records();
  static void read_heartbeat(Watched& rank);
  [[nodiscard]] static std::string standing_of(const Watched& rank, Clock::time_point now);

  std::string directory_;
  std::chrono::nanoseconds patience_;
  std::vector<Watched> ranks_;
  Clock::time_point next_look_ = {};
  Clock::time_point next_read_ = {};
};

}  // namespace tessera::comm::detail
