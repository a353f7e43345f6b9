// What a rank's record says about its groups (base/probe). A launch is three kinds of records in the comm ring, tied by
// (group, task): one for each operation when it is asked for, one when it begins to run and gets its number, one when
// it has ended. A launch in a capture is asked for once and begins and ends at every replay, which a fourth kind names.
// What a ring may forget stands in tables: the last operations that were asked for, and what runs or ran last.
//
//   comm_operation   comm_begin   comm_replay   comm_end     ring
//   comm_group       who is in it                            table, a row a group; ring, when it is made
//   comm_asked       the last operations asked for           table, up to 16 rows a group, the oldest overwritten
//   comm_running     begun and ended so far, and what runs   table, a row a group: nobody else writes it meanwhile
//   comm_replay      the last that began in a replay         table, a row a group
//   comm_signal      waits for signals (symmetric.h)         table, a row per wait that lasts; ring, if a wait failed
//
// A launch is told by its first collective, or by its first message where it has none.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tessera/base/dtype.h"
#include "tessera/base/error.h"
#include "tessera/base/export.h"
#include "tessera/base/probe/ids_only.h"
#include "tessera/base/probe/reader.h"
#include "tessera/base/probe/schema.h"
#include "tessera/comm/operation.h"

namespace tessera::comm {

/// One operation of a launch, when it is asked for. Its thread and time are the record's.
struct OperationRecord {
  std::int64_t count;      ///< as Operation::count; of uneven parts this rank's own, of all_to_all all that it gives
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

/// A launch that begins to run.
struct BeginRecord {
  std::uint64_t sequence;   ///< its number on this rank's communicator, which other groups may share
  std::int64_t count;       ///< as Operation::count
  std::uint32_t task;       ///< as in OperationRecord
  std::uint32_t group;      ///< likewise
  OpKind kind;              ///< likewise
  DType dtype;              ///< likewise
  ReduceKind reduction;     ///< likewise
  std::uint8_t operations;  ///< in the launch; 255: or more
  std::int32_t root;        ///< or the peer of a message
  /// Of a collective: its number among those of the group that have begun, replays counted: the same on all ranks. Of
  /// messages alone: the number of the first among those of its direction with its peer in the group.
  std::uint64_t ordinal;
  TESSERA_RECORD(BeginRecord, "comm_begin", sequence, count, task, group, kind, dtype, reduction, operations, root,
                 ordinal)
};

/// Beside a BeginRecord, where a graph runs the launch. Likewise a row a group, of the last of these.
struct ReplayRecord {
  std::uint64_t sequence;                      ///< as in BeginRecord
  std::uint64_t replay;                        ///< which launch of its executable graph, from 1
  std::uint32_t task;                          ///< as in OperationRecord
  std::uint32_t group;                         ///< likewise
  std::uint32_t graph;                         ///< number of the executable in this process
  std::uint32_t node;                          ///< of the graph, as Graph::nodes() has it
  static constexpr std::uint32_t kRows = 128;  ///< one a group
  TESSERA_RECORD(ReplayRecord, "comm_replay", sequence, replay, task, group, graph, node)
};

/// A launch that has ended.
struct EndRecord {
  std::uint64_t sequence;  ///< its number
  std::uint32_t task;      ///< as in OperationRecord
  std::uint32_t group;     ///< likewise
  probe::Moment met;       ///< when all who take part had come; 0: they had not, or the transport cannot tell
  std::uint8_t failure;    ///< 0: it went well; else 1 + ErrorKind
  TESSERA_RECORD(EndRecord, "comm_end", sequence, task, group, met, failure)
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

/// An operation that was asked of a group, one of the last.
struct CommAskedRow {
  std::int64_t count;                         ///< as Operation::count
  probe::Moment when;                         ///< it was asked for; 0: the row has had none yet
  std::uint32_t task;                         ///< launches so far, its own counted
  std::uint32_t group;                        ///< as in CommGroupRow
  std::uint32_t stream;                       ///< StreamId
  probe::StringId device;                     ///< of the stream
  std::uint32_t parts;                        ///< digest of uneven parts and targets; 0: none
  probe::StringId label;                      ///< memory::Label of the thread
  OpKind kind;                                ///< what
  DType dtype;                                ///< of its elements
  ReduceKind reduction;                       ///< of those that reduce
  std::uint8_t place;                         ///< in its launch; 255: there or after
  std::int32_t root;                          ///< or the peer of a message
  std::uint32_t thread;                       ///< that asked, of the operating system
  std::uint32_t operations;                   ///< in its launch
  static constexpr std::uint32_t kEach = 16;  ///< rows of a group, fewer when they run out
  static constexpr std::uint32_t kRows = CommGroupRow::kRows * kEach;  ///< of all
  TESSERA_RECORD(CommAskedRow, "comm_asked", count, when, task, group, stream, device, parts, label, kind, dtype,
                 reduction, place, root, thread, operations)
};

/// What a group runs, or ran last.
struct CommRunningRow {
  std::uint64_t begun;              ///< number of the last that has begun; it runs as long as `ended` is another
  std::uint64_t ended;              ///< number of the last that has ended
  std::uint64_t failed;             ///< number of the last that failed; 0: none has
  std::int64_t count;               ///< of the last that has begun, as in BeginRecord
  probe::Moment when;               ///< it began
  std::uint32_t task;               ///< as in OperationRecord
  std::uint32_t group;              ///< as in CommGroupRow
  OpKind kind;                      ///< of the last that has begun, as in BeginRecord
  DType dtype;                      ///< likewise
  ReduceKind reduction;             ///< likewise
  std::uint8_t operations;          ///< in the launch; 255: or more
  std::int32_t root;                ///< or the peer of a message
  std::uint64_t ordinal;            ///< as in BeginRecord
  probe::Moment met;                ///< as in EndRecord; 0: not yet, or the transport cannot tell
  std::uint64_t collectives_begun;  ///< launches with collectives that have begun, replays counted
  std::uint64_t collectives_ended;  ///< that have ended, well or not
  static constexpr std::uint32_t kRows = CommGroupRow::kRows;  ///< one a group
  TESSERA_RECORD(CommRunningRow, "comm_running", begun, ended, failed, count, when, task, group, kind, dtype, reduction,
                 operations, root, ordinal, met, collectives_begun, collectives_ended)
};

/// A wait for a signal of symmetric memory that has outlasted spinning.
struct CommSignalRow {
  std::uint64_t number;                       ///< of the signal, among those of this peer and channel
  probe::Moment when;                         ///< the wait began
  std::uint32_t group;                        ///< as in CommGroupRow
  std::int32_t peer;                          ///< group rank whose signal is awaited
  std::int32_t channel;                       ///< of the pool
  std::uint32_t failure;                      ///< 0: the rank waits; otherwise 1 + ErrorKind
  probe::StringId pool;                       ///< name of the pool
  probe::StringId what;                       ///< "wait_signal" or "barrier"
  static constexpr std::uint32_t kRows = 32;  ///< of a rank
  TESSERA_RECORD(CommSignalRow, "comm_signal", number, when, group, peer, channel, failure, pool, what)
};

static_assert(probe::holds_ids_only<CommSignalRow>());
static_assert(probe::holds_ids_only<OperationRecord>() && probe::holds_ids_only<BeginRecord>() &&
              probe::holds_ids_only<ReplayRecord>() && probe::holds_ids_only<EndRecord>());
static_assert(probe::holds_ids_only<CommGroupRow>() && probe::holds_ids_only<CommAskedRow>() &&
              probe::holds_ids_only<CommRunningRow>());

/// A record of these on one line: "world: #17 all_reduce(f32[1024], sum) began (launch 17, collective 17)"; nothing for
/// another kind.
TESSERA_API std::optional<std::string> text_of_record(const probe::RecordFile& file, const probe::RecordRef& ref);
/// The groups of a file and how far each has come, a line each: "world (0-3, shm): 18 launches; runs #17
/// all_reduce(f32[1024], sum) (collective 17), all have come".
TESSERA_API std::vector<std::string> text_of_groups(const probe::RecordFile& file);

}  // namespace tessera::comm
