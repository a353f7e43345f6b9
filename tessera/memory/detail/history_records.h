// The memory records of a file, decoded, in order of time, with what the file says about pools and keyframes. Pools are
// numbered in the file; a pool that is gone has left its number in records but no row, so its allocator is learnt from
// keyframes where it can be.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "tessera/base/probe/reader.h"
#include "tessera/memory/history.h"

namespace tessera::memory::detail {

/// A record of history.h.
using HistoryRecord = std::variant<AllocRecord, FreeRecord, ReusableRecord, MapRecord, OutOfMemoryRecord,
                                   KeyframeRecord, BlockRecord, RunRecord>;

/// A record and when it was written.
struct HistoryEvent {
  HistoryRecord record;
  std::int64_t time_ns = 0;
  std::uint16_t thread = 0;
};

/// A row of the table of pools.
struct HistoryPool {
  std::uint32_t allocator = 0;
  std::uint64_t graph_id = 0;
  std::uint64_t user_id = 0;
  std::string device;
  std::string name;
};

/// All of it.
struct HistoryRecords {
  std::vector<HistoryEvent> events;                          // oldest first
  std::map<std::uint32_t, HistoryPool> pools;                // by number; those that have a row
  std::map<std::uint32_t, std::uint32_t> allocator_of_pool;  // by number; those whose allocator is known
  std::map<std::uint32_t, std::size_t> keyframes;            // by allocator: the event that begins its last whole one
  std::vector<std::pair<std::string, std::string>> modules;  // names in stacks, and the file of each
  bool is_cut = false;                                       // older records were overwritten
  bool has_all_pools = true;                                 // no row of the table of pools is torn or was refused
  std::vector<std::string> notes;

  static HistoryRecords read(const probe::RecordFile& file);
};

/// The pool that a record is about; nothing for keyframes.
std::optional<std::uint32_t> pool_of(const HistoryRecord& record);

}  // namespace tessera::memory::detail
