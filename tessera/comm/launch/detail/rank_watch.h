// How the ranks of a run fare, seen from the launcher without asking them: the state of their processes, and the
// heartbeat that the watchdog of each keeps in its record (the row watch_heartbeat; tessera/watch). A rank that does
// not use Tessera, or has not come to it yet, has none and is left alone.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tessera::comm::detail {

/// See the head of this file. Not thread-safe.
class RankWatch {
 public:
  using Clock = std::chrono::steady_clock;

  /// Of the run in this directory; a heartbeat may stand still for so long.
  RankWatch(std::string directory, std::chrono::nanoseconds patience);
  /// The ranks were started, as these processes. A report of a start before is set aside.
  void started(const std::vector<int>& pids);
  /// A rank has ended.
  void ended(int rank);

  /// Looks, no more often than is good: a line for each rank whose heartbeat has stood still for too long, once.
  std::vector<std::string> look();
  /// When it wants to look again; no heartbeat was seen: much later.
  [[nodiscard]] Clock::time_point next_look() const { return next_look_; }
  /// Looks for heartbeats now.
  void read_heartbeats();
  /// Whether a rank that runs has a heartbeat.
  [[nodiscard]] bool has_heartbeats() const;
  /// Whether all of those have told of what went wrong, or were stopped and cannot.
  [[nodiscard]] bool have_all_told() const;
  /// Whether the ranks have written a report.
  [[nodiscard]] bool has_report() const;
  /// A line for each rank that cannot tell of the report itself, once.
  std::vector<std::string> silent();

 private:
  struct Watched {
    int pid = 0;
    bool has_ended = false;
    std::string file = {};     // its record
    std::uint64_t beats = 0;   // 0: no heartbeat was seen
    std::uint64_t told = 0;    // reports that it has told of
    Clock::time_point beaten;  // when another was seen
    bool was_told = false;     // of its standing still
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
