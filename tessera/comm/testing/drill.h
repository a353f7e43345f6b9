// The fault drill: ranks run as processes of this machine, and one of them fails in a way that a table lists. The drill
// checks that the other ranks end soon, with the expected error, and that no process remains. A test checks the errors,
// a bench measures the time.
//
// A rank reports through a pipe when the measurement starts and how it ended; times are comparable between processes.
// Ranks are forked from a process with no other thread, and find each other through a store, like launched ranks.
#pragma once

#include <chrono>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/comm/process_group.h"
#include "tessera/comm/testing/rank_processes.h"
#include "tessera/device/stream.h"
#include "tessera/memory/buffer.h"

namespace tessera::comm {

/// Number of ranks of a drill.
inline constexpr int kDrillRanks = 3;
/// Rank that fails.
inline constexpr int kCulprit = 1;
/// Number of elements in a rank's buffers.
inline constexpr std::int64_t kDrillElements = 100'000;
/// Deadline of faults that only a deadline ends. Other faults have a long deadline, which must not expire.
inline constexpr std::chrono::nanoseconds kDrillDeadline = std::chrono::seconds(1);

/// One rank of a drill.
class DrillRank {
 public:
  /// Describes the rank of this process.
  DrillRank(int rank, std::string store, int report) : rank_(rank), store_(std::move(store)), report_(report) {}
  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] bool is_culprit() const { return rank_ == kCulprit; }
  /// Returns the address of the store, see InitOptions::store.
  [[nodiscard]] const std::string& store() const { return store_; }
  /// Sets another store; used by some faults.
  void set_store(std::string store) { store_ = std::move(store); }
  /// Joins the world; that of the launcher if a launcher started this process.
  void join(std::chrono::nanoseconds timeout = std::chrono::seconds(20)) const;
  /// Calls join() and runs an operation of all ranks. Later operations have this deadline.
  void start(std::chrono::nanoseconds deadline = std::chrono::seconds(20));
  /// Starts the measurement.
  void begin() const;
  /// Reports how the rank ended; once.
  void end(std::string_view words) const;
  /// Enqueues an operation of the world and waits for it.
  void run(const Operation& operation) const { group.launch(operation, stream).wait(); }
  /// Kills this process immediately.
  [[noreturn]] static void die();
  /// say() sets a flag for the other ranks; hear() waits until a rank has set it.  // words: name of a function
  static void say(const std::string& what);
  static void hear(const std::string& what);

  ProcessGroup group = {};  ///< the world; set by start(), like the fields below
  device::Stream stream = {};
  memory::Buffer in = {};   ///< kDrillElements floats
  memory::Buffer out = {};  ///< kDrillElements floats

 private:
  int rank_;
  std::string store_;
  int report_;
};

/// The expected end of a rank.
struct DrillEnd {
  /// Kinds of ends.
  enum class How : std::uint8_t {
    kWords,   ///< with an error that contains these words
    kWell,    ///< without an error
    kKilled,  ///< by SIGKILL
  };
  How how = How::kWell;
  std::vector<std::string_view> words = {};  ///< for kWords
};

/// A fault of the drill.
struct CommDrillFault {
  std::string_view name;
  /// Deadline that must pass before the other ranks detect it; 0: they detect it immediately.
  std::chrono::nanoseconds deadline;
  std::function<void(DrillRank&)> body;        ///< body of each rank
  std::function<DrillEnd(int rank)> expected;  ///< expected end of each rank
};
/// Returns all faults.
const std::vector<CommDrillFault>& all_faults();

/// The actual end of a rank.
struct DrilledRank {
  ProcessEnd end = {};
  bool was_hung = false;   ///< it had to be killed
  std::string words = {};  ///< message of its error, or empty
};
/// The result of a drill.
struct DrillReport {
  std::vector<DrilledRank> ranks = {};  ///< by rank
  double seconds_past = 0;  ///< time from when the other ranks could detect the fault to the end of the last process
};
/// Runs a drill.
DrillReport run_drill(const CommDrillFault& fault);
/// Runs this process as the drill rank that a launcher started it as. Its error goes to stderr.
[[noreturn]] void be_launched_rank(const CommDrillFault& fault);
/// Describes the differences between expected and actual ends, one per line; empty if all are as expected.
std::string judge(const CommDrillFault& fault, const DrillReport& report);

}  // namespace tessera::comm
