// The state of an allocator at one moment, block by block. It is plain data, taken under all locks or rebuilt from a
// record file (analysis/memory/history_reader.h). Statistics, the out-of-memory report and the exporters read it.
// Nothing here accesses a device.
//
// The identity, over all blocks:   reserved = live + rounding + pending + cached
//   reserved   bytes of mapped segments
//   live       requested bytes of blocks in use
//   rounding   bytes of these blocks beyond the requested ones
//   pending    freed blocks that the stream they belong to must not use yet
//   cached     blocks that can be allocated
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/base/ids.h"

namespace tessera::memory {

/// Identifies a pool. {0, 0} is the default pool, {0, n} a user pool, {n, 0} a pool created for a graph.
struct PoolId {
  std::uint64_t graph = 0;  ///< Number of the graph.
  std::uint64_t user = 0;   ///< Number of the user pool.
  /// Compares both numbers.
  friend bool operator==(const PoolId&, const PoolId&) = default;
  /// Orders ids, for maps.
  friend auto operator<=>(const PoolId&, const PoolId&) = default;
};

/// State of a block.
enum class BlockState : std::uint8_t {
  kLive,     ///< Allocated.
  kPending,  ///< Freed; other streams or a graph may still use it.
  kCached,   ///< Can be allocated.
};
/// Returns "live", "pending" or "cached".
TESSERA_API std::string_view to_string(BlockState state);

/// One block of a segment.
struct BlockView {
  std::uint64_t address = 0;                   ///< First byte.
  std::uint64_t nbytes = 0;                    ///< Size in bytes.
  std::uint64_t requested_nbytes = 0;          ///< Requested bytes; kept while pending, 0 if cached.
  BlockState state = BlockState::kCached;      ///< State of the block.
  StreamId stream;                             ///< Stream of the allocation; if cached, the stream of its heap.
  std::string label = {};                      ///< memory::Label at the allocation; empty if none.
  std::string stack = {};                      ///< Recorded call stack ("module+0x1f00 module+0x20a4"); empty if none.
  std::int64_t time_ns = 0;                    ///< Time of the allocation, since 1970; 0 if unknown.
  std::vector<StreamId> pending_streams = {};  ///< For a pending block, streams that may still use it.
};

/// A contiguous run of mapped memory. Its blocks tile it in address order.
struct SegmentView {
  std::uint64_t address = 0;           ///< First byte.
  std::uint64_t nbytes = 0;            ///< Mapped bytes.
  PoolId pool;                         ///< Pool of the segment.
  StreamId stream;                     ///< Stream of the heap.
  bool is_expandable = false;          ///< Part of an expandable reservation.
  std::vector<BlockView> blocks = {};  ///< Blocks in address order.
};

/// Description of a pool.
struct PoolView {
  PoolId id;               ///< Id of the pool.
  std::string name;        ///< Name of the pool.
  std::string owner = {};  ///< Owner: "graph 'decode'", a user label; empty for the default pool.
};

/// Sums over blocks; they satisfy the identity in the file comment.
struct Totals {
  std::uint64_t reserved_nbytes = 0;  ///< Mapped bytes.
  std::uint64_t live_nbytes = 0;      ///< Requested bytes in use.
  std::uint64_t rounding_nbytes = 0;  ///< Unrequested bytes of live blocks.
  std::uint64_t pending_nbytes = 0;   ///< Freed bytes that are not reusable yet.
  std::uint64_t cached_nbytes = 0;    ///< Reusable bytes.
  std::uint64_t live_blocks = 0;      ///< Blocks in use.
  std::uint64_t pending_blocks = 0;   ///< Freed blocks that are not reusable yet.
  std::uint64_t cached_blocks = 0;    ///< Reusable blocks.
  /// Returns true if `reserved_nbytes` is the sum of the other bytes.
  [[nodiscard]] bool closes() const {
    return reserved_nbytes == live_nbytes + rounding_nbytes + pending_nbytes + cached_nbytes;
  }
  /// Compares all fields.
  friend bool operator==(const Totals&, const Totals&) = default;
};

/// Kind of an event in a trace.
enum class Action : std::uint8_t {
  kAlloc,          ///< A block was allocated.
  kFreeRequested,  ///< A block was freed.
  kFreeCompleted,  ///< A freed block became reusable.
  kMap,            ///< Memory was mapped.
  kUnmap,          ///< Memory was released or moved away.
  kOutOfMemory,    ///< A request of `nbytes` failed with `device_free_nbytes` free.
  kSnapshot,       ///< A snapshot was taken.
};
/// Returns "alloc", "free requested", ...
TESSERA_API std::string_view to_string(Action action);

/// One event of a trace.
struct TraceEntry {
  Action action = Action::kAlloc;        ///< Kind of the event.
  std::uint64_t address = 0;             ///< First byte.
  std::uint64_t nbytes = 0;              ///< Requested bytes; for kMap and kUnmap, mapped bytes.
  std::uint64_t device_free_nbytes = 0;  ///< Free bytes of the device; only for kOutOfMemory.
  StreamId stream;                       ///< Stream of the event.
  PoolId pool;                           ///< Pool of the event.
  std::string label = {};                ///< Label in force; empty if none.
  std::string stack = {};                ///< Call stack; empty if none.
  std::int64_t time_ns = 0;              ///< Nanoseconds since 1970.
};

/// State of an allocator.
struct Snapshot {
  std::string device = {};                 ///< "cuda:0"
  std::vector<SegmentView> segments = {};  ///< Segments in address order.
  std::vector<PoolView> pools = {};        ///< All pools.
  std::vector<TraceEntry> trace = {};      ///< Events, oldest first; empty unless history was requested.
  bool trace_is_cut = false;               ///< True if older events were overwritten.
  std::vector<std::pair<std::string, std::string>> modules = {};   ///< Names in stacks, with the file of each.
  std::vector<std::pair<std::string, std::string>> settings = {};  ///< Policy in force, by field name.

  /// Returns the sums over all blocks.
  [[nodiscard]] TESSERA_API Totals totals() const;
  /// Returns the sums over the blocks of one pool.
  [[nodiscard]] TESSERA_API Totals totals(PoolId pool) const;
  /// Returns the first inconsistency: segments out of order or overlapping, blocks that do not tile. Returns "" if the
  /// snapshot is consistent.
  [[nodiscard]] TESSERA_API std::string inconsistency() const;
};

}  // namespace tessera::memory
