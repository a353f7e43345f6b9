// The memory that the ranks of a group share if they can access each other's memory: on the heap between threads, in a
// memory file between processes. It holds no pointers. It contains common rules, the group failure, and for each rank:
//
//   board     its progress; written only by this rank
//   notices   its operation of the current step: two, used in turn
//   offers    its offers to each peer in the current step (Offer): two rows, used in turn
//   stages    copies of its input, a window at a time: two for steps, used in turn, and one for messages
//   mail      its messages to each peer
//
// All ranks go through the same steps. A rank writes the notice, offers and stage of a step, then raises `arrived`;
// peers that see this value may read them. The rank may overwrite them two steps later: it passes the step in between
// only after all ranks have arrived there, and a rank arrives after it has read everything of the previous step.
//
// A rank that fails returns its buffers to its caller, so peers must no longer access them. Ranks increment `reaching`
// while they access memory of peers, and start no access after a group failure; a failing rank waits until none is
// active.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "tessera/comm/collectives/collective.h"
#include "tessera/comm/operation.h"

namespace tessera::comm::detail {

/// Maximum number of ranks in such a group.
inline constexpr int kMaxPeers = 1024;
/// Bytes per stage.
inline constexpr std::size_t kStageBytes = std::size_t{64} << 10;

/// The location of a rank's buffer, for its peers.
struct BufferLocation {
  std::uint64_t where = 0;        ///< an address, or an offset in the rank's memory file
  std::uint64_t nbytes = 0;       ///< size of the buffer
  std::uint8_t is_reachable = 1;  ///< 0: peers cannot access it; its bytes go through the stage
};

/// Progress of a rank. Peers spin on the first words. No other field that changes per operation shares their cache
/// lines: each store there would take the line from the peers, and the next raise would wait for it again.
struct alignas(128) Board {
  std::atomic<std::uint64_t> arrived{0};            ///< step that it has reached
  std::atomic<std::uint64_t> finished{0};           ///< step whose transfers it has made
  std::atomic<std::uint32_t> sleepers{0};           ///< number of peers that sleep until one of these changes
  std::atomic<std::uint32_t> has_left{0};           ///< it has released the group, or its thread has ended
  std::atomic<std::uint64_t> joined{0};             ///< 1: it has joined
  alignas(128) std::atomic<std::uint64_t> task{0};  ///< number of its current task
  std::atomic<std::uint64_t> reaching{0};           ///< nonzero while it accesses memory of its peers
  std::atomic<std::uint64_t> passed{0};             ///< the latest registration that it passed without a rendezvous
  char group[64] = {};                              ///< name of the group of its current task, for mismatch errors
};

/// A rank's operation in a step.
struct alignas(64) Notice {
  Fingerprint fingerprint;          ///< fingerprint of the operation
  std::uint64_t task = 0;           ///< number of tasks with collectives so far, including this one
  std::uint64_t registrations = 0;  ///< digest of the earlier registrations; 0 if unknown
  OpKind kind = OpKind::kBarrier;   ///< this and the fields up to counts_digest are for mismatch errors
  DType dtype = DType::kU8;
  Reduction reduction = Reduction::kSum;
  std::int32_t root = 0;
  std::int64_t count = 0;
  std::uint64_t counts_digest = 0;  ///< digest of uneven counts and targets
  BufferLocation in;
  BufferLocation out;
  std::uint64_t group = 0;       ///< digest of the group name
  double factor = 1;             ///< factor of the reduction; this and the fields below are for mismatch errors
  std::uint64_t layouts = 0;     ///< see Geometry
  std::uint16_t parts = 0;       ///< number of uneven counts or targets
  std::int16_t dims = -1;        ///< dimensions of the tensor; -1 if no geometry is stated
  std::int8_t split = -1;        ///< see Geometry
  std::int8_t concat = -1;       ///< see Geometry
  std::int64_t first_parts[16];  ///< the first counts or targets; the rest is not set, to save time
  std::int64_t first_sizes[8];   ///< sizes of the first dimensions; the rest is not set
};

/// Messages of a rank to one peer. `posted` and `taken` count messages, or windows of them.
struct alignas(128) Mail {
  std::atomic<std::uint64_t> posted{0};  ///< written by the sender
  DType dtype = DType::kU8;              ///< dtype of the elements
  std::int64_t count = 0;                ///< elements of the complete message
  std::uint64_t group = 0;               ///< digest of the group name
  BufferLocation place;      ///< location of the message; if unreachable, this window is in the sender's third stage
  std::uint64_t offset = 0;  ///< first byte of this window
  std::uint64_t nbytes = 0;  ///< bytes of this window
  alignas(64) std::atomic<std::uint64_t> taken{0};  ///< written by the receiver
};

/// The group failure, written once.
struct GroupFailure {
  enum State : std::uint32_t { kOpen, kBeingWritten, kWritten };
  std::atomic<std::uint32_t> state{kOpen};     ///< the other fields are valid in state kWritten
  std::uint8_t kind = 0;                       ///< Failure::Kind
  OpKind operation = OpKind::kBarrier;         ///< operation that detected it
  std::int32_t by = 0;                         ///< group rank that wrote it
  std::uint64_t task = 0;                      ///< number of the task
  std::uint64_t missing[kMaxPeers / 64] = {};  ///< a bit per group rank
  char text[3072] = {};                        ///< zero-terminated
};

/// Common rules, set by the creator of the memory.
struct Rules {
  std::uint32_t is_checked = 0;  ///< ranks compare a complete launch before they run any of it
};

/// The parts of the memory of a group; owns nothing.
class GroupMemory {
 public:
  /// Constructs an empty view.
  GroupMemory() = default;
  /// Views `memory`, of at least nbytes(size).
  GroupMemory(std::byte* memory, int size);
  /// Returns the size for a group of `size` ranks.
  static std::size_t nbytes(int size);
  /// Initializes the memory with these rules.
  void initialise(const Rules& rules) const;

  [[nodiscard]] int size() const { return size_; }
  [[nodiscard]] const Rules& rules() const { return *rules_; }
  [[nodiscard]] GroupFailure& verdict() const { return *verdict_; }
  [[nodiscard]] Board& board(int rank) const { return boards_[rank]; }
  [[nodiscard]] Notice& notice(int rank, std::uint64_t step) const { return notices_[row_of(rank, step)]; }
  /// Returns the offer of `rank` to `peer`.
  [[nodiscard]] Offer& offer(int rank, int peer, std::uint64_t step) const {
    return offers_[row_of(rank, step) * static_cast<std::size_t>(size_) + static_cast<std::size_t>(peer)];
  }
  [[nodiscard]] std::byte* stage(int rank, std::uint64_t step) const {
    return stages_ + (3 * static_cast<std::size_t>(rank) + step % 2) * kStageBytes;
  }
  /// Returns the stage for messages.
  [[nodiscard]] std::byte* message_stage(int rank) const {
    return stages_ + (3 * static_cast<std::size_t>(rank) + 2) * kStageBytes;
  }
  [[nodiscard]] Mail& mail(int from, int to) const { return mails_[from * size_ + to]; }

 private:
  static std::size_t row_of(int rank, std::uint64_t step) { return 2 * static_cast<std::size_t>(rank) + step % 2; }

  int size_ = 0;
  Rules* rules_ = nullptr;
  GroupFailure* verdict_ = nullptr;
  Board* boards_ = nullptr;
  Notice* notices_ = nullptr;
  Offer* offers_ = nullptr;
  Mail* mails_ = nullptr;
  std::byte* stages_ = nullptr;
};

}  // namespace tessera::comm::detail
