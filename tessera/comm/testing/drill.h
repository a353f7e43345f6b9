// The fault drill: ranks as processes of this machine, one of which goes wrong in a way that a table lists. What counts
// is how the others end: with the right words, soon, and none left over. A test looks at the words, a bench at the
// time.
//
// A rank tells by a pipe when the time begins to count and how it ended; a time is comparable between processes. Ranks
// are forked from a process with no other thread, and find each other as launched ones do, by a store.
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

/// The ranks of a drill.
inline constexpr int kDrillRanks = 3;
/// The one that goes wrong.
inline constexpr int kCulprit = 1;
/// Elements of a rank's buffers.
inline constexpr std::int64_t kDrillElements = 100'000;
/// The deadline of faults that only a deadline ends; the others have a long one, and must not need it.
inline constexpr std::chrono::nanoseconds kDrillDeadline = std::chrono::seconds(1);

/// One rank's side of a drill.
class DrillRank {
 public:
  /// Of this process.
  DrillRank(int rank, std::string store, int report) : rank_(rank), store_(std::move(store)), report_(report) {}
  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] bool is_culprit() const { return rank_ == kCulprit; }
  /// Where the ranks meet, as in InitOptions::store.
  [[nodiscard]] const std::string& store() const { return store_; }
  /// A fault may choose another place.
  void set_store(std::string store) { store_ = std::move(store); }
  /// Becomes a rank: of the launcher's world where a launcher started it.
  void join(std::chrono::nanoseconds timeout = std::chrono::seconds(20)) const;
  /// join(), and an operation that all take part in; operations from then on have this deadline.
  void start(std::chrono::nanoseconds deadline = std::chrono::seconds(20));
  /// The time begins to count.
  void begin() const;
  /// Tells how it ended; once.
  void end(std::string_view words) const;
  /// Asks for an operation of the world and waits for it.
  void run(const Operation& operation) const { group.launch(operation, stream).wait(); }
  /// Ends this process at once.
  [[noreturn]] static void die();
  /// Tells the others something, or waits until one has told it.
  static void say(const std::string& what);
  static void hear(const std::string& what);

  ProcessGroup group = {};     ///< the world, from start() on
  device::Stream stream = {};  ///< likewise
  memory::Buffer in = {};      ///< likewise, of kDrillElements floats
  memory::Buffer out = {};     ///< likewise

 private:
  int rank_;
  std::string store_;
  int report_;
};

/// How a rank must end.
struct DrillEnd {
  /// In which way.
  enum class How : std::uint8_t {
    kWords,   ///< with an error that has these words
    kWell,    ///< without one
    kKilled,  ///< by SIGKILL
  };
  How how = How::kWell;                      ///< which
  std::vector<std::string_view> words = {};  ///< of kWords
};

/// Something that goes wrong.
struct Fault {
  std::string_view name;                       ///< of the fault
  std::chrono::nanoseconds deadline;           ///< that must pass before the others can know; 0: they know at once
  std::function<void(DrillRank&)> body;        ///< what each rank does
  std::function<DrillEnd(int rank)> expected;  ///< how each rank must end
};
/// The table.
const std::vector<Fault>& all_faults();

/// How a rank ended.
struct DrilledRank {
  ProcessEnd end = {};     ///< of its process
  bool was_hung = false;   ///< it had to be killed
  std::string words = {};  ///< of its error; empty: none
};
/// How a drill went.
struct DrillReport {
  std::vector<DrilledRank> ranks = {};  ///< by rank
  double seconds_past = 0;              ///< from when the others could know to the end of the last process
};
/// Runs one.
DrillReport run_drill(const Fault& fault);
/// Makes this process the rank of the drill that a launcher started it as; its words go to stderr.
[[noreturn]] void be_launched_rank(const Fault& fault);
/// What differs from what must be, a line each; empty: nothing.
std::string judge(const Fault& fault, const DrillReport& report);

}  // namespace tessera::comm
