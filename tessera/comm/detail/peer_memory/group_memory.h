// The memory that the ranks of a group share when they see each other's memory: on the heap between threads, in a
// memory file between processes. It holds no pointers. Beside the rules that all hold to and the verdict, of every
// rank:
//
//   board     how far it has come; written by it alone
//   notices   what it does in its step: two, used in turn
//   offers    what it tells each peer in its step (Offer): two rows, used in turn
//   stages    copies of its input, a window at a time: two for steps, used in turn, and one for messages
//   mail      to each peer: what it sends there
//
// Ranks go through the same steps. A rank writes its notice, offers and stage of a step, then raises `arrived`; whoever
// has seen that may read them. It may write the same ones again two steps later: it passes the step between only when
// all have arrived there, and a rank arrives when it has done with what it read in the step before.
//
// A rank that fails gives its buffers back to who asked, so nobody may touch them any more: ranks raise `reaching`
// while they touch memory of peers and do not begin to once there is a verdict; who fails waits until none does.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "tessera/comm/collectives/collective.h"
#include "tessera/comm/operation.h"

namespace tessera::comm::detail {

/// The most ranks of such a group.
inline constexpr int kMostPeers = 1024;
/// Bytes of a stage.
inline constexpr std::size_t kStageBytes = std::size_t{64} << 10;

/// Where a rank's buffer is, so that peers can find it.
struct Place {
  std::uint64_t where = 0;        ///< an address, or an offset in the rank's memory file
  std::uint64_t nbytes = 0;       ///< its size
  std::uint8_t is_reachable = 1;  ///< 0: peers cannot reach it, its bytes go through the stage
};

/// How far a rank has come. Peers spin on the first words, so nothing else that changes with an operation is on their
/// cache lines: each store there would take the line from the peers, and the raise that follows would wait for it
/// again.
struct alignas(128) Board {
  std::atomic<std::uint64_t> arrived{0};            ///< step that it has come to
  std::atomic<std::uint64_t> finished{0};           ///< step whose moves it has made
  std::atomic<std::uint32_t> sleepers{0};           ///< peers that sleep until one of these changes
  std::atomic<std::uint32_t> has_left{0};           ///< it has let go of the group, or its thread has ended
  std::atomic<std::uint64_t> joined{0};             ///< 1: it is there
  alignas(128) std::atomic<std::uint64_t> task{0};  ///< number of the task that it is at
  std::atomic<std::uint64_t> reaching{0};           ///< above 0: it reads or writes memory of its peers
  std::atomic<std::uint64_t> passed{0};             ///< registration that it took without a rendezvous, the latest
  char group[64] = {};  ///< name of the group whose task it is at, for the words of a mismatch
};

/// What a rank does in a step.
struct alignas(64) Notice {
  Fingerprint fingerprint;                  ///< of its operation
  std::uint64_t task = 0;                   ///< tasks with collectives so far, that of this step counted
  std::uint64_t registrations = 0;          ///< digest of those before it; 0: not known
  OpKind kind = OpKind::kBarrier;           ///< what follows is for the words of a mismatch
  DType dtype = DType::kU8;                 ///< likewise
  ReduceKind reduction = ReduceKind::kSum;  ///< likewise
  std::int32_t root = 0;                    ///< likewise
  std::int64_t count = 0;                   ///< likewise
  std::uint64_t counts_digest = 0;          ///< likewise, of uneven parts and targets
  Place in;                                 ///< its input
  Place out;                                ///< its output
  std::uint64_t group = 0;                  ///< digest of the group's name
  double factor = 1;                        ///< of a reduction that has one; for words, as are the parts that fit here
  std::uint64_t layouts = 0;                ///< as in Geometry, whose fields follow; for words as well
  std::uint16_t parts = 0;                  ///< how many there are
  std::int16_t dims = -1;                   ///< dimensions of the tensor; -1: none is stated
  std::int8_t split = -1;                   ///< as in Geometry
  std::int8_t concat = -1;                  ///< as in Geometry
  std::int64_t first_parts[16];             ///< the first of them, or targets; no more are set, which saves time
  std::int64_t first_sizes[8];              ///< sizes of the first dimensions; no more are set
};

/// What a rank sends to one peer. `posted` and `taken` count messages (or windows of them).
struct alignas(128) Mail {
  std::atomic<std::uint64_t> posted{0};  ///< written by the sender
  DType dtype = DType::kU8;              ///< of its elements
  std::int64_t count = 0;                ///< of the whole message
  std::uint64_t group = 0;               ///< digest of its group's name
  Place place;                           ///< where it is; unreachable: this window is in the sender's third stage
  std::uint64_t offset = 0;              ///< first byte of this window
  std::uint64_t nbytes = 0;              ///< bytes of this window
  alignas(64) std::atomic<std::uint64_t> taken{0};  ///< written by the receiver
};

/// How the group ended, written once.
struct Verdict {
  enum State : std::uint32_t { kOpen, kBeingWritten, kWritten };
  std::atomic<std::uint32_t> state{kOpen};      ///< what follows is there when it is kWritten
  std::uint8_t kind = 0;                        ///< Failure::Kind
  OpKind operation = OpKind::kBarrier;          ///< that it was seen in
  std::int32_t by = 0;                          ///< rank that wrote it
  std::uint64_t task = 0;                       ///< number of the task
  std::uint64_t missing[kMostPeers / 64] = {};  ///< a bit for each rank
  char text[3072] = {};                         ///< ends with a zero
};

/// What all ranks hold to, as whoever made the memory said.
struct Rules {
  std::uint32_t is_checked = 0;  ///< all of a launch is compared before any of it is done
};

/// The parts of such memory; owns nothing.
class GroupMemory {
 public:
  /// None.
  GroupMemory() = default;
  /// Looks at `memory`, of at least nbytes(size).
  GroupMemory(std::byte* memory, int size);
  /// Bytes for a group of `size` ranks.
  static std::size_t nbytes(int size);
  /// Makes the memory ready for use, under these rules.
  void initialise(const Rules& rules) const;

  [[nodiscard]] int size() const { return size_; }
  [[nodiscard]] const Rules& rules() const { return *rules_; }
  [[nodiscard]] Verdict& verdict() const { return *verdict_; }
  [[nodiscard]] Board& board(int rank) const { return boards_[rank]; }
  [[nodiscard]] Notice& notice(int rank, std::uint64_t step) const { return notices_[row_of(rank, step)]; }
  /// What `rank` tells `peer`.
  [[nodiscard]] Offer& offer(int rank, int peer, std::uint64_t step) const {
    return offers_[row_of(rank, step) * static_cast<std::size_t>(size_) + static_cast<std::size_t>(peer)];
  }
  [[nodiscard]] std::byte* stage(int rank, std::uint64_t step) const {
    return stages_ + (3 * static_cast<std::size_t>(rank) + step % 2) * kStageBytes;
  }
  /// The stage for messages.
  [[nodiscard]] std::byte* message_stage(int rank) const {
    return stages_ + (3 * static_cast<std::size_t>(rank) + 2) * kStageBytes;
  }
  [[nodiscard]] Mail& mail(int from, int to) const { return mails_[from * size_ + to]; }

 private:
  static std::size_t row_of(int rank, std::uint64_t step) { return 2 * static_cast<std::size_t>(rank) + step % 2; }

  int size_ = 0;
  Rules* rules_ = nullptr;
  Verdict* verdict_ = nullptr;
  Board* boards_ = nullptr;
  Notice* notices_ = nullptr;
  Offer* offers_ = nullptr;
  Mail* mails_ = nullptr;
  std::byte* stages_ = nullptr;
};

}  // namespace tessera::comm::detail
