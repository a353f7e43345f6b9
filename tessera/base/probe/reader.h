// Reads a record file: of a living process, of a dead one, a copy, a file cut short or spoilt. It takes one snapshot
// through the file system (never mapping it, so nothing that happens to the file later can hurt), checks every offset
// before use and every record, row and string by its own check word, and reports what it could not read in problems().
// What it gives is whole: a slot or row caught half-written is counted as torn, never shown as a record.
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

/// The value of a field. A StringId is given as its string, a Moment in nanoseconds since 1970, an address as a number.
using FieldValue = std::variant<std::uint64_t, std::int64_t, double, bool, std::string>;

/// One field of a record or row.
struct Field {
  std::string name;  ///< as in the writer's struct
  FieldType type;    ///< what the writer stored
  FieldValue value;  ///< what it reads as
};

/// How a file stood when it was read.
enum class RecordState {
  kOpen,    ///< being written, or its process was killed
  kEnded,   ///< ended in order
  kFailed,  ///< its rank failed; FileInfo::reason says why
};

/// Whose file it is.
struct FileInfo {
  std::string path;                 ///< as opened
  std::uint32_t version = 0;        ///< of the format
  std::uint64_t nbytes = 0;         ///< as written; the file may have been cut since
  std::uint64_t pid = 0;            ///< of the writer
  std::uint64_t process_start = 0;  ///< clock ticks since boot; tells processes of one pid apart
  int rank = 0;                     ///< of the writer
  int world_size = 0;               ///< of the writer
  std::string hostname;             ///< where it ran
  std::string boot_id;              ///< files with the same one share a clock
  std::string build;                ///< what wrote it
  RecordState state = {};           ///< how it stood
  std::string reason;               ///< of a failure
  ClockCalibration clock;           ///< turns ticks into wall time
};

/// A record found in the file: enough to sort and pick; RecordFile::read() gives the rest.
struct RecordRef {
  std::uint64_t ticks;   ///< when
  std::uint32_t slot;    ///< place in its ring
  std::uint32_t lap;     ///< how often the ring had gone round
  std::uint16_t kind;    ///< number of its kind in this file
  std::uint16_t thread;  ///< number of its thread in this file
  std::uint16_t ring;    ///< which ring
};

/// A thread that wrote.
struct ThreadInfo {
  std::uint32_t tid = 0;  ///< of the operating system; 0: not known any more
  std::string name;       ///< as in debuggers
};

/// A record as people read it.
struct Record {
  std::string kind;           ///< name; "kind 12" if the file does not describe it
  std::string ring;           ///< "comm", "memory", "launch"
  std::uint64_t ticks = 0;    ///< when, in ticks
  std::int64_t wall_ns = 0;   ///< when, in nanoseconds since 1970
  ThreadInfo thread;          ///< who
  std::vector<Field> fields;  ///< in the order of the struct; five numbers word0.. if the kind is not described

  /// The field of this name, or null.
  [[nodiscard]] TESSERA_API const Field* find(std::string_view name) const;
};

/// One ring, counted.
struct RingInfo {
  std::string name;               ///< "comm", "memory", "launch"
  std::uint64_t slots = 0;        ///< it has
  std::uint64_t records = 0;      ///< whole ones found
  std::uint64_t torn = 0;         ///< slots half-written, or spoilt by a writer that was lapped
  std::uint64_t never_used = 0;   ///< slots without a record yet
  std::uint64_t overwritten = 0;  ///< slots handed out again since the start: records that are gone, at most
};

/// A claimed row of a state table.
struct RowInfo {
  std::uint32_t index = 0;    ///< place in the table
  bool is_torn = false;       ///< caught half-written: the fields may not belong together
  std::int64_t since_ns = 0;  ///< when it was claimed, in nanoseconds since 1970
  std::vector<Field> fields;  ///< in the order of the struct

  /// The field of this name, or null.
  [[nodiscard]] TESSERA_API const Field* find(std::string_view name) const;
};

/// A state table.
struct TableInfo {
  std::string kind;              ///< of its rows
  std::uint32_t rows = 0;        ///< it has, claimed or not
  std::uint64_t refused = 0;     ///< claims that found no free row
  std::vector<RowInfo> claimed;  ///< those in use
};

/// A snapshot of one record file. Movable; safe to read from several threads.
class TESSERA_API RecordFile {
 public:
  /// Reads the file. Throws IoError when nothing of it can be used: no such file, no record file, cut off inside its
  /// header, or written by a newer format. Lesser damage is told by problems().
  static RecordFile open(const std::string& path);

  /// Whose file it is.
  [[nodiscard]] const FileInfo& info() const { return info_; }
  /// What could not be read, one line each, naming the file; empty when all is well.
  [[nodiscard]] const std::vector<std::string>& problems() const { return problems_; }
  /// All whole records of all rings, oldest first.
  [[nodiscard]] const std::vector<RecordRef>& records() const { return records_; }
  /// A record with names and values.
  [[nodiscard]] Record read(const RecordRef& ref) const;
  /// A record as the writer's struct; nothing if it is of another kind, or of one whose fields have changed.
  template <Describable Kind>
  [[nodiscard]] std::optional<Kind> as(const RecordRef& ref) const {
    static constexpr auto fields = Kind::record_fields();
    const auto payload = payload_of(ref, {Kind::kRecordName, sizeof(Kind), fields});
    if (payload.size() < sizeof(Kind)) return std::nullopt;
    Kind record{};
    std::memcpy(static_cast<void*>(&record), payload.data(), sizeof record);
    return record;
  }
  /// Counts of each ring.
  [[nodiscard]] const std::vector<RingInfo>& rings() const { return rings_; }
  /// The state tables with their claimed rows.
  [[nodiscard]] const std::vector<TableInfo>& tables() const { return tables_; }
  /// The table of this kind, or null.
  [[nodiscard]] const TableInfo* find_table(std::string_view kind) const;
  /// An interned string; "(table full)" for 0, "(bad string)" for an id the file does not hold.
  [[nodiscard]] std::string string(StringId id) const;
  /// Strings that found no room in the file.
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
  std::size_t file;  ///< which
  RecordRef ref;     ///< its record
};

/// The records of several files in one order: by ticks where all were written on one machine since it last booted
/// (which is exact), else by wall time.
TESSERA_API std::vector<MergedRef> merge_records(std::span<const RecordFile> files);

/// A value as text.
TESSERA_API std::string to_string(const FieldValue& value);
/// A record on one line, without its time: "launch stream=3 label=softmax tick=17".
TESSERA_API std::string to_string(const Record& record);

}  // namespace tessera::probe
