// The pools of an allocator and their heaps. A handle keeps the allocator alive; the allocator keeps a closed pool
// until its last block is gone. The slow lock is held unless a method takes it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "tessera/memory/detail/pool_state.h"

namespace tessera::memory::detail {

/// The pools of one allocator, the default pool first.
class PoolTable {
 public:
  /// Creates an empty table.
  explicit PoolTable(AllocatorState& allocator) : allocator_(allocator) {}

  /// Adds a pool. The memory of an imaginary pool is only counted.
  PoolState& add(PoolOptions options, PoolId id, bool is_imaginary = false);
  /// Returns the first handle of a pool. The pool closes with its last handle.
  std::shared_ptr<PoolState> handle_to(PoolState& pool);
  /// Releases memory of closed pools, and removes those that are empty.
  void remove_closed() noexcept;
  /// Returns the heap of a stream, created on first use. Takes the slow lock if needed.
  Heap& heap_for(PoolState& pool, const device::StreamSlot& slot);
  /// Creates a heap without memory; `slot` null: for captures.
  Heap& add_heap(PoolState& pool, const device::StreamSlot* slot);
  /// Returns the heaps of all pools.
  [[nodiscard]] std::vector<Heap*> heaps() const;
  /// Iterates over the pools.
  [[nodiscard]] auto begin() const { return pools_.begin(); }
  /// Returns the end of the pools.
  [[nodiscard]] auto end() const { return pools_.end(); }

  std::size_t gone_peaks = 0;    ///< peaks of removed heaps, since the last reset
  std::uint64_t last_user = 0;   ///< number of the last pool of a user
  std::uint64_t last_graph = 0;  ///< number of the last pool of a graph

 private:
  void close(PoolState& pool) noexcept;  // takes the slow lock
  void shrink_closed(PoolState& pool) noexcept;

  AllocatorState& allocator_;
  std::vector<std::unique_ptr<PoolState>> pools_;
};

}  // namespace tessera::memory::detail
