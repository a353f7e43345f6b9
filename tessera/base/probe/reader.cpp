#include "tessera/base/probe/reader.h"

#include <algorithm>
#include <tuple>

#include "tessera/base/error.h"
#include "tessera/base/probe/detail/string_table.h"
#include "tessera/base/probe/layout.h"

namespace tessera::probe {

using tessera::detail::concat;

namespace {

const Field* find_field(const std::vector<Field>& fields, std::string_view name) {
  const auto found = std::find_if(fields.begin(), fields.end(), [&](const Field& field) { return field.name == name; });
  return found != fields.end() ? &*found : nullptr;
}

template <class T>
T load(std::span<const std::byte> bytes, std::size_t offset) {
  T value{};
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

}  // namespace

const Field* Record::find(std::string_view name) const { return find_field(fields, name); }
const Field* RowInfo::find(std::string_view name) const { return find_field(fields, name); }

const RecordFile::Schema* RecordFile::find_schema(std::uint16_t number) const {
  const auto found =
      std::find_if(schemas_.begin(), schemas_.end(), [&](const Schema& schema) { return schema.number == number; });
  return found != schemas_.end() ? &*found : nullptr;
}

const TableInfo* RecordFile::find_table(std::string_view kind) const {
  const auto found =
      std::find_if(tables_.begin(), tables_.end(), [&](const TableInfo& table) { return table.kind == kind; });
  return found != tables_.end() ? &*found : nullptr;
}

std::string RecordFile::string(StringId id) const {
  if (id == StringId{}) return "(table full)";
  const std::uint64_t at = (std::uint64_t{id.value()} - 1) * 8;
  const char* bad = "(bad string)";
  if (at + sizeof(detail::StringEntry) > strings_nbytes_) return bad;
  const auto* bytes = reinterpret_cast<const char*>(image_.data()) + strings_offset_ + at;
  detail::StringEntry entry{};
  std::memcpy(&entry, bytes, sizeof entry);
  if (entry.nbytes > strings_nbytes_ - at - sizeof entry) return bad;
  const std::string_view text(bytes + sizeof entry, entry.nbytes);
  return detail::string_check(text) == entry.check ? std::string(text) : bad;
}

FieldValue RecordFile::decode(const SchemaField& field, std::span<const std::byte> payload) const {
  switch (field.type) {
    case FieldType::kU8: return std::uint64_t{load<std::uint8_t>(payload, field.offset)};
    case FieldType::kU16: return std::uint64_t{load<std::uint16_t>(payload, field.offset)};
    case FieldType::kU32: return std::uint64_t{load<std::uint32_t>(payload, field.offset)};
    case FieldType::kU64:
    case FieldType::kAddress: return load<std::uint64_t>(payload, field.offset);
    case FieldType::kI8: return std::int64_t{load<std::int8_t>(payload, field.offset)};
    case FieldType::kI16: return std::int64_t{load<std::int16_t>(payload, field.offset)};
    case FieldType::kI32: return std::int64_t{load<std::int32_t>(payload, field.offset)};
    case FieldType::kI64: return load<std::int64_t>(payload, field.offset);
    case FieldType::kF32: return double{load<float>(payload, field.offset)};
    case FieldType::kF64: return load<double>(payload, field.offset);
    case FieldType::kBool: return load<std::uint8_t>(payload, field.offset) != 0;
    case FieldType::kString: return string(StringId{load<std::uint32_t>(payload, field.offset)});
    case FieldType::kMoment: {
      const auto ticks = load<std::uint64_t>(payload, field.offset);
      return ticks != 0 ? info_.clock.wall_ns(ticks) : std::int64_t{0};
    }
    case FieldType::kText: break;
  }
  const auto* text = reinterpret_cast<const char*>(payload.data()) + field.offset;
  return std::string(text, strnlen(text, field.nbytes));
}

std::vector<Field> RecordFile::decode(const Schema& schema, std::span<const std::byte> payload) const {
  std::vector<Field> fields;
  fields.reserve(schema.fields.size());
  for (const auto& field : schema.fields) {
    if (std::size_t{field.offset} + field.nbytes > payload.size()) continue;
    fields.push_back({field.name, field.type, decode(field, payload)});
  }
  return fields;
}

std::span<const std::byte> RecordFile::payload_of(const RecordRef& ref) const {
  if (ref.ring >= rings_.size() || ref.slot >= rings_[ref.ring].slots) return {};
  const std::uint64_t at = ring_offsets_[ref.ring] + std::uint64_t{ref.slot} * detail::kSlotBytes;
  const auto* slot = reinterpret_cast<const std::byte*>(image_.data()) + at;
  return {slot + detail::kSlotBytes - detail::kPayloadBytes, detail::kPayloadBytes};
}

std::span<const std::byte> RecordFile::payload_of(const RecordRef& ref, const KindInfo& kind) const {
  const Schema* schema = find_schema(ref.kind);
  if (schema == nullptr || schema->name != kind.name || schema->payload_bytes != kind.nbytes) return {};
  const bool is_same = std::equal(schema->fields.begin(), schema->fields.end(), kind.fields.begin(), kind.fields.end(),
                                  [](const SchemaField& a, const FieldInfo& b) {
                                    return a.name == b.name && a.type == b.type && a.offset == b.offset;
                                  });
  return is_same ? payload_of(ref) : std::span<const std::byte>{};
}

Record RecordFile::read(const RecordRef& ref) const {
  const auto payload = payload_of(ref);
  TESSERA_CHECK(!payload.empty(), "record file ", info_.path, ": ring ", ref.ring, " has no slot ", ref.slot);
  Record record;
  record.ring = rings_[ref.ring].name;
  record.ticks = ref.ticks;
  record.wall_ns = info_.clock.wall_ns(ref.ticks);
  // If all rows of the table of threads are taken, a row is reused; the thread of older records is then unknown.
  if (ref.thread < threads_.size() && threads_[ref.thread].started <= ref.ticks)
    record.thread = threads_[ref.thread].info;
  const Schema* schema = find_schema(ref.kind);
  if (schema != nullptr) {
    record.kind = schema->name;
    record.fields = decode(*schema, payload);
    return record;
  }
  record.kind = concat("kind ", ref.kind);
  for (std::size_t i = 0; i < detail::kPayloadWords; ++i) {
    record.fields.push_back({concat("word", i), FieldType::kU64, load<std::uint64_t>(payload, i * 8)});
  }
  return record;
}

std::vector<MergedRef> merge_records(std::span<const RecordFile> files) {
  bool share_clock = true;
  std::size_t count = 0;
  for (const RecordFile& file : files) {
    const FileInfo& first = files.front().info();
    const bool is_same = !first.boot_id.empty() && file.info().boot_id == first.boot_id &&
                         file.info().clock.source == first.clock.source;
    share_clock = share_clock && is_same;
    count += file.records().size();
  }
  struct Keyed {
    std::uint64_t key;
    MergedRef merged;
  };
  std::vector<Keyed> all;
  all.reserve(count);
  for (std::size_t i = 0; i < files.size(); ++i) {
    for (const RecordRef& ref : files[i].records()) {
      // Flipping the sign bit makes signed times sort as unsigned ones.
      const auto wall = static_cast<std::uint64_t>(files[i].info().clock.wall_ns(ref.ticks)) ^ std::uint64_t{1} << 63;
      all.push_back({share_clock ? ref.ticks : wall, {i, ref}});
    }
  }
  std::stable_sort(all.begin(), all.end(), [](const Keyed& a, const Keyed& b) { return a.key < b.key; });
  std::vector<MergedRef> merged;
  merged.reserve(all.size());
  for (const Keyed& each : all) merged.push_back(each.merged);
  return merged;
}

std::string to_string(const FieldValue& value) {
  return std::visit([](const auto& held) { return concat(held); }, value);
}

std::string to_string(const Record& record) {
  std::string line = record.kind;
  for (const Field& field : record.fields) line += concat(" ", field.name, "=", to_string(field.value));
  return line;
}

}  // namespace tessera::probe
