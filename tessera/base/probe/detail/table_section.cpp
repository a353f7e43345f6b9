#include "tessera/base/probe/detail/table_section.h"

#include <algorithm>

namespace tessera::probe::detail {

TableSection::TableSection(std::byte* file, std::byte* section, std::uint64_t nbytes, ClockSource clock)
    : file_(file),
      directory_(reinterpret_cast<TableEntry*>(section)),
      at_(section + kMaxTables * sizeof(TableEntry)),
      end_(section + nbytes),
      clock_(clock) {}

TableCore* TableSection::find_or_make(std::uint16_t kind, std::uint16_t payload_bytes, std::uint32_t rows) {
  const std::lock_guard lock(mutex_);
  for (const KnownTable& known : known_) {
    if (known.kind == kind) return known.core.get();
  }
  known_.push_back({kind, nullptr});
  known_.back().core.reset(make(kind, payload_bytes, rows));
  return known_.back().core.get();
}

TableCore* TableSection::make(std::uint16_t kind, std::uint16_t payload_bytes, std::uint32_t rows) {
  const auto number = static_cast<std::uint32_t>(known_.size() - 1);
  const auto row_bytes = static_cast<std::uint32_t>((kRowHeadBytes + payload_bytes + 63) / 64 * 64);
  const auto left = static_cast<std::uint64_t>(end_ - at_);
  const auto granted = static_cast<std::uint32_t>(std::min<std::uint64_t>(rows, left / 2 / row_bytes));
  if (number >= kMaxTables || granted == 0) return nullptr;
  TableEntry& entry = directory_[number];
  entry.offset = static_cast<std::uint64_t>(at_ - file_);
  entry.rows = granted;
  entry.row_bytes = row_bytes;
  entry.kind = kind;
  entry.payload_bytes = payload_bytes;
  entry.number = number;
  auto* core = new TableCore(at_, granted, row_bytes, payload_bytes, number, clock_, &entry.refused);
  at_ += std::size_t{granted} * row_bytes;
  const auto* words = reinterpret_cast<const std::uint64_t*>(&entry);
  std::atomic_ref<std::uint64_t>(entry.check)
      .store(words_check(words + 1, kTableCheckedWords, number), std::memory_order_release);
  return core;
}

}  // namespace tessera::probe::detail
