// What an allocator holds at one moment, block by block: plain data, taken under all its locks, or rebuilt from a
// record file (history_reader.h). Statistics, the out-of-memory report and the exporters read it; nothing here touches
// a device.
//
// The identity, by walking blocks:   reserved = live + rounding + pending + cached
//   reserved   bytes of mapped segments
//   live       bytes asked for by blocks that are in use
//   rounding   bytes of those blocks beyond what was asked for
//   pending    blocks that were freed and that the stream they belong to must not touch yet
//   cached     blocks that can be handed out
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/base/ids.h"

namespace tessera::memory {

/// Names a pool. {0, 0}: the default pool; {0, n}: made by a user; {n, 0}: made for a graph.
struct PoolId {
  std::uint64_t graph = 0;  ///< number of the graph it was made for
  std::uint64_t user = 0;   ///< number of the pool a user made
  /// Same pool.
  friend bool operator==(const PoolId&, const PoolId&) = default;
  /// An order, for maps.
  friend auto operator<=>(const PoolId&, const PoolId&) = default;
};

/// What a block is doing.
enum class BlockState : std::uint8_t {
  kLive,     ///< handed out
  kPending,  ///< freed; other streams or a graph may still use it
  kCached,   ///< can be handed out
};
/// "live", "pending", "cached".
TESSERA_API std::string_view to_string(BlockState state);

/// One block.
struct BlockView {
  std::uint64_t address = 0;                   ///< first byte
  std::uint64_t nbytes = 0;                    ///< size
  std::uint64_t requested_nbytes = 0;          ///< asked for; kept while pending, 0 when cached
  BlockState state = BlockState::kCached;      ///< what it is doing
  StreamId stream;                             ///< it was allocated for; of a cached block, the stream it belongs to
  std::string label = {};                      ///< memory::Label in force at allocation; empty: none
  std::string stack = {};                      ///< call stack as recorded ("module+0x1f00 module+0x20a4"); empty: none
  std::int64_t time_ns = 0;                    ///< of the allocation, since 1970; 0: not known
  std::vector<StreamId> pending_streams = {};  ///< of a pending block: whose use is not known to be over
};

/// One contiguous run of mapped memory; its blocks tile it in address order.
struct SegmentView {
  std::uint64_t address = 0;           ///< first byte
  std::uint64_t nbytes = 0;            ///< mapped bytes
  PoolId pool;                         ///< it belongs to
  StreamId stream;                     ///< whose heap it belongs to
  bool is_expandable = false;          ///< part of a reservation that grows
  std::vector<BlockView> blocks = {};  ///< in address order
};

/// A pool, for people.
struct PoolView {
  PoolId id;               ///< its id
  std::string name;        ///< its name
  std::string owner = {};  ///< what keeps it: "graph 'decode'", a user's label; empty for the default pool
};

/// Sums over blocks; see the identity above.
struct Totals {
  std::uint64_t reserved_nbytes = 0;  ///< mapped
  std::uint64_t live_nbytes = 0;      ///< asked for and in use
  std::uint64_t rounding_nbytes = 0;  ///< beyond that in the same blocks
  std::uint64_t pending_nbytes = 0;   ///< freed, not reusable yet
  std::uint64_t cached_nbytes = 0;    ///< reusable
  std::uint64_t live_blocks = 0;      ///< blocks in use
  std::uint64_t pending_blocks = 0;   ///< blocks freed, not reusable yet
  std::uint64_t cached_blocks = 0;    ///< reusable blocks
  /// Whether reserved is the sum of the rest.
  [[nodiscard]] bool closes() const {
    return reserved_nbytes == live_nbytes + rounding_nbytes + pending_nbytes + cached_nbytes;
  }
  /// Same numbers.
  friend bool operator==(const Totals&, const Totals&) = default;
};

/// What happened, as a snapshot's trace tells it.
enum class Action : std::uint8_t {
  kAlloc,          ///< a block was handed out
  kFreeRequested,  ///< it was given back
  kFreeCompleted,  ///< it became reusable
  kMap,            ///< memory was mapped
  kUnmap,          ///< memory was given back or moved away
  kOutOfMemory,    ///< a request failed; `nbytes` asked for, `device_free_nbytes` left
  kSnapshot,       ///< a snapshot was taken
};
/// "alloc", "free requested", ...
TESSERA_API std::string_view to_string(Action action);

/// One event of the history.
struct TraceEntry {
  Action action = Action::kAlloc;        ///< what
  std::uint64_t address = 0;             ///< where
  std::uint64_t nbytes = 0;              ///< asked for; of kMap and kUnmap the mapped bytes
  std::uint64_t device_free_nbytes = 0;  ///< of kOutOfMemory
  StreamId stream;                       ///< on which stream
  PoolId pool;                           ///< in which pool
  std::string label = {};                ///< in force; empty: none
  std::string stack = {};                ///< call stack; empty: none
  std::int64_t time_ns = 0;              ///< since 1970
};

/// All of it.
struct Snapshot {
  std::string device = {};                 ///< "cuda:0"
  std::vector<SegmentView> segments = {};  ///< in address order
  std::vector<PoolView> pools = {};        ///< all pools there are
  std::vector<TraceEntry> trace = {};      ///< oldest first; empty when history was not asked for
  bool trace_is_cut = false;               ///< older events were overwritten
  std::vector<std::pair<std::string, std::string>> modules = {};   ///< names in stacks, and the file of each
  std::vector<std::pair<std::string, std::string>> settings = {};  ///< the policy in force, by name

  /// Sums over all blocks, by walking them.
  [[nodiscard]] TESSERA_API Totals totals() const;
  /// The same for one pool.
  [[nodiscard]] TESSERA_API Totals totals(PoolId pool) const;
  /// What is wrong with it: segments out of order or overlapping, blocks that do not tile. Empty: nothing.
  [[nodiscard]] TESSERA_API std::string inconsistency() const;
};

}  // namespace tessera::memory
