// What the allocator writes into the record file (ring "memory"), always. A kind of record is one struct; the reader
// (history_reader.h) turns them back into a Snapshot.
//
// A ring forgets. So that live blocks can be told from a file whose ring has gone round many times, the allocator
// writes a *keyframe* each time a quarter of the ring has been written since the last: keyframe_begin, all mapped runs
// and all blocks that are not cached, keyframe_end. Records about one heap (alloc, free, map, keyframe rows) are
// written under its lock, so for one address the later record is the truth. What is live now: for each address, the
// last record since the beginning of the last whole keyframe. Pools and their names live in a state table, which no
// ring can overwrite.
#pragma once

#include <cstdint>

#include "tessera/base/probe/recorder.h"

namespace tessera::memory {

/// A block was handed out (memory_alloc).
struct AllocRecord {
  std::uint64_t address;    ///< first byte
  std::uint64_t requested;  ///< bytes asked for
  std::uint64_t nbytes;     ///< size of the block
  std::uint32_t stream;     ///< slot of the stream
  std::uint32_t pool;       ///< number of its MemoryPoolRow
  probe::StringId label;    ///< Label in force; 0: none
  probe::StringId stack;    ///< call stack; 0: none
  TESSERA_RECORD(AllocRecord, "memory_alloc", address, requested, nbytes, stream, pool, label, stack)
};

/// A block was given back (memory_free).
struct FreeRecord {
  std::uint64_t address;    ///< first byte
  std::uint64_t requested;  ///< bytes that were asked for
  std::uint32_t stream;     ///< slot of the stream it was allocated for
  std::uint32_t pool;       ///< number of its MemoryPoolRow
  probe::StringId label;    ///< Label of the block, from its allocation; 0: none
  probe::StringId stack;    ///< call stack of the free; 0: none
  bool is_pending;          ///< others may still use it: a memory_reusable record follows when that is over
  TESSERA_RECORD(FreeRecord, "memory_free", address, requested, stream, pool, label, stack, is_pending)
};

/// A pending block can be handed out again (memory_reusable).
struct ReusableRecord {
  std::uint64_t address;    ///< first byte
  std::uint64_t requested;  ///< bytes that were asked for
  std::uint32_t stream;     ///< slot of the stream it was allocated for
  std::uint32_t pool;       ///< number of its MemoryPoolRow
  bool by_wait;             ///< the allocator put a wait on the device for it
  TESSERA_RECORD(ReusableRecord, "memory_reusable", address, requested, stream, pool, by_wait)
};

/// Memory was mapped or unmapped (memory_map).
struct MapRecord {
  std::uint64_t address;  ///< first byte
  std::uint64_t nbytes;   ///< size
  std::uint32_t stream;   ///< slot of the stream whose heap it belongs to
  std::uint32_t pool;     ///< number of its MemoryPoolRow
  bool is_mapped;         ///< false: taken away
  bool is_expandable;     ///< part of a reservation that grows
  TESSERA_RECORD(MapRecord, "memory_map", address, nbytes, stream, pool, is_mapped, is_expandable)
};

/// A request failed (memory_oom).
struct OutOfMemoryRecord {
  std::uint64_t requested;    ///< bytes asked for
  std::uint64_t device_free;  ///< bytes the driver had left
  std::uint32_t stream;       ///< slot of the stream
  std::uint32_t pool;         ///< number of its MemoryPoolRow
  probe::StringId label;      ///< Label in force; 0: none
  TESSERA_RECORD(OutOfMemoryRecord, "memory_oom", requested, device_free, stream, pool, label)
};

/// A keyframe begins or ends (memory_keyframe).
struct KeyframeRecord {
  std::uint64_t number;     ///< counts the keyframes of one allocator
  std::uint32_t allocator;  ///< number of the allocator, as in MemoryPoolRow
  std::uint32_t rows;       ///< at the end: memory_block and memory_run records written
  bool is_end;              ///< whether this is the end
  TESSERA_RECORD(KeyframeRecord, "memory_keyframe", number, allocator, rows, is_end)
};

/// A block that is not cached, in a keyframe (memory_block).
struct BlockRecord {
  std::uint64_t address;    ///< first byte
  std::uint64_t requested;  ///< bytes asked for
  std::uint64_t nbytes;     ///< size
  std::uint32_t stream;     ///< slot of the stream
  std::uint16_t pool;       ///< number of its MemoryPoolRow
  bool is_pending;          ///< freed, not reusable yet
  probe::StringId label;    ///< Label in force; 0: none
  probe::StringId stack;    ///< call stack; 0: none
  TESSERA_RECORD(BlockRecord, "memory_block", address, requested, nbytes, stream, pool, is_pending, label, stack)
};

/// A mapped run, in a keyframe (memory_run).
struct RunRecord {
  std::uint64_t address;  ///< first byte
  std::uint64_t nbytes;   ///< size
  std::uint32_t stream;   ///< slot of the stream
  std::uint32_t pool;     ///< number of its MemoryPoolRow
  bool is_expandable;     ///< part of a reservation that grows
  TESSERA_RECORD(RunRecord, "memory_run", address, nbytes, stream, pool, is_expandable)
};

/// A pool that exists (state table memory_pool), or was made (ring). Its number is what records call `pool`.
struct MemoryPoolRow {
  std::uint32_t number;                         ///< unique in the file
  std::uint32_t allocator;                      ///< number of the allocator, unique in the file
  std::uint64_t graph_id;                       ///< PoolId::graph
  std::uint64_t user_id;                        ///< PoolId::user
  probe::StringId device;                       ///< "cuda:0", "pinned memory of cuda:0"
  probe::StringId name;                         ///< of the pool
  static constexpr std::uint32_t kRows = 1024;  ///< pools at a time that are described
  TESSERA_RECORD(MemoryPoolRow, "memory_pool", number, allocator, graph_id, user_id, device, name)
};

}  // namespace tessera::memory
