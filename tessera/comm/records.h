// What a rank's record says about its groups (base/probe). A launch is three kinds of records in the comm ring, tied by
// (group, task): one for each operation when it is asked for, one when it begins to run and gets its number, one when
// it has ended. A launch in a capture is asked for once and begins and ends at every replay. What a ring may forget
// stands in tables, a row a group: what was asked for last, and what runs or ran last.
//
//   comm_operation   comm_begin   comm_end         ring
//   comm_group       who is in it                  table
//   comm_asked       launches so far, the last     table; launches in flight: those asked for and not ended
//   comm_running     begun and ended so far, and the one that runs: nobody else writes it meanwhile
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tessera/base/dtype.h"
#include "tessera/base/error.h"
#include "tessera/base/export.h"
#include "tessera/base/probe/reader.h"
#include "tessera/base/probe/schema.h"
#include "tessera/comm/operation.h"

namespace tessera::comm {

/// One operation of a launch, when it is asked for. Its thread and time are the record's.
struct OperationRecord {
  std::int64_t count;      ///< as Operation::count
  std::uint32_t task;      ///< launches of the group so far, this one counted
  std::uint32_t group;     ///< number of the group in this file
  std::uint32_t stream;    ///< StreamId
  probe::StringId device;  ///< of the stream
  std::uint32_t parts;     ///< digest of uneven parts and targets; 0: none
  probe::StringId label;   ///< memory::Label of the thread
  OpKind kind;             ///< what
  DType dtype;             ///< of its elements
  ReduceKind reduction;    ///< of those that reduce
  std::uint8_t place;      ///< in its launch; 255: there or after
  std::int32_t root;       ///< or the peer of a message
  TESSERA_RECORD(OperationRecord, "comm_operation", count, task, group, stream, device, parts, label, kind, dtype,
                 reduction, place, root)
};

/// A launch that begins to run; what it does is told of its first operation.
struct BeginRecord {
  std::uint64_t sequence;   ///< its number
  std::int64_t count;       ///< as Operation::count
  std::uint32_t task;       ///< as in OperationRecord
  std::uint32_t group;      ///< likewise
  OpKind kind;              ///< likewise
  DType dtype;              ///< likewise
  ReduceKind reduction;     ///< likewise
  std::uint8_t operations;  ///< in the launch; 255: or more
  std::int32_t root;        ///< or the peer of a message
  TESSERA_RECORD(BeginRecord, "comm_begin", sequence, count, task, group, kind, dtype, reduction, operations, root)
};

/// A launch that has ended.
struct EndRecord {
  std::uint64_t sequence;  ///< its number
  std::uint32_t task;      ///< as in OperationRecord
  std::uint32_t group;     ///< likewise
  std::uint8_t failure;    ///< 0: it went well; else 1 + ErrorKind
  TESSERA_RECORD(EndRecord, "comm_end", sequence, task, group, failure)
};

/// A group of this rank.
struct CommGroupRow {
  std::uint32_t group;                         ///< its number in this file
  std::int32_t rank;                           ///< place of this rank in it
  std::int32_t size;                           ///< ranks in it
  probe::StringId name;                        ///< of the group
  probe::StringId ranks;                       ///< its ranks in the world, "0-3"
  probe::StringId backend;                     ///< "shm"
  static constexpr std::uint32_t kRows = 128;  ///< groups at once
  TESSERA_RECORD(CommGroupRow, "comm_group", group, rank, size, name, ranks, backend)
};

/// What was asked of a group last.
struct CommAskedRow {
  std::int64_t count;                                          ///< of its first operation
  probe::Moment when;                                          ///< it was asked for
  std::uint32_t task;                                          ///< launches so far, this one counted
  std::uint32_t group;                                         ///< as in CommGroupRow
  OpKind kind;                                                 ///< of its first operation
  DType dtype;                                                 ///< likewise
  ReduceKind reduction;                                        ///< likewise
  std::uint8_t operations;                                     ///< in the launch; 255: or more
  std::int32_t root;                                           ///< or the peer of a message
  static constexpr std::uint32_t kRows = CommGroupRow::kRows;  ///< one a group
  TESSERA_RECORD(CommAskedRow, "comm_asked", count, when, task, group, kind, dtype, reduction, operations, root)
};

/// What a group runs, or ran last.
struct CommRunningRow {
  std::uint64_t begun;      ///< number of the last that has begun; it runs as long as `ended` is another
  std::uint64_t ended;      ///< number of the last that has ended
  std::uint64_t failed;     ///< number of the last that failed; 0: none has
  std::int64_t count;       ///< of the first operation of the last that has begun
  probe::Moment when;       ///< it began
  std::uint32_t task;       ///< as in OperationRecord
  std::uint32_t group;      ///< as in CommGroupRow
  OpKind kind;              ///< of its first operation
  DType dtype;              ///< likewise
  ReduceKind reduction;     ///< likewise
  std::uint8_t operations;  ///< in the launch; 255: or more
  std::int32_t root;        ///< or the peer of a message
  static constexpr std::uint32_t kRows = CommGroupRow::kRows;  ///< one a group
  TESSERA_RECORD(CommRunningRow, "comm_running", begun, ended, failed, count, when, task, group, kind, dtype, reduction,
                 operations, root)
};

static_assert(probe::Describable<OperationRecord> && probe::Describable<BeginRecord> && probe::Describable<EndRecord>);
static_assert(probe::Describable<CommGroupRow> && probe::Describable<CommAskedRow> &&
              probe::Describable<CommRunningRow>);

/// A record of these on one line: "world: #17 all_reduce(f32[1024], sum) began"; nothing for another kind.
TESSERA_API std::optional<std::string> text_of_record(const probe::RecordFile& file, const probe::RecordRef& ref);
/// The groups of a file and how far each has come, a line each: "world (0-3, shm): 18 launches; runs #17
/// all_reduce(f32[1024], sum)".
TESSERA_API std::vector<std::string> text_of_groups(const probe::RecordFile& file);

}  // namespace tessera::comm
