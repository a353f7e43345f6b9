// Data that the kernels of a group and their hosts share, readable by both compilers.
//
// On the device, for each rank (the protocol is that of detail/peer_memory/group_memory.h):
//
//   board      its progress; written only by its kernels, read by all
//   counters   state that each of its kernels passes to the next
//   notices    its operation of the current step: two, used in turn
//   offers     its offers to each peer in the current step: two rows, used in turn
//   stages     copies of small inputs: two, used in turn
//
// In pinned memory: messages of hosts to waiting kernels (Control), the group failure (Verdict), and the result of each
// operation (Cell). Kernels read it only after they have waited for a while, and write it without waiting.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tessera/base/dtype.h"

namespace tessera::comm {
struct SignalLine;
}

namespace tessera::comm::cuda {

/// Maximum number of ranks in a group.
inline constexpr int kMaxRanks = 16;
/// Threads per block, and resident blocks per multiprocessor that the kernels are compiled for.
inline constexpr int kThreads = 512;
inline constexpr int kBlocksEach = 2;
/// Bytes per stage: a block copies it in two rounds.
inline constexpr std::size_t kStageBytes = std::size_t{16} << 10;

/// Progress of a rank. Values only increase.
struct alignas(128) CudaBoard {
  std::uint64_t arrived;   ///< step that it has reached
  std::uint64_t finished;  ///< step in which it no longer accesses memory of peers
  std::uint64_t task;      ///< number of its current task
};

/// State that the kernels of a rank pass on.
struct alignas(128) CudaCounters {
  std::uint64_t step;          ///< last step
  std::uint64_t task;          ///< last started task
  std::uint32_t blocks_ended;  ///< ended blocks of the running kernel
};

/// A rank's operation in a step.
struct alignas(16) CudaNotice {
  std::uint64_t fingerprint_low;  ///< fingerprint of the operation
  std::uint64_t fingerprint_high;
  std::uint64_t task;             ///< number of the task that the step belongs to
  std::uint64_t registrations;    ///< digest of the earlier registrations; 0 if unknown
  std::uint64_t group;            ///< digest of the group name
  const std::byte* in;            ///< input, or null
  std::byte* out;                 ///< output, or null
  std::int64_t count;             ///< this and the fields below are for mismatch errors
  std::uint64_t counts_digest;    ///< digest of uneven counts and targets
  double factor;                  ///< factor of the reduction
  std::int64_t parts[kMaxRanks];  ///< counts that must be equal on all ranks, or targets
  std::int64_t sizes[8];          ///< sizes of the first dimensions of the tensor
  std::uint64_t layouts;          ///< see Geometry
  std::uint32_t part_total;       ///< number of counts or targets
  std::int32_t root;
  std::int16_t dims;       ///< dimensions of the tensor; -1 if no geometry is stated
  std::int8_t split;       ///< see Geometry
  std::int8_t concat;      ///< see Geometry
  std::uint8_t kind;       ///< an OpKind
  std::uint8_t dtype;      ///< a DType
  std::uint8_t reduction;  ///< a Reduction
};

/// See comm::Offer; in elements.
struct CudaOffer {
  std::int64_t from_offset;
  std::int64_t to_offset;
  std::int64_t count;
};

/// Device memory of a group.
struct CudaGroupMemory {
  alignas(128) std::uint32_t verdict;  ///< a VerdictState
  CudaBoard boards[kMaxRanks];
  CudaCounters counters[kMaxRanks];
  CudaNotice notices[kMaxRanks][2];
  CudaOffer offers[kMaxRanks][2][kMaxRanks];  ///< by rank, step, peer
  alignas(128) std::byte stages[kMaxRanks][2][kStageBytes];
};

/// State of the group failure.
enum VerdictState : std::uint32_t { kOpen, kBeingWritten, kWritten };
/// Kinds of group failures that a kernel detects.
enum class Ending : std::uint32_t {
  kDeadline,  ///< ranks did not arrive in time
  kLeft,      ///< a rank has left
  kAborted,   ///< a host aborted the group
  kMismatch,  ///< ranks enqueued different operations
  kOffer,     ///< the data of a peer does not fit
  kRows,      ///< rows to send are outside the input
  kPassed,    ///< a rank passed a registration without the rendezvous that another waits in
  kLogs,      ///< ranks made different requests to a symmetric pool
};

/// The group failure, in pinned memory, written once by a kernel.
struct CudaVerdict {
  std::uint32_t state;  ///< the other fields are valid in state kWritten
  Ending ending;
  std::int32_t by;            ///< rank that wrote it
  std::uint32_t missing;      ///< a bit per rank
  std::uint64_t task;         ///< number of the task that detected it
  std::uint64_t deadline_ns;  ///< the missed deadline
  std::uint64_t extended_ns;  ///< extension of the deadline
  std::int32_t peer;          ///< for kOffer, kRows and signals
  std::uint32_t pool;         ///< number of the pool of a signal (symmetric memory); 0 for an operation
  std::int32_t signal;        ///< for signals: a Signal::Kind
  std::int32_t channel;       ///< for signals
  /// kOffer: sent, received or -1, first element, room; kRows: first, size, rows; signals: number, arrived so far
  std::int64_t numbers[4];
  CudaNotice notices[kMaxRanks];   ///< notices of the step
  std::uint64_t tasks[kMaxRanks];  ///< current task of each rank; kLogs: log of each rank
};

/// Messages of hosts to waiting kernels, in pinned memory.
struct Control {
  alignas(64) std::uint64_t aborted;  ///< nonzero if a host aborted the group
  std::uint64_t left;                 ///< a bit per rank whose host has left and whose kernels have ended
  struct alignas(64) OfRank {
    std::uint64_t begun;          ///< number of started tasks; written by its kernels
    std::uint64_t extended_task;  ///< task of a graph that is extended
    std::uint64_t extended_ns;    ///< extension of that task
    std::uint64_t extended_all;   ///< sum of all extensions of running and enqueued tasks, in ns
    std::uint64_t passed;         ///< the latest registration that it passed without a rendezvous
  } ranks[kMaxRanks];
  CudaVerdict verdict;
};

/// The result of an operation, in pinned memory, written by its kernel without waiting. Valid after the end is known
/// from another source.
struct alignas(64) Cell {
  /// Values of `result`.
  enum KernelResult : std::uint64_t { kRuns, kWell, kFailed };
  std::uint64_t sequence;  ///< number of the operation; 0 before it starts
  std::uint64_t began_ns;  ///< device time
  std::uint64_t ended_ns;  ///< device time
  std::uint64_t result;
};

/// See comm::Transfer; in elements. kEveryone and kOffered are -1.
struct TransferRow {
  std::int64_t from_offset;
  std::int64_t to_offset;
  std::int64_t count;
  std::int32_t from;
  std::int32_t to;
};

/// The arguments of a kernel for one operation; passed by value.
struct CudaLaunch {
  CudaGroupMemory* group;
  Control* control;
  Cell* cell;                   ///< null if no host reads it, as in a capture
  std::uint64_t deadline_ns;    ///< limit after its start; all ones: none
  std::uint64_t extended_base;  ///< extended_all at the enqueue; all ones in a graph, where only the replay is extended
  CudaNotice notice;            ///< the kernel fills in the task number
  std::int32_t rank;
  std::int32_t size;
  bool is_first;    ///< first kernel of its task, which it counts
  bool is_last;     ///< last kernel of its task, which it ends
  bool is_staged;   ///< inputs go through the stages; ranks need not part
  bool parts;       ///< waits until all ranks have made their transfers
  bool has_offers;  ///< writes an offer to each peer
  bool is_ahead;    ///< checked mode: only compares the operations
  std::uint32_t item_nbytes;
  double factor;                        ///< factor of a premultiplied sum
  std::int64_t in_nbytes;               ///< bytes to stage
  std::int64_t room;                    ///< size of the output in elements
  const std::int64_t* row_offsets;      ///< offsets of ragged_all_to_all, in rows; null: offers are given
  const std::int64_t* row_sizes;        ///< null: offers are given
  const std::int64_t* row_out_offsets;  ///< null: offers are given
  const std::int64_t* row_out_sizes;    ///< rows expected from each rank; null: as many as it sends
  std::int64_t row_count;               ///< elements per row
  std::int64_t in_rows;                 ///< rows of the input
  CudaOffer offers[kMaxRanks];
  std::uint64_t registration;  ///< registration of a rendezvous, or 0
  std::int32_t row_total;      ///< number of `rows`
  TransferRow rows[kMaxRanks];
};

/// The arguments of a kernel for a signal of symmetric memory; passed by value.
struct SignalLaunch {
  CudaGroupMemory* group;
  Control* control;
  std::uint64_t deadline_ns;    ///< limit after its start; all ones: none
  std::uint64_t extended_base;  ///< extended_all at the enqueue; all ones in a graph, which is not extended
  std::uint64_t log;            ///< for a barrier: digest of the requests to the pool; 0 if unknown
  std::int32_t rank;
  std::int32_t size;
  std::int32_t kind;  ///< a Signal::Kind
  std::int32_t peer;
  std::int32_t channel;
  std::uint32_t pool;
  SignalLine* pads[kMaxRanks];  ///< by rank
};

}  // namespace tessera::comm::cuda
