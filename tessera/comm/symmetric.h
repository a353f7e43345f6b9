// Memory that the ranks of a group have alike and reach into: peers' pointers, and signals to order what they do there.
//
//   const comm::SymmetricPool pool(group, stream, {.nbytes = 1 << 20});   // all ranks together
//   const comm::SymmetricBuffer x = pool.allocate(4096);                   // each by itself, all alike
//   ...write x.data()...
//   pool.barrier(0, stream);                                               // everybody's x is written
//   ...read x.peer(p), for every p...
//   pool.barrier(0, stream);                                               // everybody has read: x may be written
//   again
//
// Ranks ask a pool for the same things in the same order: the offset of a buffer follows from the requests of its pool
// alone, so that no word is exchanged. What is not mapped yet is mapped by the next rendezvous(), which compares what
// the ranks asked for: where they differ it is an error on all of them, which says who and in what. So do barriers.
//
// Whatever reaches into peers' memory ends with a barrier; after it buffers may be freed and the pool let go of.
//
// Signals are counters that only rise, a pair of ranks and a channel each: n waits return when n puts have come. They
// are kept with the pool, so that neither another pool nor another group can stir them, and they count where they run,
// so that replays of a captured graph mix with the rest. Signals of one channel belong on streams that are ordered;
// channels know nothing of each other. When a signal does not come within the group's deadline, or the peer is gone,
// the group has failed as by any other operation (process_group.h): the error names pool, channel and rank.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "tessera/base/export.h"
#include "tessera/comm/process_group.h"
#include "tessera/device/stream.h"

namespace tessera::comm {

struct SymmetricState;
struct RegisteredRange;

/// Bytes that every rank of a group has. Move-only; the destructor gives those of a pool back to it, which counts as a
/// request of the pool. Bytes are handed out again at once: what uses them next is ordered behind what used them here,
/// by the stream, and behind what peers do here by a barrier.
class TESSERA_API SymmetricBuffer {
 public:
  /// None.
  SymmetricBuffer() = default;
  /// Made by SymmetricPool::allocate.
  SymmetricBuffer(std::shared_ptr<SymmetricState> pool, std::uint64_t offset, std::size_t nbytes);
  /// Made by register_memory.
  explicit SymmetricBuffer(std::shared_ptr<const RegisteredRange> range);
  SymmetricBuffer(SymmetricBuffer&& other) noexcept;
  SymmetricBuffer& operator=(SymmetricBuffer&& other) noexcept;
  ~SymmetricBuffer() { reset(); }

  /// Whether there are any.
  explicit operator bool() const { return pool_ != nullptr || range_ != nullptr; }
  /// Whether memory is behind it: false until the rendezvous that maps it.
  [[nodiscard]] bool is_mapped() const;
  /// This rank's; an error before they are mapped.
  [[nodiscard]] std::byte* data() const;
  /// The same bytes of the rank at place `rank` of the group, as this rank reaches them; its own: data().
  [[nodiscard]] std::byte* peer(int rank) const;
  /// How many.
  [[nodiscard]] std::size_t nbytes() const;
  /// Where they begin in the pool, the same on all ranks; 0 for memory that was registered.
  [[nodiscard]] std::uint64_t offset() const { return offset_; }
  /// Gives them back.
  void reset() noexcept;

 private:
  std::shared_ptr<SymmetricState> pool_;
  std::shared_ptr<const RegisteredRange> range_;
  std::uint64_t offset_ = 0;
  std::size_t nbytes_ = 0;
};

/// How a pool is made; the same on all ranks.
struct SymmetricOptions {
  std::string name = {};   ///< shown in errors; not given: "pool 1", ...
  std::size_t nbytes = 0;  ///< mapped at first; more comes at a rendezvous
  int channels = 8;        ///< of signals
};

/// See the head of this file. A shared handle; thread-safe, but requests of several threads come in an order that other
/// ranks must have too.
class TESSERA_API SymmetricPool {
 public:
  /// None.
  SymmetricPool() = default;
  /// A pool of the group, in memory of the stream's device; asked for by all its ranks together. Rendezvous run on the
  /// stream. NotSupported where the group's backend has no symmetric memory.
  SymmetricPool(const ProcessGroup& group, const device::Stream& stream, const SymmetricOptions& options = {});
  /// Whether there is one.
  explicit operator bool() const { return state_ != nullptr; }

  /// At least `nbytes` (above 0) bytes on a boundary of 512. Local and quick: never waits, never maps, allowed in a
  /// capture. Where the pool has no room the buffer is mapped by the next rendezvous.
  [[nodiscard]] SymmetricBuffer allocate(std::size_t nbytes) const;
  /// Compares what the ranks asked for, and maps what is not mapped yet. Called by all ranks; waits for them; an error
  /// in a capture. MismatchError on all ranks when they differ: the pool can do nothing any more, the group can. When a
  /// rank has no memory left it is OutOfMemory there and AbortedError on the others, and nothing has changed.
  void rendezvous() const;

  /// When the work before it on the stream is done: tells `peer`, on one channel.
  void put_signal(int peer, int channel, const device::Stream& stream) const;
  /// Work behind it on the stream waits for the next signal of `peer` on the channel, and sees what it wrote before.
  void wait_signal(int peer, int channel, const device::Stream& stream) const;
  /// Work behind it waits until all ranks have come, and sees what they wrote before: a signal to and from everybody.
  void barrier(int channel, const device::Stream& stream) const;

  /// Its name.
  [[nodiscard]] const std::string& name() const;
  /// Its group.
  [[nodiscard]] const ProcessGroup& group() const;
  /// Channels of signals.
  [[nodiscard]] int channels() const;
  /// Bytes that are mapped on each rank.
  [[nodiscard]] std::size_t mapped_nbytes() const;

 private:
  std::shared_ptr<SymmetricState> state_;
};

/// Peers' pointers of device memory that is there already. All ranks ask for the same number of bytes in the same
/// order, as an operation of the group on this stream. The first time the ranks tell each other where their bytes are,
/// which waits; the answer is kept for (group, range, mapping), so that asking again costs no exchange while the bytes
/// are where they were. Ranks that differ (one asks and another does not, or finds its own in the cache when another
/// does not) are told so by the next operation of the group that is not captured: a MismatchError on all of them.
/// InvalidArgument on all ranks where one has memory that peers cannot reach. Keeps nothing alive.
TESSERA_API SymmetricBuffer register_memory(const ProcessGroup& group, void* data, std::size_t nbytes,
                                            const device::Stream& stream);
/// Lets go of what is kept for a range, which is registered anew when it is asked for again: before its memory goes
/// away, and behind a barrier after which no peer reaches for it. All ranks ask for it in the same order as for
/// registrations, and are told likewise where they differ; no word is exchanged. InvalidArgument where the range is not
/// registered.
TESSERA_API void deregister_memory(const ProcessGroup& group, const void* data, std::size_t nbytes);

}  // namespace tessera::comm
