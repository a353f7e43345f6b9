// The interface that a backend implements for symmetric memory (symmetric.h): access to peers' memory, and the signals
// of a pool. Pools count and check requests and meet by OpKind::kRendezvous, which transfers data like an all_gather.
//
// The signal pad of a rank is device memory of that rank, zeroed before any rank can put, with a line per channel and
// peer:
//
//   pad of rank r:   channel 0: [from 0][from 1]...   channel 1: [from 0][from 1]...   ...
//
//   put(p, c)    on rank r:   adds 1 to `arrived` of line [c][from r] of p's pad, after all earlier writes of r
//   wait(p, c)   on rank r:   adds 1 to `awaited` of line [c][from p] of its own pad, waits until `arrived` reaches it
//   barrier(c)   on rank r:   puts to every other rank, then waits for every other rank
//
// The counters only increase, and they increase when the work runs, so graph replays count like eager work.
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

/// The location of memory of a rank, in terms that its peers understand.
struct PeerPlace {
  std::uint64_t where = 0;  ///< an address, or an offset in the rank's memory file
  /// Returns true if both are the same location.
  friend bool operator==(const PeerPlace&, const PeerPlace&) = default;
};

/// The state of one peer and one channel of a pad.
struct alignas(64) SignalLine {
  /// Requests of the peer at its latest barrier here: kLogBits of Signal::log in the low bits, the low bits of the
  /// barrier's number (as in `arrived`) above. Written before `arrived`.
  std::uint64_t arrived;
  /// requests of the peer at its latest barrier here: kLogBits of Signal::log in the low bits, the low bits of the
  /// barrier's number (as in `arrived`) above; written before `arrived`
  std::uint64_t log;
  std::uint64_t awaited;   ///< number of waits for the peer; incremented by the owner of the pad
  std::uint32_t sleepers;  ///< nonzero if the owner sleeps on `arrived`; host backends only
};
/// Number of bits of SignalLine::log that hold the log.
inline constexpr int kLogBits = 48;

/// The pads of a pool, as one rank sees them.
struct SignalPads {
  std::shared_ptr<const std::string> group;  ///< name of the group, for errors
  std::string pool;                          ///< name of the pool, for errors
  int channels = 0;                          ///< number of channels
  std::vector<SignalLine*> pads;             ///< one pad per group rank
  std::shared_ptr<const void> memory;        ///< keeps the pad of this rank alive
  /// Record of the group for long waits; null if they are not recorded.
  std::shared_ptr<detail::GroupRecord> record = nullptr;
  /// Returns a line of the pad of rank `owner`.
  [[nodiscard]] SignalLine& line(int owner, int channel, int from) const {
    const std::size_t at = static_cast<std::size_t>(channel) * pads.size() + static_cast<std::size_t>(from);
    return pads[static_cast<std::size_t>(owner)][at];
  }
};

/// One signal operation for a stream. Channel and peer are valid.
struct Signal {
  /// Kinds of signal operations.
  enum class Kind : std::uint8_t {
    kPut,      ///< increments the counter of the peer
    kWait,     ///< waits for the peer
    kBarrier,  ///< waits for all ranks
  };
  Kind kind = Kind::kPut;  ///< kind of the operation
  int peer = 0;            ///< group rank of the peer, for put and wait
  int channel = 0;         ///< channel number
  /// Digest of all requests to the pool before a barrier; 0 if unknown, as in a capture. Backends that compare digests
  /// report ranks whose digests differ.
  std::uint64_t log = 0;
  std::chrono::nanoseconds deadline{0};  ///< total limit of all waits, from the start of the operation
};

/// The signals of one pool on one rank. Thread-safe.
class TESSERA_API SignalBackend {
 public:
  virtual ~SignalBackend() = default;
  /// Enqueues the signal on the stream; in a capture it becomes part of the graph. A missed deadline or a lost peer
  /// ends the group: this and every later operation of the group fails on all ranks, without waiting.
  virtual void enqueue(const Signal& signal, const device::Stream& stream) = 0;
};

/// The symmetric memory interface of one rank. Thread-safe.
class TESSERA_API SymmetricBackend {
 public:
  virtual ~SymmetricBackend() = default;
  /// Returns the current location of memory of this rank, or nullopt if peers cannot access it. The location may change
  /// if memory is remapped at the same addresses.
  virtual std::optional<PeerPlace> place_of(const void* address, std::size_t nbytes) = 0;
  /// Returns this rank's pointer to a location of another rank, valid while the communicator lives.
  virtual std::byte* reach(int peer, const PeerPlace& place) = 0;
  /// Creates the signals of a pool whose pads are zero. Keeps the memory of `pads` alive while a peer may write to it.
  virtual std::shared_ptr<SignalBackend> connect_signals(SignalPads pads) = 0;
  /// Informs peers that this rank has passed a registration (numbered from 1) without a rendezvous, so that peers do
  /// not wait for this rank there.
  virtual void note_passed(std::uint64_t registration) = 0;
};

}  // namespace tessera::comm
