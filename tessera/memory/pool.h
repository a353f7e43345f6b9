// Pools: private memory within an allocator.
//
//   Pool pool = allocator.create_pool({.name = "kv cache", .no_split = true});
//   { PoolScope scope(pool);  x = allocator.allocate(n, stream); }   // from the pool, on this thread
//
// Scopes nest per thread, and the innermost one applies. Captured graphs also keep their memory in pools
// (graph_capture.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/memory/buffer.h"
#include "tessera/memory/snapshot.h"
#include "tessera/memory/upstream.h"

namespace tessera::memory {

class Allocator;
struct PoolState;

/// Options of a pool.
struct PoolOptions {
  std::string name = {};                         ///< Shown in reports. Default: "pool N".
  bool no_split = false;                         ///< One block per segment, for memory that is registered by segment.
  bool borrow_on_oom = false;                    ///< Other pools may take its cached memory before a request fails.
  std::shared_ptr<Upstream> upstream = nullptr;  ///< Source of memory. Null: that of the allocator.
};

/// A segment that a pool acquired or is about to release.
struct Growth {
  std::byte* address = nullptr;  ///< First byte.
  std::size_t nbytes = 0;        ///< Size in bytes.
  bool is_mapped = true;         ///< False if it is about to be released: deregister now.
};

/// Positions and states of the blocks of a pool, to be restored later.
struct PoolLayout {
  /// A block of the layout.
  struct PoolPiece {
    std::byte* address = nullptr;  ///< First byte.
    std::size_t nbytes = 0;        ///< Size in bytes.
    std::size_t requested = 0;     ///< Requested bytes; 0 if not live.
    bool is_live = false;          ///< True if a buffer held it.
    std::uint32_t graph = 0;       ///< Number of the graph whose capture allocated it; 0 if none.
    StreamId stream = {};          ///< Stream of the allocation.
  };
  /// Blocks of one stream, in address order.
  struct PoolLane {
    StreamId stream;                ///< Stream of the heap.
    bool is_captured = false;       ///< True for the heap of captures, which has no stream.
    std::vector<PoolPiece> pieces;  ///< Blocks that tile the mapped memory.
  };
  PoolId pool;                  ///< Pool of the layout.
  std::vector<PoolLane> lanes;  ///< One lane per stream.
};

/// Handle to a pool. Copies share it. After the last handle and the last graph, its memory is released as its blocks
/// are freed. Thread-safe.
class TESSERA_API Pool {
 public:
  /// Constructs an empty handle.
  Pool() = default;
  /// For Allocator::create_pool().
  explicit Pool(std::shared_ptr<PoolState> state) : state_(std::move(state)) {}
  /// Returns true if the handle refers to a pool.
  explicit operator bool() const { return state_ != nullptr; }
  /// Returns the id, which is unique in the allocator.
  [[nodiscard]] PoolId id() const;
  /// Returns the name.
  [[nodiscard]] const std::string& name() const;
  /// Returns the number of handles, scopes and graphs that hold the pool.
  [[nodiscard]] std::size_t use_count() const;
  /// Returns the state of the pool, taken under its locks.
  [[nodiscard]] Snapshot snapshot() const;
  /// Calls `callback` for every current segment, then after each acquired and before each released segment. It runs on
  /// the allocating or trimming thread and must not call the allocator. Returns a number for off_growth().
  std::uint64_t on_growth(std::function<void(const Growth&)> callback) const;
  /// Removes a growth callback.
  void off_growth(std::uint64_t number) const;
  /// Releases cached memory without outstanding uses to the upstream. Returns the bytes released; 0 during a capture.
  std::size_t trim() const;

  /// Returns the current layout of the blocks.
  [[nodiscard]] PoolLayout checkpoint() const;
  /// Restores a layout of this pool: blocks that were live are live again at their addresses, and newer ones are free.
  /// Live buffers outside the layout must be passed in `give_up`. Otherwise throws InvalidArgument, with one of them,
  /// and changes nothing. Returns buffers for the blocks that were live then and are not held now.
  [[nodiscard]] std::vector<Buffer> restore(const PoolLayout& layout, std::vector<Buffer> give_up = {}) const;

  /// Returns the shared state.
  [[nodiscard]] const std::shared_ptr<PoolState>& state() const { return state_; }
  /// Returns true if both handles refer to the same pool.
  friend bool operator==(const Pool& a, const Pool& b) { return a.state_ == b.state_; }

 private:
  std::shared_ptr<PoolState> state_;
};

/// Directs allocations of its thread on the allocator of the pool to the pool, during its lifetime. Scopes of one
/// thread must end in reverse order.
class TESSERA_API PoolScope {
 public:
  /// Opens the scope.
  explicit PoolScope(Pool pool);
  /// Closes the scope.
  ~PoolScope();
  PoolScope(const PoolScope&) = delete;
  PoolScope& operator=(const PoolScope&) = delete;

 private:
  Pool pool_;
};

}  // namespace tessera::memory
