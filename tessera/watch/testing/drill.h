// The drill of the black box: ranks of which one or two go wrong in a way that a table lists, and what the report in
// the run directory must then say. What counts is who is blamed for what, that nobody else is, and how soon.
//
//   processes  forked, with a run directory and a deadline of a second; the report is the watchdog's where a rank is
//              left that can make one, else the drill makes it, as a launcher does
//   threads    ranks of one process in the order of a seed, in which a deadlock is known at once; the drill makes the
//              report of what they left
//
// All ranks do some steps of ordinary work before. A rank tells by a shared page when the time begins to count.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tessera/comm/process_group.h"
#include "tessera/device/stream.h"
#include "tessera/memory/buffer.h"
#include "tessera/record/explain.h"

namespace tessera::watch {

/// The deadline of operations in a drill.
inline constexpr std::chrono::nanoseconds kDrillDeadline = std::chrono::seconds(1);
/// Elements of a rank's buffers: of the largest message of 8 ranks.
inline constexpr std::int64_t kDrillElements = 400'000;

/// What the ranks of a drill and who runs it share.
struct DrillPage {
  std::atomic<std::int64_t> began_ns{0};  ///< the last time that begin() was called, of the steady clock
  std::atomic<int> ready{0};              ///< ranks that said so
  std::atomic<bool> is_over{false};       ///< whether those that wait for the end may go on
};

/// How the ranks live.
enum class DrillForm : std::uint8_t { kProcesses, kThreads };
/// "processes" or "threads".
std::string to_string(DrillForm form);

/// One rank's side of a drill.
class DrillRank {
 public:
  /// The current rank, whose world is there. Makes its buffers.
  DrillRank(int rank, int ranks, DrillPage& page, std::string run_dir);
  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int ranks() const { return ranks_; }
  [[nodiscard]] bool is(int rank) const { return rank_ == rank; }
  [[nodiscard]] const std::string& run_dir() const { return run_dir_; }
  /// Asks for an operation and waits for it.
  void run(const comm::Operation& operation) const { run(world, operation); }
  /// Likewise, in a group.
  void run(const comm::ProcessGroup& group, const comm::Operation& operation) const;
  /// Steps of ordinary work, of all ranks: marks, labels, some collectives each.
  void steps(int count) const;
  /// The time begins to count now: from the last rank that says so.
  void begin() const;
  /// Says that it has come as far as it goes, and waits until the drill is over.
  void wait_for_the_end() const;
  /// Waits until so many ranks have said that they are ready; and says it.
  void say_ready() const { ++page_->ready; }
  void wait_for_ready(int ranks) const;

  // Operations on its buffers.
  [[nodiscard]] comm::Operation all_reduce(std::int64_t count = 1000) const;
  [[nodiscard]] comm::Operation broadcast(int root = 0) const;
  [[nodiscard]] comm::Operation send(int peer, std::int64_t count = 1000) const;
  [[nodiscard]] comm::Operation recv(int peer, std::int64_t count = 1000) const;

  comm::ProcessGroup world = {};  ///< all ranks
  device::Stream stream = {};     ///< the one that operations go to

 private:
  int rank_;
  int ranks_;
  DrillPage* page_;
  std::string run_dir_;
  memory::Buffer in_ = {};
  memory::Buffer out_ = {};
};

/// What must be found.
struct Expected {
  std::vector<record::Fault> faults = {};  ///< one of these
  std::vector<int> culprits = {};          ///< ranks in the world
  std::string group = {};                  ///< where; empty: anywhere
  std::vector<std::string> words = {};     ///< in its sentence or advice
  bool may_blame_nobody = false;           ///< whether it is right, too, to name no culprit
};

/// Something that goes wrong, or does not.
struct DrillFault {
  std::string name = {};                                        ///< of the fault
  int ranks = 4;                                                ///< that take part
  std::function<void(DrillRank&)> body = {};                    ///< what each rank does
  std::vector<Expected> expected = {};                          ///< each must be found; none: no fault
  std::chrono::nanoseconds deadline = std::chrono::seconds(0);  ///< that must pass before it can be known
  std::vector<DrillForm> forms = {DrillForm::kProcesses};       ///< in which it makes sense
  bool is_looked_at = false;          ///< the drill looks once all are ready, not the watchdog
  bool is_told_at_the_end = false;    ///< the verdict is that of all that the ranks left
  bool has_late_rank = false;         ///< the culprit comes after the verdict: it was absent, and is slow at the end
  std::string record_bytes = "1MiB";  ///< of each rank's record
};

/// The table, by kind.
std::vector<DrillFault> faults_of_differences();
std::vector<DrillFault> faults_of_absences();
std::vector<DrillFault> faults_of_ends();
std::vector<DrillFault> faults_of_circles();
std::vector<DrillFault> faults_of_none();
/// All of it.
std::vector<DrillFault> all_drill_faults();

/// What was found.
struct Drilled {
  std::string name = {};                       ///< of the fault, and in which form
  std::vector<record::Verdict> verdicts = {};  ///< the first is the report's, the others are those beside it
  std::string wrong = {};                      ///< what differs from what must be; empty: it is right
  int innocents = 0;                           ///< ranks that were blamed for nothing
  bool has_changed = false;                    ///< when all ranks are gone, the verdict is another
  double seconds = 0;                          ///< from the deadline, or from what went wrong, to the verdict
  int files = 0;                               ///< record files there were
  int readable = 0;                            ///< of them
  std::string said = {};                       ///< by the ranks, on stderr
};
/// Runs one. The process must have no other thread. `look` sees the run directory before it goes.
Drilled run_drill(const DrillFault& fault, DrillForm form, std::uint64_t seed = 1,
                  const std::function<void(const std::string& run_dir)>& look = {});

/// What counts of many drills.
struct DrillTally {
  int drills = 0;              ///< that were run
  int right = 0;               ///< of them
  int innocents = 0;           ///< ranks that were blamed for nothing
  int changed = 0;             ///< drills of which the verdict is another when all ranks are gone
  int files = 0;               ///< record files
  int readable = 0;            ///< of them
  double slowest_seconds = 0;  ///< until a verdict
};
/// Runs all of these faults in all forms they have, and tells of each.
DrillTally run_drills(const std::vector<DrillFault>& faults, const std::function<void(const Drilled&)>& tell);

/// Compares what was found with what must be: fills in `wrong` and `innocents`.
void judge(const std::vector<Expected>& expected, Drilled& drilled);

}  // namespace tessera::watch
