// Records that the allocator always writes to the record file (ring "memory"). Each struct is one kind of record. The
// reader (analysis/memory/history_reader.h) converts them to a Snapshot.
//
// The ring overwrites old records. Therefore the allocator writes a *keyframe* whenever a quarter of the ring was
// written since the last one: keyframe_begin, all mapped runs and all blocks that are not cached, keyframe_end. Records
// of one heap (alloc, free, map, keyframe rows) are written under its lock, so the later record of an address is valid.
// The live blocks are given by the last record of each address since the start of the last complete keyframe. Pools and
// their names are in a state table, which no ring overwrites.
#pragma once

#include <cstdint>

#include "tessera/base/probe/recorder.h"

namespace tessera::memory {

/// A block was allocated (memory_alloc).
struct AllocRecord {
  std::uint64_t address;    ///< First byte.
  std::uint64_t requested;  ///< Requested bytes.
  std::uint64_t nbytes;     ///< Size of the block.
  std::uint32_t stream;     ///< Slot of the stream.
  std::uint32_t pool;       ///< Number of its MemoryPoolRow.
  probe::StringId label;    ///< Label in force; 0 if none.
  probe::StringId stack;    ///< Call stack; 0 if none.
  TESSERA_RECORD(AllocRecord, "memory_alloc", address, requested, nbytes, stream, pool, label, stack)
};

/// A block was freed (memory_free).
struct FreeRecord {
  std::uint64_t address;    ///< First byte.
  std::uint64_t requested;  ///< Requested bytes.
  std::uint32_t stream;     ///< Slot of the stream of the allocation.
  std::uint32_t pool;       ///< Number of its MemoryPoolRow.
  probe::StringId label;    ///< Label of the block, from its allocation; 0 if none.
  probe::StringId stack;    ///< Call stack of the free; 0 if none.
  bool is_pending;          ///< Work may still use it: a memory_reusable record follows.
  TESSERA_RECORD(FreeRecord, "memory_free", address, requested, stream, pool, label, stack, is_pending)
};

/// A pending block became reusable (memory_reusable).
struct ReusableRecord {
  std::uint64_t address;    ///< First byte.
  std::uint64_t requested;  ///< Requested bytes.
  std::uint32_t stream;     ///< Slot of the stream of the allocation.
  std::uint32_t pool;       ///< Number of its MemoryPoolRow.
  bool by_wait;             ///< The allocator enqueued a wait on the device for it.
  TESSERA_RECORD(ReusableRecord, "memory_reusable", address, requested, stream, pool, by_wait)
};

/// Memory was mapped or unmapped (memory_map).
struct MapRecord {
  std::uint64_t address;  ///< First byte.
  std::uint64_t nbytes;   ///< Size in bytes.
  std::uint32_t stream;   ///< Slot of the stream of the heap.
  std::uint32_t pool;     ///< Number of its MemoryPoolRow.
  bool is_mapped;         ///< False if unmapped.
  bool is_expandable;     ///< Part of an expandable reservation.
  TESSERA_RECORD(MapRecord, "memory_map", address, nbytes, stream, pool, is_mapped, is_expandable)
};

/// A request failed (memory_oom).
struct OutOfMemoryRecord {
  std::uint64_t requested;    ///< Requested bytes.
  std::uint64_t device_free;  ///< Bytes that the driver reported as free.
  std::uint32_t stream;       ///< Slot of the stream.
  std::uint32_t pool;         ///< Number of its MemoryPoolRow.
  probe::StringId label;      ///< Label in force; 0 if none.
  TESSERA_RECORD(OutOfMemoryRecord, "memory_oom", requested, device_free, stream, pool, label)
};

/// Start or end of a keyframe (memory_keyframe).
struct KeyframeRecord {
  std::uint64_t number;     ///< Number of the keyframe of one allocator.
  std::uint32_t allocator;  ///< Number of the allocator, as in MemoryPoolRow.
  std::uint32_t rows;       ///< At the end: number of memory_block and memory_run records.
  bool is_end;              ///< True at the end.
  TESSERA_RECORD(KeyframeRecord, "memory_keyframe", number, allocator, rows, is_end)
};

/// A block that is not cached, in a keyframe (memory_block).
struct BlockRecord {
  std::uint64_t address;    ///< First byte.
  std::uint64_t requested;  ///< Requested bytes.
  std::uint64_t nbytes;     ///< Size of the block.
  std::uint32_t stream;     ///< Slot of the stream.
  std::uint16_t pool;       ///< Number of its MemoryPoolRow.
  bool is_pending;          ///< Freed, and not reusable yet.
  probe::StringId label;    ///< Label in force; 0 if none.
  probe::StringId stack;    ///< Call stack; 0 if none.
  TESSERA_RECORD(BlockRecord, "memory_block", address, requested, nbytes, stream, pool, is_pending, label, stack)
};

/// A mapped run, in a keyframe (memory_run).
struct RunRecord {
  std::uint64_t address;  ///< First byte.
  std::uint64_t nbytes;   ///< Size in bytes.
  std::uint32_t stream;   ///< Slot of the stream.
  std::uint32_t pool;     ///< Number of its MemoryPoolRow.
  bool is_expandable;     ///< Part of an expandable reservation.
  TESSERA_RECORD(RunRecord, "memory_run", address, nbytes, stream, pool, is_expandable)
};

/// An existing pool (state table memory_pool), or a created one (ring). `pool` of other records is its number.
struct MemoryPoolRow {
  std::uint32_t number;                         ///< Unique in the file.
  std::uint32_t allocator;                      ///< Number of the allocator, unique in the file.
  std::uint64_t graph_id;                       ///< PoolId::graph
  std::uint64_t user_id;                        ///< PoolId::user
  probe::StringId device;                       ///< "cuda:0", "pinned memory of cuda:0"
  probe::StringId name;                         ///< Name of the pool.
  static constexpr std::uint32_t kRows = 1024;  ///< Maximum number of pools described together.
  TESSERA_RECORD(MemoryPoolRow, "memory_pool", number, allocator, graph_id, user_id, device, name)
};

/// A module in stacks (state table memory_module): the location of its file, for later symbolization.
struct ModuleRow {
  probe::StringId name;                        ///< Name in stacks: "libtessera.so.0".
  probe::StringId path;                        ///< Path of its file.
  std::uint64_t load_bias;                     ///< Address of its address 0 in the process.
  static constexpr std::uint32_t kRows = 128;  ///< Maximum number of modules.
  TESSERA_RECORD(ModuleRow, "memory_module", name, path, load_bias)
};

}  // namespace tessera::memory
