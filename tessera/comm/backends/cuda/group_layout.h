// What the kernels of a group and their hosts share. Plain data, read by both compilers.
//
// On the device, for every rank (see detail/peer_memory/group_memory.h, whose protocol this is):
//
//   board      how far it has come; written by its kernels alone, watched by all
//   counters   what its kernels hand on from one to the next
//   notices    what it does in its step: two, used in turn
//   offers     what it tells each peer in its step: two rows, used in turn
//   stages     copies of small inputs: two, used in turn
//
// In pinned memory: what hosts tell kernels that wait (Control), how the group ended (Verdict), and how each operation
// went (Cell). Kernels look there only when they have waited for a while, and write there without waiting.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tessera/base/dtype.h"

namespace tessera::comm {
struct SignalLine;
}

namespace tessera::comm::cuda {

/// The most ranks of a group.
inline constexpr int kMostRanks = 16;
/// Threads of a block, and how many such blocks a multiprocessor holds at once: what kernels are compiled for.
inline constexpr int kThreads = 512;
inline constexpr int kBlocksEach = 2;
/// Bytes of a stage: what a block copies in two rounds.
inline constexpr std::size_t kStageBytes = std::size_t{16} << 10;

/// How far a rank has come. Numbers only rise.
struct alignas(128) Board {
  std::uint64_t arrived;   ///< step that it has come to
  std::uint64_t finished;  ///< step in which it touches no peer's memory any more
  std::uint64_t task;      ///< number of the task that it is at
};

/// What the kernels of a rank hand on.
struct alignas(128) Counters {
  std::uint64_t step;          ///< the last one
  std::uint64_t task;          ///< the last one that has begun
  std::uint32_t blocks_ended;  ///< of the kernel that runs
};

/// What a rank does in a step.
struct alignas(16) Notice {
  std::uint64_t fingerprint_low;   ///< of its operation
  std::uint64_t fingerprint_high;  ///< likewise
  std::uint64_t task;              ///< number of the task that the step belongs to
  std::uint64_t registrations;     ///< digest of its registrations before; 0: not known
  std::uint64_t group;             ///< digest of the name of the group that it is for
  const std::byte* in;             ///< its input; null: it has none
  std::byte* out;                  ///< its output; null: it has none
  std::int64_t count;              ///< what follows is for the words of a mismatch
  std::uint64_t counts_digest;     ///< likewise, of uneven parts and targets
  double factor;                   ///< likewise, of a reduction that has one
  std::int64_t parts[kMostRanks];  ///< likewise, those that all ranks give alike, or targets
  std::int64_t sizes[8];           ///< likewise, of the first dimensions of the tensor
  std::uint64_t layouts;           ///< likewise, as in Geometry
  std::uint32_t part_total;        ///< likewise, how many there are
  std::int32_t root;               ///< likewise
  std::int16_t dims;               ///< likewise, dimensions of the tensor; -1: none is stated
  std::int8_t split;               ///< likewise, as in Geometry
  std::int8_t concat;              ///< likewise, as in Geometry
  std::uint8_t kind;               ///< likewise, an OpKind
  std::uint8_t dtype;              ///< likewise, a DType
  std::uint8_t reduction;          ///< likewise, a ReduceKind
};

/// As comm::Offer, in elements.
struct Offer {
  std::int64_t from_offset;
  std::int64_t to_offset;
  std::int64_t count;
};

/// Device memory of a group.
struct GroupMemory {
  alignas(128) std::uint32_t verdict;  ///< a VerdictState
  Board boards[kMostRanks];
  Counters counters[kMostRanks];
  Notice notices[kMostRanks][2];
  Offer offers[kMostRanks][2][kMostRanks];  ///< by rank, step, peer
  alignas(128) std::byte stages[kMostRanks][2][kStageBytes];
};

/// Whether a group has ended.
enum VerdictState : std::uint32_t { kOpen, kBeingWritten, kWritten };
/// How it ended, as a kernel sees it.
enum class Ending : std::uint32_t {
  kDeadline,  ///< ranks did not come in time
  kLeft,      ///< a rank has left
  kAborted,   ///< a host said so
  kMismatch,  ///< ranks do different things
  kOffer,     ///< what a peer sends does not fit
  kRows,      ///< rows to send are not within the input
  kPassed,    ///< a rank took a registration without a rendezvous that another waits in
  kLogs,      ///< ranks asked a symmetric pool for different things
};

/// How the group ended: pinned memory, written once, by a kernel.
struct Verdict {
  std::uint32_t state;  ///< what follows is there when it is kWritten
  Ending ending;
  std::int32_t by;             ///< rank that wrote it
  std::uint32_t missing;       ///< a bit for each rank
  std::uint64_t task;          ///< it was seen in
  std::uint64_t deadline_ns;   ///< that passed
  std::uint64_t extended_ns;   ///< by which it was extended
  std::int32_t peer;           ///< of kOffer, kRows and signals
  std::uint32_t pool;          ///< of a signal (symmetric memory): number of its pool; 0: it was an operation
  std::int32_t signal;         ///< likewise, a Signal::Kind
  std::int32_t channel;        ///< likewise
  std::int64_t numbers[4];     ///< kOffer: sent, taken or -1, first element, room; kRows: first, size, rows; signals:
                               ///< number, come so far
  Notice notices[kMostRanks];  ///< of the step
  std::uint64_t tasks[kMostRanks];  ///< where each rank is; kLogs: what each said
};

/// What hosts tell kernels that wait: pinned memory.
struct Control {
  alignas(64) std::uint64_t aborted;  ///< not 0: some host ended the group
  std::uint64_t left;                 ///< a bit for each rank whose host has left; its kernels have ended
  struct alignas(64) OfRank {
    std::uint64_t begun;          ///< tasks that have begun; written by its kernels
    std::uint64_t extended_task;  ///< task of a graph that has more time
    std::uint64_t extended_ns;    ///< how much
    std::uint64_t extended_all;   ///< nanoseconds given so far, to whatever was under way
    std::uint64_t passed;         ///< registration that it took without a rendezvous, the latest
  } ranks[kMostRanks];
  Verdict verdict;
};

/// How an operation went: pinned memory, written by its kernel without waiting. Read once its end is known otherwise.
struct alignas(64) Cell {
  /// Values of `result`.
  enum Result : std::uint64_t { kRuns, kWell, kFailed };
  std::uint64_t sequence;  ///< its number; 0: it has not begun
  std::uint64_t began_ns;  ///< by the device's clock
  std::uint64_t ended_ns;  ///< likewise
  std::uint64_t result;
};

/// As comm::Move, in elements. From or to kEveryone (-1); kOffered (-1) where only the peer knows.
struct MoveRow {
  std::int64_t from_offset;
  std::int64_t to_offset;
  std::int64_t count;
  std::int32_t from;
  std::int32_t to;
};

/// All that a kernel is told of one operation; passed by value.
struct Launch {
  GroupMemory* group;
  Control* control;
  Cell* cell;                 ///< null: nobody asks, as in a capture
  std::uint64_t deadline_ns;  ///< from its start; all ones: none
  std::uint64_t
      extended_base;  ///< extended_all when it was enqueued; all ones: in a graph, only its replay is extended
  Notice notice;      ///< the task's number is filled in where it runs
  std::int32_t rank;
  std::int32_t size;
  bool is_first;    ///< of its task, which is then counted
  bool is_last;     ///< of its task, which has then ended
  bool is_staged;   ///< inputs go through the stages; nobody needs to part
  bool parts;       ///< waits until all have made their moves
  bool has_offers;  ///< tells each peer what is for it
  bool is_ahead;    ///< only compares what would be done, in checked mode
  std::uint32_t item_nbytes;
  double factor;                        ///< of a premultiplied sum
  std::int64_t in_nbytes;               ///< to be staged
  std::int64_t room;                    ///< elements of the output
  const std::int64_t* row_offsets;      ///< null: offers are as given; of ragged_all_to_all, in rows
  const std::int64_t* row_sizes;        ///< likewise
  const std::int64_t* row_out_offsets;  ///< likewise
  const std::int64_t* row_out_sizes;    ///< likewise, how many rows come from each; null: as many as it sends
  std::int64_t row_count;               ///< elements of a row
  std::int64_t in_rows;                 ///< rows of the input
  Offer offers[kMostRanks];
  std::uint64_t registration;  ///< that a rendezvous is for; 0: none
  std::int32_t row_total;      ///< of `rows`
  MoveRow rows[kMostRanks];
};

/// All that a kernel is told of a signal of symmetric memory; passed by value.
struct SignalLaunch {
  GroupMemory* group;
  Control* control;
  std::uint64_t deadline_ns;    ///< from its start; all ones: none
  std::uint64_t extended_base;  ///< extended_all when it was asked for; all ones: it is in a graph, and not extended
  std::uint64_t log;            ///< of a barrier: what the pool was asked for; 0: not known
  std::int32_t rank;
  std::int32_t size;
  std::int32_t kind;  ///< a Signal::Kind
  std::int32_t peer;
  std::int32_t channel;
  std::uint32_t pool;
  SignalLine* pads[kMostRanks];  ///< by rank
};

}  // namespace tessera::comm::cuda
