// What a rank is doing, in its own words:
//
//   record::Scope scope("step", step);
//
// is an open mark of this thread until the end of the block. Marks nest. An open mark is a row of the rank's record,
// which nothing washes away, so that of a rank that hangs it is known what it was at; its begin and its end are records
// in the launch ring as well. Where recording is off a mark costs a branch.
//
//   record_mark_begin   record_mark_end   ring
//   record_mark         the open ones     table; a row without a name is between two marks
#pragma once

#include <cstdint>
#include <string_view>

#include "tessera/base/export.h"
#include "tessera/base/probe/ids_only.h"
#include "tessera/base/probe/schema.h"
#include "tessera/base/probe/state_table.h"

namespace tessera::record {

/// An open mark.
struct MarkRow {
  std::int64_t value;                          ///< as given
  probe::Moment since;                         ///< when it began; 0: no mark
  probe::StringId name;                        ///< as given; empty: no mark
  std::uint32_t thread;                        ///< whose it is, of the operating system
  std::uint32_t depth;                         ///< open marks of the thread that it is inside of
  static constexpr std::uint32_t kRows = 512;  ///< of all threads
  TESSERA_RECORD(MarkRow, "record_mark", value, since, name, thread, depth)
};

/// A mark that begins, on the thread of the record.
struct MarkBeginRecord {
  std::int64_t value;    ///< as given
  probe::StringId name;  ///< as given
  std::uint32_t depth;   ///< as in MarkRow
  TESSERA_RECORD(MarkBeginRecord, "record_mark_begin", value, name, depth)
};

/// A mark that ends.
struct MarkEndRecord {
  std::int64_t value;    ///< as in MarkBeginRecord
  probe::StringId name;  ///< likewise
  std::uint32_t depth;   ///< likewise
  TESSERA_RECORD(MarkEndRecord, "record_mark_end", value, name, depth)
};

static_assert(probe::holds_ids_only<MarkRow>() && probe::holds_ids_only<MarkBeginRecord>() &&
              probe::holds_ids_only<MarkEndRecord>());

/// A mark of this thread in the record of its rank, as long as it lives. To be destroyed on the thread that made it;
/// another thread may, and so may the rank have ended meanwhile: then the mark goes with its record.
class TESSERA_API Scope {
 public:
  /// Opens the mark. The name is kept once a record.
  explicit Scope(std::string_view name, std::int64_t value = 0);
  /// Closes it.
  ~Scope();
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  std::uint64_t recorder_ = 0;  // whose record; 0: it is not recorded
  probe::Row<MarkRow> row_;
  std::int64_t value_ = 0;
  probe::StringId name_ = {};
  std::uint32_t depth_ = 0;
};

}  // namespace tessera::record
