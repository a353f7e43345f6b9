// The drill of the flight recorder: one or two ranks fail in a way listed in a table, and the report in the run
// directory must name the fault and the culprits, blame no other rank, and arrive in time.
//
//   processes  forked, with a run directory and a deadline of a second; the watchdog of a surviving rank writes the
//              report, otherwise the drill does, like a launcher
//   threads    ranks of one process in the order of a seed, in which a deadlock is detected immediately; the drill
//              writes the report from their records
//
// All ranks first run some normal steps. A rank sets the start of the measured time in a shared page.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tessera/analysis/explain.h"
#include "tessera/comm/process_group.h"
#include "tessera/device/stream.h"
#include "tessera/memory/buffer.h"

namespace tessera::watch {

/// Deadline of operations in a drill.
inline constexpr std::chrono::nanoseconds kDrillDeadline = std::chrono::seconds(1);
/// Elements of the buffers of a rank: the largest transfer of 8 ranks.
inline constexpr std::int64_t kDrillElements = 400'000;

/// State shared by the ranks and the runner of a drill.
struct DrillPage {
  std::atomic<std::int64_t> began_ns{0};  ///< Last call of begin(), on the steady clock.
  std::atomic<int> ready{0};              ///< Number of ready ranks.
  std::atomic<bool> is_over{false};       ///< Set when ranks that wait for the end may continue.
};

/// Form of the ranks.
enum class DrillForm : std::uint8_t { kProcesses, kThreads };
/// Returns "processes" or "threads".
std::string to_string(DrillForm form);

/// One rank of a drill.
class WatchDrillRank {
 public:
  /// Uses the current rank, whose world must exist. Creates its buffers.
  WatchDrillRank(int rank, int ranks, DrillPage& page, std::string run_dir);
  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int ranks() const { return ranks_; }
  [[nodiscard]] bool is(int rank) const { return rank_ == rank; }
  [[nodiscard]] const std::string& run_dir() const { return run_dir_; }
  /// Enqueues an operation of the world and waits for it.
  void run(const comm::Operation& operation) const { run(world, operation); }
  /// Enqueues an operation of a group and waits for it.
  void run(const comm::ProcessGroup& group, const comm::Operation& operation) const;
  /// Runs steps of normal work on all ranks: annotations, labels, some collectives each.
  void steps(int count) const;
  /// Starts the measured time; the last call counts.
  void begin() const;
  /// Becomes ready, and waits until the drill is over.
  void wait_for_the_end() const;
  /// Marks this rank as ready. wait_for_ready() waits for so many ready ranks.
  void say_ready() const { ++page_->ready; }
  void wait_for_ready(int ranks) const;

  // Operations on its buffers.
  [[nodiscard]] comm::Operation all_reduce(std::int64_t count = 1000) const;
  [[nodiscard]] comm::Operation broadcast(int root = 0) const;
  [[nodiscard]] comm::Operation send(int peer, std::int64_t count = 1000) const;
  [[nodiscard]] comm::Operation recv(int peer, std::int64_t count = 1000) const;

  comm::ProcessGroup world = {};  ///< Group of all ranks.
  device::Stream stream = {};     ///< Stream of the operations.

 private:
  int rank_;
  int ranks_;
  DrillPage* page_;
  std::string run_dir_;
  memory::Buffer in_ = {};
  memory::Buffer out_ = {};
};

/// Expected verdict.
struct Expected {
  std::vector<analysis::Fault> faults = {};  ///< Any of these faults.
  std::vector<int> culprits = {};            ///< World ranks to blame.
  std::string group = {};                    ///< Group; empty: any.
  std::vector<std::string> words = {};       ///< Words in its sentence or advice.
  bool may_blame_nobody = false;             ///< A verdict without a culprit is also correct.
};

/// A fault to inject, or none.
struct DrillFault {
  std::string name = {};                                        ///< Name of the fault.
  int ranks = 4;                                                ///< Number of ranks.
  std::function<void(WatchDrillRank&)> body = {};               ///< Body of each rank.
  std::vector<Expected> expected = {};                          ///< All must be found; empty: no fault.
  std::chrono::nanoseconds deadline = std::chrono::seconds(0);  ///< Deadline that must pass before detection.
  std::vector<DrillForm> forms = {DrillForm::kProcesses};
  bool is_looked_at = false;          ///< The drill reads the records when all are ready, without the watchdog.
  bool is_told_at_the_end = false;    ///< The verdict is that of all final records.
  bool has_late_rank = false;         ///< The culprit arrives after the verdict: first absent, slow at the end.
  std::string record_bytes = "1MiB";  ///< Size of the record of each rank.
};

/// The table, by kind.
std::vector<DrillFault> faults_of_differences();
std::vector<DrillFault> faults_of_absences();
std::vector<DrillFault> faults_of_ends();
std::vector<DrillFault> faults_of_cycles();
std::vector<DrillFault> faults_of_none();
/// Returns all faults.
std::vector<DrillFault> all_drill_faults();

/// Result of a drill.
struct Drilled {
  std::string name = {};                         ///< Name of the fault and its form.
  std::vector<analysis::Verdict> verdicts = {};  ///< The first is that of the report, then the other ones.
  std::string wrong = {};                        ///< Difference from the expectation; empty if correct.
  int innocents = 0;                             ///< Number of ranks blamed without a fault.
  bool has_changed = false;                      ///< The verdict changes when all ranks are gone.
  double seconds = 0;                            ///< From the deadline, or from the fault, to the verdict.
  int files = 0;                                 ///< Number of record files.
  int readable = 0;                              ///< Number of readable record files.
  std::string said = {};                         ///< Output of the ranks on stderr.
};
/// Runs a drill. The process must have no other thread. `look` sees the run directory before it is removed.
Drilled run_drill(const DrillFault& fault, DrillForm form, std::uint64_t seed = 1,
                  const std::function<void(const std::string& run_dir)>& look = {});

/// Totals over many drills.
struct DrillTally {
  int drills = 0;              ///< Number of drills.
  int right = 0;               ///< Number of correct drills.
  int innocents = 0;           ///< Number of ranks blamed without a fault.
  int changed = 0;             ///< Drills whose verdict changes when all ranks are gone.
  int files = 0;               ///< Number of record files.
  int readable = 0;            ///< Number of readable record files.
  double slowest_seconds = 0;  ///< Longest time to a verdict.
};
/// Runs these faults in all their forms, and calls `tell` with each result.
DrillTally run_drills(const std::vector<DrillFault>& faults, const std::function<void(const Drilled&)>& tell);

/// Compares the result with the expectation; sets `wrong` and `innocents`.
void judge(const std::vector<Expected>& expected, Drilled& drilled);

}  // namespace tessera::watch
