// The caching allocator of a device: memory for work on streams, handed out in constant time and reused by proof.
//
//   Allocator& memory = Allocator::of(device);          // this rank's
//   Buffer x = memory.allocate(nbytes, stream);
//
// Memory is kept per pool and stream in heaps with a lock each; a free block goes to another stream only when that
// stream's clock covers its uses, or behind a wait on the device (policy.h). docs/memory.md tells the whole story.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "tessera/base/export.h"
#include "tessera/device/device.h"
#include "tessera/memory/buffer.h"
#include "tessera/memory/policy.h"
#include "tessera/memory/pool.h"
#include "tessera/memory/snapshot.h"
#include "tessera/memory/statistics.h"
#include "tessera/memory/upstream.h"

namespace tessera::memory {

struct AllocatorState;

/// How an allocator is made.
struct AllocatorOptions {
  Policy policy = {};                            ///< its choices
  std::shared_ptr<Upstream> upstream = nullptr;  ///< where memory comes from; null: the device
  /// Whether the host writes the memory: a block is then handed out again only when its uses have completed, not merely
  /// when they are ordered before. All uses must be told by use_on(), also those of the stream it was allocated for:
  /// what nobody used is handed out again at once.
  bool host_writes = false;
  std::string name = {};  ///< shown in reports; default: the upstream's name
};

/// An allocator. A shared handle. Thread-safe.
class TESSERA_API Allocator {
 public:
  /// No allocator.
  Allocator() = default;
  /// A new one for `device`.
  explicit Allocator(const device::Device& device, AllocatorOptions options = {});
  /// This rank's allocator for `device`, made on first use with TESSERA_MEMORY_POLICY.
  static Allocator of(const device::Device& device);
  /// This rank's allocator of host memory that `device` reads and writes in place, for staging copies.
  static Allocator pinned_of(const device::Device& device);
  /// Whether there is an allocator.
  explicit operator bool() const { return state_ != nullptr; }

  /// Memory for work on `stream`, from the pool in force (innermost PoolScope of this thread, the pool of the capture
  /// that the stream is in, else the default). Throws OutOfMemoryError, which carries the report.
  [[nodiscard]] Buffer allocate(std::size_t nbytes, const device::Stream& stream) const;

  /// A new pool.
  [[nodiscard]] Pool create_pool(PoolOptions options = {}) const;
  /// The default pool.
  [[nodiscard]] Pool default_pool() const;

  /// Most bytes to map; 0: what the upstream has.
  void set_limit(std::size_t nbytes) const;
  /// The same as a share, above 0 and at most 1, of the upstream's capacity.
  void set_limit_fraction(double fraction) const;
  /// Called when a request is about to fail, to free memory held elsewhere; returns whether it freed any. Called with
  /// no lock held; may use the allocator. Returns a number for off_pressure.
  std::uint64_t on_pressure(std::function<bool(std::size_t nbytes)> callback) const;
  /// Ends a callback.
  void off_pressure(std::uint64_t number) const;
  /// Called with the report before OutOfMemoryError is thrown. No lock is held.
  void on_out_of_memory(std::function<void(const std::string& report)> observer) const;
  /// Gives cached memory whose uses have completed back to the upstream; nothing while a capture is under way. Returns
  /// the bytes given back.
  std::size_t trim() const;

  /// Counters and sums; each heap's lock in turn.
  [[nodiscard]] Statistics statistics() const;
  /// Peaks start again from what is held now.
  void reset_peaks() const;
  /// Everything it holds, under all its locks at once.
  [[nodiscard]] Snapshot snapshot() const;
  /// Whether call stacks are recorded with allocations and frees (about 100 ns each).
  void record_stacks(bool on) const;

  /// Its device.
  [[nodiscard]] device::Device device() const;
  /// Its name.
  [[nodiscard]] const std::string& name() const;
  /// The policy in force.
  [[nodiscard]] Policy policy() const;
  /// Same allocator.
  friend bool operator==(const Allocator& a, const Allocator& b) { return a.state_ == b.state_; }
  /// The shared state.
  [[nodiscard]] const std::shared_ptr<AllocatorState>& state() const { return state_; }

 private:
  explicit Allocator(std::shared_ptr<AllocatorState> state) : state_(std::move(state)) {}
  std::shared_ptr<AllocatorState> state_;
};

}  // namespace tessera::memory
