// The caching allocator of a device. It allocates memory for work on streams in constant time and reuses it only if
// stream order makes that safe.
//
//   Allocator& memory = Allocator::of(device);          // that of this rank
//   Buffer x = memory.allocate(nbytes, stream);
//
// Each pool and stream has a heap with its own lock. Another stream receives a free block only if its clock covers the
// uses of the block, or after a wait on the device (policy.h). docs/memory.md describes the design.
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

/// Options of an allocator.
struct AllocatorOptions {
  Policy policy = {};                            ///< Policy of the allocator.
  std::shared_ptr<Upstream> upstream = nullptr;  ///< Source of memory. Null: the device.
  /// True if the host writes the memory. A block is then reused only after its uses have completed, not merely if they
  /// are ordered before. All uses must be declared by use_on(), also those on the stream of the allocation. A block
  /// without declared uses is reused immediately.
  bool host_writes = false;
  std::string name = {};  ///< Shown in reports. Default: the name of the upstream.
};

/// Handle to an allocator. Copies share it. Thread-safe.
class TESSERA_API Allocator {
 public:
  /// Constructs an empty handle.
  Allocator() = default;
  /// Creates an allocator for `device`.
  explicit Allocator(const device::Device& device, AllocatorOptions options = {});
  /// Returns the allocator of this rank for `device`. It is created on first use with TESSERA_MEMORY_POLICY.
  static Allocator of(const device::Device& device);
  /// Returns the allocator of this rank for host memory that `device` accesses in place, for staging copies.
  static Allocator pinned_of(const device::Device& device);
  /// Returns true if the handle refers to an allocator.
  explicit operator bool() const { return state_ != nullptr; }

  /// Allocates memory for work on `stream` from the pool in force: that of the innermost PoolScope of this thread,
  /// otherwise that of the capture of the stream, otherwise the default pool. Throws OutOfMemoryError, which holds the
  /// report.
  [[nodiscard]] Buffer allocate(std::size_t nbytes, const device::Stream& stream) const;

  /// Creates a pool.
  [[nodiscard]] Pool create_pool(PoolOptions options = {}) const;
  /// Returns the default pool.
  [[nodiscard]] Pool default_pool() const;

  /// Sets the maximum of mapped bytes. 0: the capacity of the upstream.
  void set_limit(std::size_t nbytes) const;
  /// Sets the maximum of mapped bytes as a fraction, in (0, 1], of the capacity of the upstream.
  void set_limit_fraction(double fraction) const;
  /// Registers a callback that frees other memory before a request fails, and returns true if it freed any. It is
  /// called without locks and may use the allocator. Returns a number for off_pressure().
  std::uint64_t on_pressure(std::function<bool(std::size_t nbytes)> callback) const;
  /// Removes a pressure callback.
  void off_pressure(std::uint64_t number) const;
  /// Registers an observer that receives the report before OutOfMemoryError is thrown. It is called without locks.
  void on_out_of_memory(std::function<void(const std::string& report)> observer) const;
  /// Releases cached memory without outstanding uses to the upstream. Returns the bytes released; 0 during a capture.
  std::size_t trim() const;

  /// Returns counters and sums. Locks one heap at a time.
  [[nodiscard]] Statistics statistics() const;
  /// Resets the peaks to the current values.
  void reset_peaks() const;
  /// Returns the complete state, taken under all locks together.
  [[nodiscard]] Snapshot snapshot() const;
  /// Enables recording of call stacks at allocations and frees (about 100 ns each).
  void record_stacks(bool on) const;

  /// Returns the device.
  [[nodiscard]] device::Device device() const;
  /// Returns the name.
  [[nodiscard]] const std::string& name() const;
  /// Returns the policy in force.
  [[nodiscard]] Policy policy() const;
  /// Returns true if both handles refer to the same allocator.
  friend bool operator==(const Allocator& a, const Allocator& b) { return a.state_ == b.state_; }
  /// Returns the shared state.
  [[nodiscard]] const std::shared_ptr<AllocatorState>& state() const { return state_; }

 private:
  explicit Allocator(std::shared_ptr<AllocatorState> state) : state_(std::move(state)) {}
  std::shared_ptr<AllocatorState> state_;
};

}  // namespace tessera::memory
