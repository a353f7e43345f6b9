// Evidence of a run: for each rank its state, its launches per group and their stages, its annotations and its memory.
// Evidence is plain data. It is read from record files of live, hung or dead ranks (read_run.h), or from the flight
// recorder of PyTorch (torch_pickles.h). explain.h derives the cause of a failure from it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tessera/base/export.h"

namespace tessera::analysis {

/// Stage of a launch on one rank.
enum class Stage : std::uint8_t {
  kAsked,   ///< Enqueued by the host. Its stream has not reached it.
  kBegun,   ///< Started: its stream reached it, and this rank waits for the others.
  kMet,     ///< All ranks have arrived, and bytes are transferred.
  kDone,    ///< Finished without an error.
  kFailed,  ///< Finished with an error.
};

/// One operation of a launch.
struct RecordedOperation {
  std::string kind = {};       ///< "all_reduce", "send"
  std::string dtype = {};      ///< "f32"; empty if unknown.
  std::int64_t count = 0;      ///< Number of elements that this rank passed.
  std::string reduction = {};  ///< "sum"; empty if the operation has none.
  int root = -1;               ///< Group rank of the root; -1 if the operation has none.
  int peer = -1;               ///< Group rank of the peer of a point-to-point operation; otherwise -1.
  std::uint32_t parts = 0;     ///< Digest of uneven sizes and targets; 0 if there are none.
  int channel = -1;            ///< Channel of a wait for a signal of symmetric memory; otherwise -1.
  /// Compares all fields.
  friend bool operator==(const RecordedOperation&, const RecordedOperation&) = default;
};

/// One launch of a rank in a group: usually one operation, or several coalesced ones.
struct CollectiveCall {
  std::uint32_t task = 0;  ///< Number among the launches that this rank enqueued in the group, from 1; 0 if unknown.
  std::uint64_t sequence = 0;  ///< Sequence number on the communicator of this rank; 0 if it has not started.
  /// For a collective, the collective number, from 1: it counts the collectives of the group that started on this rank,
  /// including replays, and is the same on all ranks. For a point-to-point operation, the number among those of its
  /// direction with its peer. 0 if unknown.
  std::uint64_t collective_number = 0;
  std::vector<RecordedOperation> operations =
      {};                       ///< In order, collectives before point-to-point operations; never empty.
  Stage stage = Stage::kAsked;  ///< Stage that it reached.
  std::int64_t asked_ns = 0;    ///< Time of the enqueue, in nanoseconds since 1970; 0 if unknown.
  std::int64_t begun_ns = 0;    ///< Time of the start; 0 if unknown or not reached.
  std::int64_t met_ns = 0;      ///< Time when all ranks had arrived; 0 if unknown or not reached.
  std::int64_t ended_ns = 0;    ///< Time of the end; 0 if unknown or not reached.
  std::string failure = {};     ///< Kind of the error, "timeout"; empty if it did not fail.
  std::string label = {};       ///< memory::Label of the enqueueing thread.
  std::string device = {};      ///< "host", "cuda:0"
  std::uint32_t stream = 0;     ///< Stream of the device.
  std::uint32_t thread = 0;     ///< Enqueueing thread, as the operating system numbers it.
  std::uint64_t replay = 0;     ///< Replay of its graph; 0 if it was not captured.
  std::uint32_t node = 0;       ///< Node of the graph.
  /// True if all operations and their uneven sizes are known. Otherwise only the first operation is known, and the rest
  /// must not be compared.
  bool is_whole = true;
  /// Returns true if it is a point-to-point operation.
  [[nodiscard]] bool is_message() const { return !operations.empty() && operations.front().peer >= 0; }
  /// Returns true if it has finished or failed.
  [[nodiscard]] bool has_ended() const { return stage == Stage::kDone || stage == Stage::kFailed; }
};

/// A group as one rank knows it.
struct Group {
  std::string name = {};        ///< "world"
  std::string backend = {};     ///< "shm"
  std::vector<int> ranks = {};  ///< World ranks of the members.
  int rank = 0;                 ///< Group rank of this rank.
  std::uint64_t asked = 0;      ///< Launches enqueued so far.
  std::uint64_t begun = 0;      ///< Launches started so far, including replays.
  std::uint64_t ended = 0;      ///< Launches ended so far.
  std::vector<CollectiveCall> launches =
      {};  ///< Launches that are still in the record, in the order of enqueue or replay.
  /// Waits for signals of symmetric memory that are in progress or failed. Each has one operation, "wait_signal" or
  /// "barrier", with the peer and the channel. The collective_number is the number of the signal, and the label is the
  /// name of the pool.
  std::vector<CollectiveCall> signals = {};
};

/// The creation of a group, or one step of it, in which several ranks must take part. Until it is done, no operation of
/// the group shows the ranks that wait for each other.
struct GroupCreation {
  std::string what = {};        ///< "split 3 of group world", "group low"; the same on all ranks.
  std::string from = {};        ///< Parent group of a split; otherwise empty.
  std::uint64_t number = 0;     ///< Number of a split among the groups created from its parent; otherwise 0.
  std::vector<int> ranks = {};  ///< World ranks that must take part.
  std::int64_t since_ns = 0;    ///< Arrival time of this rank, in nanoseconds since 1970.
  Stage stage = Stage::kBegun;  ///< kBegun while it waits for others; then kDone or kFailed.
  std::string failure = {};     ///< Kind of the error, "timeout"; empty if it did not fail.
};

/// Open annotation of a rank (probe::Annotation).
struct OpenAnnotation {
  std::string name = {};      ///< "step"
  std::int64_t value = 0;     ///< 117
  std::string thread = {};    ///< Name or number of the thread.
  std::int64_t since_ns = 0;  ///< Time of the start.
  std::uint32_t tid = 0;      ///< Thread, as the operating system numbers it; 0 if unknown.
};

/// Memory of one device in the allocator of a rank.
struct DeviceMemory {
  std::string device = {};          ///< "host", "cuda:0"
  std::uint64_t live_nbytes = 0;    ///< Bytes in use.
  std::uint64_t mapped_nbytes = 0;  ///< Bytes taken from the device.
  /// Size of the request that ran out of memory, in bytes; 0 if none did.
  std::uint64_t refused_nbytes = 0;
  /// Labels with the most bytes, largest first.
  std::vector<std::pair<std::string, std::uint64_t>> owners = {};
  std::int64_t refused_ns = 0;  ///< Time of that request, in nanoseconds since 1970; 0 if unknown.
};

/// Last kernel or copy launched on a stream.
struct LastKernel {
  std::string name = {};     ///< Name of the kernel or copy.
  std::string device = {};   ///< "host", "cuda:0".
  std::uint32_t stream = 0;  ///< Stream of the device.
  std::int64_t when_ns = 0;  ///< Time of the launch.
};

/// State of a rank.
enum class RankState : std::uint8_t {
  kRunning,  ///< Its process is running.
  kStopped,  ///< Its process is stopped (SIGSTOP, a debugger).
  kEnded,    ///< It ended without an error.
  kFailed,   ///< It ended with an error that it recorded.
  kDied,     ///< Its process is gone and recorded no end.
  kMissing,  ///< It has no record file.
  kUnknown,  ///< The file does not state it, and the process is not visible from here.
};
/// Returns "is running", "was stopped", "ended", "failed", "died" or "left no record".
TESSERA_API std::string to_string(RankState state);

/// Evidence of one rank.
struct Rank {
  int rank = 0;                           ///< World rank.
  RankState state = RankState::kUnknown;  ///< State of the rank.
  std::string reason = {};                ///< Its recorded error, or its end as the launcher saw it.
  int signal = 0;                         ///< Signal that killed it; 0 if none or unknown.
  std::string ended_by = {};              ///< Reason for which the launcher sent that signal; empty if it did not.
  std::string file = {};                  ///< File that the evidence was read from.
  bool is_unread = false;                 ///< True if that file is missing or unreadable.
  std::string host = {};                  ///< Host name.
  std::uint64_t pid = 0;                  ///< Process id.
  std::int64_t first_ns = 0;       ///< Time of the oldest remaining record of its launches and annotations; 0 if none.
  std::int64_t last_ns = 0;        ///< Time of the last record.
  std::uint64_t lost = 0;          ///< Communication records that were overwritten.
  std::vector<Group> groups = {};  ///< Groups that it is a member of.
  std::vector<GroupCreation> creations = {};     ///< Last group creations.
  std::vector<OpenAnnotation> annotations = {};  ///< Open annotations.
  std::vector<DeviceMemory> memory = {};         ///< Memory by device.
  std::vector<LastKernel> launches = {};         ///< Last launches by stream.
};

/// Evidence of a run.
struct Evidence {
  std::string source = {};                 ///< Run directory.
  int world_size = 0;                      ///< Size of the world. `ranks` includes those without a file.
  std::int64_t taken_ns = 0;               ///< Time of reading, or of the last record if all ranks are gone.
  std::vector<Rank> ranks = {};            ///< Ranks in order.
  std::vector<std::string> problems = {};  ///< Unreadable data, one line each with the file.
  /// For a shrunk world, its history: "4 ranks started; rank 1 was killed by signal 9 (Killed)". Empty for the original
  /// world.
  std::string before = {};
  /// Reason for which the trainer stopped all ranks, from summary.json: "step 12: loss nan, ..."; otherwise empty.
  std::string stopped = {};
};

}  // namespace tessera::analysis
