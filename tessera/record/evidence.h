// What is known of a run: for each rank how it ended or where it stands, what it asked of its groups and how far that
// came, what it was doing and what memory it had. Plain data, whatever it was read from: record files of ranks that
// run, hang or are gone (read_run.h) or PyTorch's flight recorder (torch_pickles.h). explain.h finds out what went
// wrong.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tessera/base/export.h"

namespace tessera::record {

/// How far a launch came on a rank.
enum class Stage : std::uint8_t {
  kAsked,   ///< the host asked for it; its stream has not come to it
  kBegun,   ///< its stream came to it: this rank has arrived, and waits for the others
  kMet,     ///< all ranks have arrived, and bytes move
  kDone,    ///< it has ended well
  kFailed,  ///< it has ended with an error
};

/// One operation of a launch.
struct Operation {
  std::string kind = {};       ///< "all_reduce", "send"
  std::string dtype = {};      ///< "f32"; empty: not known
  std::int64_t count = 0;      ///< elements, as the rank gave them
  std::string reduction = {};  ///< "sum"; empty: it has none
  int root = -1;               ///< in the group, of those that have one
  int peer = -1;               ///< in the group, of a message
  std::uint32_t parts = 0;     ///< digest of uneven parts and targets; 0: none
  int channel = -1;            ///< of a wait for a signal of symmetric memory; -1: not such a wait
  /// The same on all ranks, as far as it must be: for messages, nothing is compared here.
  friend bool operator==(const Operation&, const Operation&) = default;
};

/// What a rank launched in a group: mostly one operation, several where they were coalesced.
struct Launch {
  std::uint32_t task = 0;      ///< number among those that this rank asked of the group, from 1; 0: not known
  std::uint64_t sequence = 0;  ///< number among those that ran on this rank's communicator; 0: it has not begun
  /// Of a collective: number among the collectives of the group that began on this rank, from 1, a replay counted each
  /// time: the same on all ranks, so that launches are told apart by it. Of a message: number among those of its
  /// direction with its peer. 0: not known.
  std::uint64_t ordinal = 0;
  std::vector<Operation> operations = {};  ///< in order, collectives before messages; never empty
  Stage stage = Stage::kAsked;             ///< how far it came
  std::int64_t asked_ns = 0;               ///< when, in nanoseconds since 1970; 0: not known, or not yet
  std::int64_t begun_ns = 0;               ///< likewise
  std::int64_t met_ns = 0;                 ///< likewise
  std::int64_t ended_ns = 0;               ///< likewise
  std::string failure = {};                ///< what kind of error, "timeout"; empty: none
  std::string label = {};                  ///< source label: memory::Label of the thread that asked
  std::string device = {};                 ///< "host", "cuda:0"
  std::uint32_t stream = 0;                ///< on it
  std::uint32_t thread = 0;                ///< that asked, of the operating system
  std::uint64_t replay = 0;                ///< which replay of its graph; 0: it was not captured
  std::uint32_t node = 0;                  ///< of the graph
  /// Whether all of its operations are known, and their parts; else only its first is, without parts: what it lacks
  /// must not be held against it.
  bool is_whole = true;
  /// Whether it is between two ranks.
  [[nodiscard]] bool is_message() const { return !operations.empty() && operations.front().peer >= 0; }
  /// Whether it has ended.
  [[nodiscard]] bool has_ended() const { return stage == Stage::kDone || stage == Stage::kFailed; }
};

/// A group as one rank knows it.
struct Group {
  std::string name = {};              ///< "world"
  std::string backend = {};           ///< "shm"
  std::vector<int> ranks = {};        ///< its members' ranks in the world
  int rank = 0;                       ///< this rank's place among them
  std::uint64_t asked = 0;            ///< launches asked for so far
  std::uint64_t begun = 0;            ///< begun so far, replays counted
  std::uint64_t ended = 0;            ///< ended so far
  std::vector<Launch> launches = {};  ///< those that are still known, in the order they were asked for or replayed
  /// Waits for signals of symmetric memory that last, or failed. Each has one operation, "wait_signal" or "barrier",
  /// with the peer and the channel. The ordinal is the number of the signal, the label is the name of the pool.
  std::vector<Launch> signals = {};
};

/// The making of a group, or a step of it, to which several ranks must come: until it is done no operation of the group
/// says who waits for whom.
struct Making {
  std::string what = {};        ///< "split 3 of group world", "group low": the same on all ranks
  std::string from = {};        ///< group that it is made from, of a split; empty: none
  std::uint64_t number = 0;     ///< of a split among what is made from that group; 0: none
  std::vector<int> ranks = {};  ///< that must come, in the world
  std::int64_t since_ns = 0;    ///< when this rank came, in nanoseconds since 1970
  Stage stage = Stage::kBegun;  ///< kBegun: it waits for others; kDone, or kFailed
  std::string failure = {};     ///< what kind of error, "timeout"; empty: none
};

/// What a rank said it was doing (record::Scope).
struct Mark {
  std::string name = {};      ///< "step"
  std::int64_t value = 0;     ///< 117
  std::string thread = {};    ///< name of the thread, or its number
  std::int64_t since_ns = 0;  ///< when it began
  std::uint32_t tid = 0;      ///< number of the thread, of the operating system; 0: not known
};

/// The memory of one device, as the rank's allocator had it.
struct Memory {
  std::string device = {};          ///< "host", "cuda:0"
  std::uint64_t live_nbytes = 0;    ///< in use
  std::uint64_t mapped_nbytes = 0;  ///< taken from the device
  /// What was asked for when memory ran out, in bytes; 0: it did not.
  std::uint64_t refused_nbytes = 0;
  /// Who has most of it, largest first: label and bytes.
  std::vector<std::pair<std::string, std::uint64_t>> owners = {};
  std::int64_t refused_ns = 0;  ///< time of that request, in nanoseconds since 1970; 0: not known
};

/// A kernel or copy that was launched last on a stream.
struct LastLaunch {
  std::string name = {};     ///< what
  std::string device = {};   ///< where
  std::uint32_t stream = 0;  ///< on which stream
  std::int64_t when_ns = 0;  ///< it was launched
};

/// How a rank stands.
enum class RankState : std::uint8_t {
  kRunning,  ///< its process runs
  kStopped,  ///< its process was stopped (SIGSTOP, a debugger)
  kEnded,    ///< it ended in order
  kFailed,   ///< it ended with an error, and said so
  kDied,     ///< its process is gone without a word
  kMissing,  ///< nothing is known of it: no file
  kUnknown,  ///< its file does not say, and its process cannot be seen from here
};
/// "is running", "was stopped", "ended", "failed", "died", "left no record".
TESSERA_API std::string to_string(RankState state);

/// All that is known of one rank.
struct Rank {
  int rank = 0;                           ///< in the world
  RankState state = RankState::kUnknown;  ///< how it stands
  std::string reason = {};                ///< of its failure, as it said; or how it ended, as the launcher saw
  int signal = 0;                         ///< that killed it; 0: none, or not known
  std::string ended_by = {};              ///< reason for which the launcher sent that signal; empty: it did not
  std::string file = {};                  ///< what it was read from
  bool is_unread = false;                 ///< true if that file is missing or cannot be read
  std::string host = {};                  ///< where it ran
  std::uint64_t pid = 0;                  ///< its process
  std::int64_t first_ns = 0;              ///< of the first record of its launches and marks that is left; 0: none
  std::int64_t last_ns = 0;               ///< of the last record: when it was last seen to do something
  std::uint64_t lost = 0;                 ///< records of communication that were overwritten
  std::vector<Group> groups = {};         ///< it is in
  std::vector<Making> makings = {};       ///< the last of them
  std::vector<Mark> marks = {};           ///< that are open
  std::vector<Memory> memory = {};        ///< by device
  std::vector<LastLaunch> launches = {};  ///< by stream
};

/// All that is known of a run.
struct Evidence {
  std::string source = {};                 ///< the directory
  int world_size = 0;                      ///< ranks there were; those without a file are in `ranks` too
  std::int64_t taken_ns = 0;               ///< when it was read, or of the last thing that happened where all are gone
  std::vector<Rank> ranks = {};            ///< by rank
  std::vector<std::string> problems = {};  ///< what could not be read, a line each, naming the file
  /// Of a world that ranks made when others were gone, what was before: "4 ranks began; rank 1 was killed by signal 9
  /// (Killed)". Empty: it is the one that was started.
  std::string before = {};
  /// Reason for which the trainer stopped all ranks, from summary.json: "step 12: loss nan, ..."; empty: it did not.
  std::string stopped = {};
};

}  // namespace tessera::record
