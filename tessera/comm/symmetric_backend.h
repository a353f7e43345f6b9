// What a transport adds for symmetric memory (symmetric.h): where peers' memory is, and the signals of a pool. Pools
// count, check and agree; they meet by OpKind::kRendezvous, which moves what an all_gather moves.
//
// A rank's signal pad is device memory of its own, zero before any rank can put, with a line for each channel and peer:
//
//   pad of rank r:   channel 0: [from 0][from 1]...   channel 1: [from 0][from 1]...   ...
//
//   put(p, c)    on rank r:   adds 1 to `arrived` of line [c][from r] of p's pad, after all that r wrote before
//   wait(p, c)   on rank r:   adds 1 to `awaited` of line [c][from p] of its own pad, waits until `arrived` has come to
//   it barrier(c)   on rank r:   puts to every other rank, then waits for every other rank
//
// Numbers only rise, and they rise where the work runs: replays of a graph count like everything else.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/device/stream.h"

namespace tessera::comm {

namespace detail {
class GroupRecord;
}

/// Where memory of a rank is, as its peers understand it.
struct PeerPlace {
  std::uint64_t where = 0;  ///< an address, or an offset in the rank's memory file
  /// The same place.
  friend bool operator==(const PeerPlace&, const PeerPlace&) = default;
};

/// What one peer has to do with one channel of a pad.
struct alignas(64) SignalLine {
  std::uint64_t arrived;   ///< puts of the peer; raised by the peer
  std::uint64_t log;       ///< what the peer's latest barrier here said of its requests: kLogBits of Signal::log below,
                           ///< the low bits of its number (as in `arrived`) above; written before `arrived` rises
  std::uint64_t awaited;   ///< waits for the peer; raised by the owner of the pad
  std::uint32_t sleepers;  ///< whether the owner sleeps on `arrived`; host transports
};
/// Bits of SignalLine::log that are the log.
inline constexpr int kLogBits = 48;

/// The pads of a pool, as one rank sees them.
struct SignalPads {
  std::shared_ptr<const std::string> group;  ///< name of the group, for errors
  std::string pool;                          ///< name of the pool, for errors
  int channels = 0;                          ///< how many
  std::vector<SignalLine*> pads;             ///< by rank
  std::shared_ptr<const void> memory;        ///< keeps this rank's own
  /// Record of the group, for waits that last; null: they are not recorded.
  std::shared_ptr<detail::GroupRecord> record = nullptr;
  /// A line of the pad of rank `owner`.
  [[nodiscard]] SignalLine& line(int owner, int channel, int from) const {
    const std::size_t at = static_cast<std::size_t>(channel) * pads.size() + static_cast<std::size_t>(from);
    return pads[static_cast<std::size_t>(owner)][at];
  }
};

/// What a stream is asked to do. Channel and peer are right.
struct Signal {
  /// What.
  enum class Kind : std::uint8_t {
    kPut,      ///< to the peer
    kWait,     ///< for the peer
    kBarrier,  ///< with all
  };
  Kind kind = Kind::kPut;  ///< what
  int peer = 0;            ///< of put and wait
  int channel = 0;         ///< which
  /// Of a barrier: a digest of all that the pool was asked for before it; ranks whose digests differ are told so by
  /// a transport that compares. 0: not known, as in a capture.
  std::uint64_t log = 0;
  std::chrono::nanoseconds deadline{0};  ///< from its start, of all waiting
};

/// The signals of one pool on one rank. Thread-safe.
class TESSERA_API SignalBackend {
 public:
  virtual ~SignalBackend() = default;
  /// Puts it on the stream; in a capture it becomes part of the graph. A deadline that passes, or a peer that is gone,
  /// ends the group: this and every later operation of the group fails, on all ranks, and none waits any more.
  virtual void enqueue(const Signal& signal, const device::Stream& stream) = 0;
};

/// One rank's side of symmetric memory. Thread-safe.
class TESSERA_API SymmetricBackend {
 public:
  virtual ~SymmetricBackend() = default;
  /// Where memory of this rank is now, which may be mapped anew at the same addresses; nullopt: peers cannot reach it.
  virtual std::optional<PeerPlace> place_of(const void* address, std::size_t nbytes) = 0;
  /// Where a place of another rank is for this one, while the communicator lives.
  virtual std::byte* reach(int peer, const PeerPlace& place) = 0;
  /// The signals of a pool whose pads are zero. Keeps the memory of `pads` as long as a peer may write there.
  virtual std::shared_ptr<SignalBackend> connect_signals(SignalPads pads) = 0;
  /// Tells peers that this rank has gone past a registration (counted from 1) without a rendezvous: one that waits for
  /// it there waits in vain.
  virtual void note_passed(std::uint64_t registration) = 0;
};

}  // namespace tessera::comm
