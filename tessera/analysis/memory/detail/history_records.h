// The decoded memory records of a file, in order of time, with its pools and keyframes. Pools are numbered in the file.
// A removed pool has a number in records but no row, so its allocator is inferred from keyframes if possible.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "tessera/base/probe/reader.h"
#include "tessera/memory/history.h"

namespace tessera::analysis::detail {

/// A record of history.h.
using HistoryRecord =
    std::variant<memory::AllocRecord, memory::FreeRecord, memory::ReusableRecord, memory::MapRecord,
                 memory::OutOfMemoryRecord, memory::KeyframeRecord, memory::BlockRecord, memory::RunRecord>;

/// A record and its time.
struct HistoryEvent {
  HistoryRecord record;
  std::int64_t time_ns = 0;
  std::uint16_t thread = 0;
};

/// A row of the pool table.
struct HistoryPool {
  std::uint32_t allocator = 0;
  std::uint64_t graph_id = 0;
  std::uint64_t user_id = 0;
  std::string device;
  std::string name;
};

/// Decoded memory records of a file.
struct HistoryRecords {
  std::vector<HistoryEvent> events;                          // oldest first
  std::map<std::uint32_t, HistoryPool> pools;                // by number; those with a row
  std::map<std::uint32_t, std::uint32_t> allocator_of_pool;  // by number; those with a known allocator
  std::map<std::uint32_t, std::size_t> keyframes;  // by allocator: the event that begins its last complete one
  std::vector<std::pair<std::string, std::string>> modules;  // names in stacks, with the file of each
  bool is_cut = false;                                       // older records were overwritten
  bool has_all_pools = true;                                 // no row of the pool table is torn or was rejected
  std::vector<std::string> notes;

  static HistoryRecords read(const probe::RecordFile& file);
};

/// Returns the pool of a record; nothing for keyframes.
std::optional<std::uint32_t> pool_of(const HistoryRecord& record);

}  // namespace tessera::analysis::detail
