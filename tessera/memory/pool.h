// Pools: parts of an allocator that keep their memory to themselves.
//
//   Pool pool = allocator.create_pool({.name = "kv cache", .no_split = true});
//   { PoolScope scope(pool);  x = allocator.allocate(n, stream); }   // from the pool, on this thread
//
// Scopes nest, per thread, and the innermost wins. Memory captured into graphs lives in pools too (graph_capture.h).
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

/// How a pool is made.
struct PoolOptions {
  std::string name = {};       ///< shown in reports; default: "pool N"
  bool no_split = false;       ///< one block per segment: memory that is registered segment by segment
  bool borrow_on_oom = false;  ///< others may take its cached memory before they would fail
  std::shared_ptr<Upstream> upstream = nullptr;  ///< where its memory comes from; null: the allocator's own
};

/// A segment that a pool got or is about to give back.
struct Growth {
  std::byte* address = nullptr;  ///< first byte
  std::size_t nbytes = 0;        ///< how much
  bool is_mapped = true;         ///< false: about to go; deregister now
};

/// Where the blocks of a pool lie and which are live, to be restored later.
struct PoolLayout {
  /// A block, by its place.
  struct Piece {
    std::byte* address = nullptr;  ///< first byte
    std::size_t nbytes = 0;        ///< size
    std::size_t requested = 0;     ///< asked for; 0: not live
    bool is_live = false;          ///< whether somebody held it
    std::uint32_t graph = 0;       ///< number of the graph in whose capture it was handed out; 0: none
    StreamId stream = {};          ///< it was handed out for
  };
  /// One stream's pieces, in address order.
  struct Lane {
    StreamId stream;            ///< whose heap
    bool is_captured = false;   ///< the heap of captures, which has no stream
    std::vector<Piece> pieces;  ///< they tile its mapped memory
  };
  PoolId pool;              ///< of which pool
  std::vector<Lane> lanes;  ///< one per stream
};

/// A part of an allocator. A shared handle. When the last handle and the last graph are gone, its memory goes back as
/// its blocks are freed. Thread-safe.
class TESSERA_API Pool {
 public:
  /// No pool.
  Pool() = default;
  /// Made by Allocator::create_pool.
  explicit Pool(std::shared_ptr<PoolState> state) : state_(std::move(state)) {}
  /// Whether there is a pool.
  explicit operator bool() const { return state_ != nullptr; }
  /// Its id, never used twice by one allocator.
  [[nodiscard]] PoolId id() const;
  /// Its name.
  [[nodiscard]] const std::string& name() const;
  /// Handles, scopes and graphs that hold it.
  [[nodiscard]] std::size_t use_count() const;
  /// What it holds, under its locks.
  [[nodiscard]] Snapshot snapshot() const;
  /// Calls `callback` for every segment it has and, from then on, after each it gets and before each it gives back.
  /// Called on the thread that allocates or trims; must not call the allocator. Returns a number for off_growth.
  std::uint64_t on_growth(std::function<void(const Growth&)> callback) const;
  /// Ends a callback.
  void off_growth(std::uint64_t number) const;
  /// Gives cached memory whose uses have completed back to the upstream; nothing while a capture is under way. Returns
  /// the bytes given back.
  std::size_t trim() const;

  /// Where its blocks lie now.
  [[nodiscard]] PoolLayout checkpoint() const;
  /// Brings the blocks back to a layout of this pool: what was live is live again at its old address, what is newer is
  /// free. Live buffers that are not in the layout must be handed over in `give_up`, else nothing changes and an
  /// InvalidArgument names one. Returns buffers for the blocks that were live then and are not held now.
  [[nodiscard]] std::vector<Buffer> restore(const PoolLayout& layout, std::vector<Buffer> give_up = {}) const;

  /// The shared state.
  [[nodiscard]] const std::shared_ptr<PoolState>& state() const { return state_; }
  /// Same pool.
  friend bool operator==(const Pool& a, const Pool& b) { return a.state_ == b.state_; }

 private:
  std::shared_ptr<PoolState> state_;
};

/// Sends the allocations of its thread on the pool's allocator into the pool, until destroyed. On one thread scopes end
/// in the order opposite to their beginning.
class TESSERA_API PoolScope {
 public:
  /// Opens the scope.
  explicit PoolScope(Pool pool);
  /// Closes it.
  ~PoolScope();
  PoolScope(const PoolScope&) = delete;
  PoolScope& operator=(const PoolScope&) = delete;

 private:
  Pool pool_;
};

}  // namespace tessera::memory
