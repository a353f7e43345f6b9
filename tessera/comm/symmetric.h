// Symmetric memory: memory of equal size on each rank of a group, which all ranks can access directly, and signals that
// order these accesses.
//
//   const comm::SymmetricPool pool(group, stream, {.nbytes = 1 << 20});  // called by all ranks together
//   const comm::SymmetricBuffer x = pool.allocate(4096);                 // same request on each rank, no exchange
//   ...write x.data()...
//   pool.barrier(0, stream);                                             // x is written on all ranks
//   ...read x.peer(p), for every p...
//   pool.barrier(0, stream);                                             // all ranks have read; x may be written again
//
// All ranks must make the same requests to a pool in the same order. The offset of a buffer follows from the requests
// of its pool alone, so ranks exchange no data to allocate. The next rendezvous() maps buffers that are not mapped yet.
// rendezvous() and barrier() compare the requests of the ranks; if they differ, all ranks throw an error that names the
// difference.
//
// End every access to a peer's memory with a barrier. After it, buffers may be freed and the pool may be destroyed.
//
// A signal is a counter per pair of ranks and channel that only increases: the n-th wait returns after the n-th put.
// The counters belong to the pool; other pools and groups cannot change them. They count when the work runs, so graph
// replays mix with eager work. Use a channel only on streams that are ordered with each other; channels are
// independent. If a signal does not arrive before the group's deadline, or the peer is lost, the group fails as after
// any other operation (process_group.h). The error names the pool, channel and rank.
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

/// A buffer that exists on each rank of a group. Move-only. The destructor returns a buffer of a pool to it, which
/// counts as a request to the pool. The pool reuses the bytes immediately: stream order protects them from local work,
/// and a barrier must protect them from peers.
class TESSERA_API SymmetricBuffer {
 public:
  /// Constructs an empty buffer.
  SymmetricBuffer() = default;
  /// Constructs a buffer of a pool. Called by SymmetricPool::allocate.
  SymmetricBuffer(std::shared_ptr<SymmetricState> pool, std::uint64_t offset, std::size_t nbytes);
  /// Constructs a buffer of registered memory. Called by register_memory.
  explicit SymmetricBuffer(std::shared_ptr<const RegisteredRange> range);
  SymmetricBuffer(SymmetricBuffer&& other) noexcept;
  SymmetricBuffer& operator=(SymmetricBuffer&& other) noexcept;
  ~SymmetricBuffer() { reset(); }

  /// Returns true if the buffer is not empty.
  explicit operator bool() const { return pool_ != nullptr || range_ != nullptr; }
  /// Returns true if the buffer is mapped; false until the rendezvous that maps it.
  [[nodiscard]] bool is_mapped() const;
  /// Returns the bytes of this rank. Throws if the buffer is not mapped.
  [[nodiscard]] std::byte* data() const;
  /// Returns this rank's pointer to the same bytes of group rank `rank`; data() for this rank itself.
  [[nodiscard]] std::byte* peer(int rank) const;
  /// Returns the size in bytes.
  [[nodiscard]] std::size_t nbytes() const;
  /// Returns the offset in the pool, equal on all ranks; 0 for registered memory.
  [[nodiscard]] std::uint64_t offset() const { return offset_; }
  /// Releases the buffer.
  void reset() noexcept;

 private:
  std::shared_ptr<SymmetricState> pool_;
  std::shared_ptr<const RegisteredRange> range_;
  std::uint64_t offset_ = 0;
  std::size_t nbytes_ = 0;
};

/// Options of a pool; must be equal on all ranks.
struct SymmetricOptions {
  std::string name = {};   ///< shown in errors; by default "pool 1", ...
  std::size_t nbytes = 0;  ///< bytes mapped initially; a rendezvous maps more if needed
  int channels = 8;        ///< number of signal channels
};

/// Handle to a pool of symmetric memory. Copies share the pool. Thread-safe, but requests of several threads must have
/// the same order on all ranks.
class TESSERA_API SymmetricPool {
 public:
  /// Constructs an empty handle.
  SymmetricPool() = default;
  /// Creates a pool of the group in memory of the stream's device. All ranks of the group must call it. Rendezvous run
  /// on `stream`. Throws NotSupported if the backend of the group has no symmetric memory.
  SymmetricPool(const ProcessGroup& group, const device::Stream& stream, const SymmetricOptions& options = {});
  /// Returns true if the handle refers to a pool.
  explicit operator bool() const { return state_ != nullptr; }

  /// Allocates at least `nbytes` (> 0) bytes, aligned to 512 bytes. Never waits or maps, and may be called in a
  /// capture. If the pool has no room, the next rendezvous maps the buffer.
  [[nodiscard]] SymmetricBuffer allocate(std::size_t nbytes) const;
  /// Compares the requests of the ranks and maps buffers that are not mapped yet. All ranks must call it; it waits for
  /// them. Throws in a capture. Throws MismatchError on all ranks if their requests differ; the pool is unusable
  /// afterwards, the group is not. If a rank runs out of memory, it throws OutOfMemory there and AbortedError on the
  /// other ranks, and changes nothing.
  void rendezvous() const;

  /// Enqueues a signal to `peer` on a channel, sent after the earlier work on the stream has finished.
  void put_signal(int peer, int channel, const device::Stream& stream) const;
  /// Makes later work on the stream wait for the next signal of `peer` on the channel. That work sees all earlier
  /// writes of the peer.
  void wait_signal(int peer, int channel, const device::Stream& stream) const;
  /// Makes later work on the stream wait until all ranks have arrived. That work sees their earlier writes. Equivalent
  /// to a signal to and from each rank.
  void barrier(int channel, const device::Stream& stream) const;

  /// Returns the name of the pool.
  [[nodiscard]] const std::string& name() const;
  /// Returns the group of the pool.
  [[nodiscard]] const ProcessGroup& group() const;
  /// Returns the number of signal channels.
  [[nodiscard]] int channels() const;
  /// Returns the number of bytes mapped on each rank.
  [[nodiscard]] std::size_t mapped_nbytes() const;

 private:
  std::shared_ptr<SymmetricState> state_;
};

/// Returns the peers' pointers to existing device memory. All ranks must call it with equal `nbytes` in the same order;
/// it is an operation of the group on this stream. The first call exchanges the addresses and waits. The result is
/// cached for (group, range, mapping), so later calls exchange nothing while the bytes stay where they are. If the
/// ranks differ (only some call it, or only some find a cached result), the next operation of the group that is not
/// captured throws MismatchError on all ranks. Throws InvalidArgument on all ranks if the memory of one is not
/// accessible to peers. Keeps no memory alive.
TESSERA_API SymmetricBuffer register_memory(const ProcessGroup& group, void* data, std::size_t nbytes,
                                            const device::Stream& stream);
/// Discards the cached registration of a range. Call it before the memory is freed, and after a barrier that ends all
/// accesses by peers. All ranks must call it, in the same order relative to registrations; differences are reported as
/// for register_memory. Exchanges no data. Throws InvalidArgument if the range is not registered.
TESSERA_API void deregister_memory(const ProcessGroup& group, const void* data, std::size_t nbytes);

}  // namespace tessera::comm
