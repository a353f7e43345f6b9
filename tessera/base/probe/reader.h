// Reads a record file: of a running or dead process, a copy, a truncated or corrupt file. The reader takes one snapshot
// through the file system (without mmap, so later changes to the file are harmless), checks every offset before use and
// every record, row and string by its check word, and reports unreadable data in problems(). All returned records are
// complete: a half-written slot or row is counted as torn, never returned as a record.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/base/probe/schema.h"
#include "tessera/base/probe/tsc_clock.h"

namespace tessera::probe {

/// Value of a field. A StringId is returned as its string, a Moment in nanoseconds since 1970, an address as a number.
using FieldValue = std::variant<std::uint64_t, std::int64_t, double, bool, std::string>;

/// One field of a record or row.
struct Field {
  std::string name;  ///< Name in the struct of the writer.
  FieldType type;    ///< Stored type.
  FieldValue value;  ///< Decoded value.
};

/// State of a file when it was read.
enum class RecordState {
  kOpen,    ///< The process is writing, or was killed.
  kEnded,   ///< The recording ended normally.
  kFailed,  ///< The rank failed; FileInfo::reason has the reason.
};

/// Writer and format of a file.
struct FileInfo {
  std::string path;                 ///< As opened.
  std::uint32_t version = 0;        ///< Version of the format.
  std::uint64_t nbytes = 0;         ///< Size as written; the file may have been truncated since.
  std::uint64_t pid = 0;            ///< Process id of the writer.
  std::uint64_t process_start = 0;  ///< Clock ticks since boot. Distinguishes processes with the same pid.
  int rank = 0;                     ///< Rank of the writer.
  int world_size = 0;               ///< World size of the writer.
  std::string hostname;             ///< Machine of the writer.
  std::string boot_id;              ///< Files with equal boot ids share a clock.
  std::string build;                ///< Build of the writer.
  RecordState state = {};           ///< State when the file was read.
  std::string reason;               ///< Reason of a failure.
  ClockCalibration clock;           ///< Converts ticks to wall time.
};

/// A record of the file, with enough data to sort and select; RecordFile::read() returns the rest.
struct RecordRef {
  std::uint64_t ticks;   ///< Time of the record.
  std::uint32_t slot;    ///< Index in its ring.
  std::uint32_t lap;     ///< Number of times the ring had wrapped around.
  std::uint16_t kind;    ///< Number of its kind in this file.
  std::uint16_t thread;  ///< Number of its thread in this file.
  std::uint16_t ring;    ///< Number of its ring.
};

/// A thread that wrote records.
struct ThreadInfo {
  std::uint32_t tid = 0;  ///< Id of the operating system; 0 if no longer known.
  std::string name;       ///< Name that debuggers show.
};

/// A decoded record.
struct Record {
  std::string kind;           ///< Name; "kind 12" if the file does not describe the kind.
  std::string ring;           ///< "comm", "memory", "launch"
  std::uint64_t ticks = 0;    ///< Time in ticks.
  std::int64_t wall_ns = 0;   ///< Time in nanoseconds since 1970.
  ThreadInfo thread;          ///< Thread that wrote the record.
  std::vector<Field> fields;  ///< In the order of the struct; five numbers word0.. if the kind is not described.

  /// Returns the field with this name, or null.
  [[nodiscard]] TESSERA_API const Field* find(std::string_view name) const;
};

/// Statistics of one ring.
struct RingInfo {
  std::string name;               ///< "comm", "memory", "launch"
  std::uint64_t slots = 0;        ///< Number of slots.
  std::uint64_t records = 0;      ///< Number of complete records.
  std::uint64_t torn = 0;         ///< Slots that are half-written, or damaged by a writer that was lapped.
  std::uint64_t never_used = 0;   ///< Slots without a record so far.
  std::uint64_t overwritten = 0;  ///< Slots leased again since the start: maximum number of lost records.
};

/// A claimed row of a state table.
struct RowInfo {
  std::uint32_t index = 0;    ///< Index in the table.
  bool is_torn = false;       ///< The row was half-written: the fields may be inconsistent.
  std::int64_t since_ns = 0;  ///< Time of the claim in nanoseconds since 1970.
  std::vector<Field> fields;  ///< In the order of the struct.

  /// Returns the field with this name, or null.
  [[nodiscard]] TESSERA_API const Field* find(std::string_view name) const;
};

/// A state table.
struct TableInfo {
  std::string kind;              ///< Kind of the rows.
  std::uint32_t rows = 0;        ///< Number of rows, claimed or free.
  std::uint64_t refused = 0;     ///< Claims that found no free row.
  std::vector<RowInfo> claimed;  ///< Rows in use.
};

/// A snapshot of one record file. Movable; thread-safe for reading.
class TESSERA_API RecordFile {
 public:
  /// Reads the file. Throws IoError if nothing is usable: the file does not exist, is not a record file, is truncated
  /// inside its header, or has a newer format. problems() reports lesser damage.
  static RecordFile open(const std::string& path);

  /// Returns the writer and format of the file.
  [[nodiscard]] const FileInfo& info() const { return info_; }
  /// Returns one line for each unreadable item, which names the file; empty if there are none.
  [[nodiscard]] const std::vector<std::string>& problems() const { return problems_; }
  /// Returns all complete records of all rings, oldest first.
  [[nodiscard]] const std::vector<RecordRef>& records() const { return records_; }
  /// Returns a record with names and values.
  [[nodiscard]] Record read(const RecordRef& ref) const;
  /// Returns a record as the struct of the writer, or nothing if it is of
  /// another kind or the fields of the kind have changed.
  template <Describable Kind>
  [[nodiscard]] std::optional<Kind> as(const RecordRef& ref) const {
    static constexpr auto fields = Kind::record_fields();
    const auto payload = payload_of(ref, {Kind::kRecordName, sizeof(Kind), fields});
    if (payload.size() < sizeof(Kind)) return std::nullopt;
    Kind record{};
    std::memcpy(static_cast<void*>(&record), payload.data(), sizeof record);
    return record;
  }
  /// Returns the statistics of each ring.
  [[nodiscard]] const std::vector<RingInfo>& rings() const { return rings_; }
  /// Returns the state tables with their claimed rows.
  [[nodiscard]] const std::vector<TableInfo>& tables() const { return tables_; }
  /// Returns the table of this kind, or null.
  [[nodiscard]] const TableInfo* find_table(std::string_view kind) const;
  /// Returns an interned string; "(table full)" for 0, "(bad string)" for an id that the file does not have.
  [[nodiscard]] std::string string(StringId id) const;
  /// Returns the number of strings that did not fit into the file.
  [[nodiscard]] std::uint64_t dropped_strings() const { return dropped_strings_; }

 private:
  friend class RecordFileParser;
  struct SchemaField {
    std::string name;
    FieldType type;
    std::uint16_t offset;
    std::uint16_t nbytes;
  };
  struct Schema {
    std::uint16_t number = 0;
    std::uint16_t payload_bytes = 0;
    std::string name;
    std::vector<SchemaField> fields;
  };
  struct ThreadSpan {
    std::uint64_t started = 0;
    ThreadInfo info;
  };

  RecordFile() = default;
  [[nodiscard]] std::span<const std::byte> payload_of(const RecordRef& ref, const KindInfo& kind) const;
  [[nodiscard]] std::span<const std::byte> payload_of(const RecordRef& ref) const;
  [[nodiscard]] const Schema* find_schema(std::uint16_t number) const;
  [[nodiscard]] std::vector<Field> decode(const Schema& schema, std::span<const std::byte> payload) const;
  [[nodiscard]] FieldValue decode(const SchemaField& field, std::span<const std::byte> payload) const;

  FileInfo info_;
  std::vector<std::string> problems_;
  std::vector<std::uint64_t> image_;  // the file, in words
  std::vector<Schema> schemas_;       // by number
  std::vector<RingInfo> rings_;
  std::vector<std::uint64_t> ring_offsets_;  // of slot 0, in bytes
  std::vector<RecordRef> records_;
  std::vector<TableInfo> tables_;
  std::vector<ThreadSpan> threads_;
  std::uint64_t strings_offset_ = 0;  // of the first entry
  std::uint64_t strings_nbytes_ = 0;
  std::uint64_t dropped_strings_ = 0;
};

/// A record of one of several files.
struct MergedRef {
  std::size_t file;  ///< Index of the file.
  RecordRef ref;     ///< Record in that file.
};

/// Returns the records of several files in one order: by ticks if all were written on one machine since its last boot
/// (this is exact), otherwise by wall time.
TESSERA_API std::vector<MergedRef> merge_records(std::span<const RecordFile> files);

/// Returns a value as text.
TESSERA_API std::string to_string(const FieldValue& value);
/// Returns a record as one line without its time: "launch stream=3 label=softmax tick=17".
TESSERA_API std::string to_string(const Record& record);

}  // namespace tessera::probe
