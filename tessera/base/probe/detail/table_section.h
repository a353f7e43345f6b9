// The state tables of a record file: a directory, then the rows of each table, allocated once and never freed.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "tessera/base/probe/layout.h"
#include "tessera/base/probe/state_table.h"

namespace tessera::probe::detail {

class TableSection {
 public:
  TableSection(std::byte* file, std::byte* section, std::uint64_t nbytes, ClockSource clock);
  /// Returns the table of this kind, and creates it if it is new. A table takes at most half of the remaining space.
  /// Returns null if no space remains.
  TableCore* find_or_make(std::uint16_t kind, std::uint16_t payload_bytes, std::uint32_t rows);

 private:
  struct KnownTable {
    std::uint16_t kind;
    std::unique_ptr<TableCore> core;
  };
  TableCore* make(std::uint16_t kind, std::uint16_t payload_bytes, std::uint32_t rows);

  std::byte* file_;
  TableEntry* directory_;
  std::byte* at_;
  std::byte* end_;
  ClockSource clock_;
  std::mutex mutex_;
  std::vector<KnownTable> known_;
};

}  // namespace tessera::probe::detail
