#include "tessera/analysis/memory/detail/history_records.h"

#include <fmt/format.h>

#include <array>
#include <unordered_map>

#include "tessera/memory/history.h"

namespace tessera::analysis::detail {
namespace {

using memory::BlockRecord;
using memory::KeyframeRecord;
using memory::MemoryPoolRow;
using memory::ModuleRow;
using memory::RunRecord;

constexpr std::string_view kRing = "memory";

// Maps the number of a kind to its record type in one file. Descriptions are compared once per kind.
class Decoder {
 public:
  Decoder(const probe::RecordFile& file, std::vector<std::string>& notes) : file_(file), notes_(notes) {}

  /// Returns the pool whose creation this record describes, if it does.
  std::optional<MemoryPoolRow> made_pool(const probe::RecordRef& ref) {
    const auto [known, is_new] = is_pool_.try_emplace(ref.kind, false);
    if (is_new) known->second = file_.as<MemoryPoolRow>(ref).has_value();
    return known->second ? file_.as<MemoryPoolRow>(ref) : std::nullopt;
  }

  std::optional<HistoryRecord> decode(const probe::RecordRef& ref) {
    const auto known = kinds_.find(ref.kind);
    if (known != kinds_.end()) return known->second != nullptr ? known->second(file_, ref) : std::nullopt;
    Decode found = nullptr;
    std::optional<HistoryRecord> record;
    for (const Decode each : all(std::make_index_sequence<std::variant_size_v<HistoryRecord>>())) {
      record = each(file_, ref);
      if (record) {
        found = each;
        break;
      }
    }
    kinds_[ref.kind] = found;
    if (found == nullptr) {
      const std::string kind = file_.read(ref).kind;
      if (kind.starts_with("memory_"))
        notes_.push_back(fmt::format("records {} have fields that this version does not know; skipped", kind));
    }
    return record;
  }

 private:
  using Decode = std::optional<HistoryRecord> (*)(const probe::RecordFile&, const probe::RecordRef&);

  template <class Record>
  static std::optional<HistoryRecord> decode_as(const probe::RecordFile& file, const probe::RecordRef& ref) {
    auto record = file.as<Record>(ref);
    if (!record) return std::nullopt;
    // A corrupt record may hold an invalid bool; reading it as one is undefined.
    auto* bytes = reinterpret_cast<unsigned char*>(&*record);
    for (const probe::FieldInfo& field : Record::record_fields()) {
      if (field.type == probe::FieldType::kBool) bytes[field.offset] = bytes[field.offset] != 0 ? 1 : 0;
    }
    return HistoryRecord(*record);
  }
  template <std::size_t... I>
  static std::array<Decode, sizeof...(I)> all(std::index_sequence<I...>) {
    return {&decode_as<std::variant_alternative_t<I, HistoryRecord>>...};
  }

  const probe::RecordFile& file_;
  std::vector<std::string>& notes_;
  std::unordered_map<std::uint16_t, Decode> kinds_;
  std::unordered_map<std::uint16_t, bool> is_pool_;
};

template <class T>
std::optional<T> field(const probe::RowInfo& row, std::string_view name) {
  const probe::Field* found = row.find(name);
  if (found == nullptr || !std::holds_alternative<T>(found->value)) return std::nullopt;
  return std::get<T>(found->value);
}

void read_pools(const probe::RecordFile& file, HistoryRecords& records) {
  const probe::TableInfo* table = file.find_table(MemoryPoolRow::kRecordName);
  if (table == nullptr) return;
  if (table->refused > 0)
    records.notes.push_back(fmt::format("{} pools did not fit into the table of pools", table->refused));
  std::uint64_t torn = 0;
  for (const probe::RowInfo& row : table->claimed) {
    const auto number = field<std::uint64_t>(row, "number");
    const auto allocator = field<std::uint64_t>(row, "allocator");
    if (row.is_torn || !number || !allocator) {
      ++torn;
      continue;
    }
    HistoryPool pool;
    pool.allocator = static_cast<std::uint32_t>(*allocator);
    pool.graph_id = field<std::uint64_t>(row, "graph_id").value_or(0);
    pool.user_id = field<std::uint64_t>(row, "user_id").value_or(0);
    pool.device = field<std::string>(row, "device").value_or("");
    pool.name = field<std::string>(row, "name").value_or("");
    records.pools.emplace(static_cast<std::uint32_t>(*number), std::move(pool));
  }
  records.has_all_pools = torn == 0 && table->refused == 0;
  if (torn > 0) records.notes.push_back(fmt::format("{} rows of the table of pools are torn; skipped", torn));
  for (const auto& [number, pool] : records.pools) records.allocator_of_pool[number] = pool.allocator;
}

void read_modules(const probe::RecordFile& file, HistoryRecords& records) {
  const probe::TableInfo* table = file.find_table(ModuleRow::kRecordName);
  if (table == nullptr) return;
  for (const probe::RowInfo& row : table->claimed) {
    const auto name = field<std::string>(row, "name");
    const auto path = field<std::string>(row, "path");
    if (!row.is_torn && name && path) records.modules.emplace_back(*name, *path);
  }
}

// A keyframe that a thread is writing.
struct OpenKeyframe {
  KeyframeRecord begin{};
  std::size_t at = 0;
  std::uint32_t rows = 0;
  std::vector<std::uint32_t> pools;
};

// A keyframe is complete if begin, end and the stated number of rows exist. A thread writes one at a time.
class Keyframes {
 public:
  explicit Keyframes(HistoryRecords& records) : records_(records) {}

  void see(std::size_t at) {
    const HistoryEvent& event = records_.events[at];
    if (const auto* mark = std::get_if<KeyframeRecord>(&event.record)) {
      if (!mark->is_end) {
        open_[event.thread] = {*mark, at, 0, {}};
      } else {
        close(event.thread, *mark);
      }
      return;
    }
    const bool is_row =
        std::holds_alternative<BlockRecord>(event.record) || std::holds_alternative<RunRecord>(event.record);
    const auto found = is_row ? open_.find(event.thread) : open_.end();
    if (found == open_.end()) return;
    ++found->second.rows;
    found->second.pools.push_back(*pool_of(event.record));
  }

 private:
  void close(std::uint16_t thread, const KeyframeRecord& end) {
    const auto found = open_.find(thread);
    if (found == open_.end()) return;
    const OpenKeyframe& open = found->second;
    if (open.begin.number == end.number && open.begin.allocator == end.allocator && open.rows == end.rows) {
      records_.keyframes[end.allocator] = open.at;
      for (const std::uint32_t pool : open.pools) records_.allocator_of_pool.emplace(pool, end.allocator);
    }
    open_.erase(found);
  }

  HistoryRecords& records_;
  std::unordered_map<std::uint16_t, OpenKeyframe> open_;
};

}  // namespace

std::optional<std::uint32_t> pool_of(const HistoryRecord& record) {
  return std::visit(
      [](const auto& held) -> std::optional<std::uint32_t> {
        if constexpr (requires { held.pool; }) {
          return held.pool;
        } else {
          return std::nullopt;
        }
      },
      record);
}

HistoryRecords HistoryRecords::read(const probe::RecordFile& file) {
  HistoryRecords records;
  read_pools(file, records);
  read_modules(file, records);
  const auto& rings = file.rings();
  for (const probe::RingInfo& ring : rings)
    records.is_cut = records.is_cut || (ring.name == kRing && ring.overwritten > 0);
  Decoder decoder(file, records.notes);
  bool is_contiguous = false;
  for (const probe::RecordRef& ref : file.records()) {
    const probe::RingInfo& ring = rings[ref.ring];
    if (ring.name != kRing) continue;
    // A thread that ended during a lease left records of the previous lap in its other slots; the records between these
    // and the oldest of the current lap are gone, so they are incomplete.
    const bool is_current = std::uint64_t{ref.lap} * ring.slots + ref.slot >= ring.overwritten;
    if (is_current && !is_contiguous) records.events.clear();
    is_contiguous = is_contiguous || is_current;
    if (const auto made = decoder.made_pool(ref)) {
      records.allocator_of_pool.emplace(made->number, made->allocator);
      continue;
    }
    if (auto record = decoder.decode(ref))
      records.events.push_back({*record, file.info().clock.wall_ns(ref.ticks), ref.thread});
  }
  Keyframes keyframes(records);
  for (std::size_t i = 0; i < records.events.size(); ++i) keyframes.see(i);
  return records;
}

}  // namespace tessera::analysis::detail
