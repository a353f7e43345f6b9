// Records of the groups of a rank (base/probe). A launch writes three kinds of records to the comm ring, with the same
// (group, task): one per operation when it is enqueued, one when it starts and gets its number, one when it ends. A
// captured launch is enqueued once, and starts and ends at each replay; a fourth kind identifies the replay. Tables
// hold the state that a ring may have overwritten: the last enqueued operations, and the running or last operation.
//
//   comm_operation   comm_begin   comm_replay   comm_end     ring
//   comm_group       members of the group                    table, a row per group; ring, at group creation
//   comm_asked       the last enqueued operations            table, up to 16 rows per group, the oldest overwritten
//   comm_running     started, ended and running launches     table, a row per group with a single writer at a time
//   comm_replay      the last launch started by a replay     table, a row per group
//   comm_signal      waits for signals (symmetric.h)         table, a row per long wait; ring, if a wait failed
//   comm_making      a group creation, active or ended       table, up to 8 rows per rank, the oldest overwritten
//   comm_collective  a collective of the program             table, a row per kind; stays when the rank ends
//
// A launch is described by its first collective, or by its first point-to-point operation if it has no collective.
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

/// One operation of a launch, when it is enqueued. The record contains its thread and time.
struct OperationRecord {
  std::int64_t count;    ///< see Operation::count; this rank's elements if chunks are uneven; all_to_all: elements sent
  std::uint32_t task;    ///< number of the launch in its group, from 1
  std::uint32_t group;   ///< number of the group in this file
  std::uint32_t stream;  ///< StreamId
  probe::StringId device;  ///< device of the stream
  std::uint32_t parts;     ///< digest of uneven counts and targets; 0 without such lists
  probe::StringId label;   ///< memory::Label of the calling thread
  OpKind kind;             ///< kind of the operation
  DType dtype;             ///< dtype of the elements
  Reduction reduction;     ///< kind of the reduction, if the operation reduces
  std::uint8_t place;      ///< index in its launch; 255: 255 or more
  std::int32_t root;       ///< root, or the peer of a point-to-point operation
  TESSERA_RECORD(OperationRecord, "comm_operation", count, task, group, stream, device, parts, label, kind, dtype,
                 reduction, place, root)
};

/// The start of a launch.
struct BeginRecord {
  std::uint64_t sequence;   ///< number in this rank's communicator, which groups may share
  std::int64_t count;       ///< see Operation::count
  std::uint32_t task;       ///< see OperationRecord
  std::uint32_t group;      ///< see OperationRecord
  OpKind kind;              ///< see OperationRecord
  DType dtype;              ///< see OperationRecord
  Reduction reduction;      ///< see OperationRecord
  std::uint8_t operations;  ///< operations in the launch; 255: 255 or more
  std::int32_t root;        ///< root, or the peer of a point-to-point operation
  /// Collective number in the group, replays included; equal on all ranks. For a launch of point-to-point operations
  /// only, the number of the first one among those of its direction with its peer in the group.
  std::uint64_t collective_number;
  TESSERA_RECORD(BeginRecord, "comm_begin", sequence, count, task, group, kind, dtype, reduction, operations, root,
                 collective_number)
};

/// Written in addition to a BeginRecord if a graph runs the launch. The table has a row per group with the last one.
struct ReplayRecord {
  std::uint64_t sequence;                      ///< see BeginRecord
  std::uint64_t replay;                        ///< number of the launch of the executable graph, from 1
  std::uint32_t task;                          ///< see OperationRecord
  std::uint32_t group;                         ///< see OperationRecord
  std::uint32_t graph;                         ///< number of the executable graph in this process
  std::uint32_t node;                          ///< index in Graph::nodes()
  static constexpr std::uint32_t kRows = 128;  ///< one per group
  TESSERA_RECORD(ReplayRecord, "comm_replay", sequence, replay, task, group, graph, node)
};

/// The end of a launch.
struct EndRecord {
  std::uint64_t sequence;  ///< see BeginRecord
  std::uint32_t task;      ///< see OperationRecord
  std::uint32_t group;     ///< see OperationRecord
  probe::Moment met;       ///< when all participants had arrived; 0 if they had not, or the backend does not know
  std::uint8_t failure;    ///< 0 on success, otherwise 1 + ErrorKind
  TESSERA_RECORD(EndRecord, "comm_end", sequence, task, group, met, failure)
};

/// A group of this rank.
struct CommGroupRow {
  std::uint32_t group;                         ///< number of the group in this file
  std::int32_t rank;                           ///< group rank of this rank
  std::int32_t size;                           ///< number of ranks in the group
  probe::StringId name;                        ///< of the group
  probe::StringId ranks;                       ///< world ranks of the group, for example "0-3"
  probe::StringId backend;                     ///< for example "shm"
  static constexpr std::uint32_t kRows = 128;  ///< maximum number of groups at a time
  TESSERA_RECORD(CommGroupRow, "comm_group", group, rank, size, name, ranks, backend)
};

/// One of the last operations that were enqueued in a group.
struct CommAskedRow {
  std::int64_t count;                         ///< see Operation::count
  probe::Moment when;                         ///< time of the enqueue; 0 if the row is unused
  std::uint32_t task;                         ///< number of the launch in its group, from 1
  std::uint32_t group;                        ///< see CommGroupRow
  std::uint32_t stream;                       ///< StreamId
  probe::StringId device;                     ///< device of the stream
  std::uint32_t parts;                        ///< digest of uneven counts and targets; 0 without such lists
  probe::StringId label;                      ///< memory::Label of the calling thread
  OpKind kind;                                ///< kind of the operation
  DType dtype;                                ///< dtype of the elements
  Reduction reduction;                        ///< kind of the reduction, if the operation reduces
  std::uint8_t place;                         ///< index in its launch; 255: 255 or more
  std::int32_t root;                          ///< root, or the peer of a point-to-point operation
  std::uint32_t thread;                       ///< operating system id of the calling thread
  std::uint32_t operations;                   ///< operations in its launch
  static constexpr std::uint32_t kEach = 16;  ///< rows per group; fewer if the table is full
  static constexpr std::uint32_t kRows = CommGroupRow::kRows * kEach;  ///< rows of all groups
  TESSERA_RECORD(CommAskedRow, "comm_asked", count, when, task, group, stream, device, parts, label, kind, dtype,
                 reduction, place, root, thread, operations)
};

/// The running launch of a group, or its last one.
struct CommRunningRow {
  std::uint64_t begun;              ///< number of the last started launch; it is running while `ended` differs
  std::uint64_t ended;              ///< number of the last ended launch
  std::uint64_t failed;             ///< number of the last failed launch; 0 if none failed
  std::int64_t count;               ///< count of the last started launch, see BeginRecord
  probe::Moment when;               ///< start time
  std::uint32_t task;               ///< see OperationRecord
  std::uint32_t group;              ///< see CommGroupRow
  OpKind kind;                      ///< kind of the last started launch, see BeginRecord
  DType dtype;                      ///< see BeginRecord
  Reduction reduction;              ///< see BeginRecord
  std::uint8_t operations;          ///< operations in the launch; 255: 255 or more
  std::int32_t root;                ///< root, or the peer of a point-to-point operation
  std::uint64_t collective_number;  ///< see BeginRecord
  probe::Moment met;                ///< see EndRecord; 0 if not yet, or if the backend does not know
  std::uint64_t collectives_begun;  ///< number of launches with collectives that have started, replays included
  std::uint64_t collectives_ended;  ///< number of those that have ended, with or without an error
  static constexpr std::uint32_t kRows = CommGroupRow::kRows;  ///< one per group
  TESSERA_RECORD(CommRunningRow, "comm_running", begun, ended, failed, count, when, task, group, kind, dtype, reduction,
                 operations, root, collective_number, met, collectives_begun, collectives_ended)
};

/// A wait for a signal of symmetric memory that has outlasted spinning.
struct CommSignalRow {
  std::uint64_t number;                       ///< number of the signal among those of this peer and channel
  probe::Moment when;                         ///< start of the wait
  std::uint32_t group;                        ///< see CommGroupRow
  std::int32_t peer;                          ///< group rank that sends the signal
  std::int32_t channel;                       ///< channel of the pool
  std::uint32_t failure;                      ///< 0 while the rank waits, otherwise 1 + ErrorKind
  probe::StringId pool;                       ///< name of the pool
  probe::StringId what;                       ///< "wait_signal" or "barrier"
  static constexpr std::uint32_t kRows = 32;  ///< rows per rank
  TESSERA_RECORD(CommSignalRow, "comm_signal", number, when, group, peer, channel, failure, pool, what)
};

/// A step of a group creation that several ranks must reach.
struct GroupCreationRow {
  probe::StringId what;                      ///< "split 3 of group world", "group low"; equal on all ranks
  probe::StringId from;                      ///< parent group of a split, or empty
  probe::StringId ranks;                     ///< world ranks that must arrive: "0-3"
  std::uint32_t number;                      ///< number of the split in its parent group; 0 for other groups
  probe::Moment when;                        ///< start of the step
  std::uint32_t state;                       ///< 0: waiting, 1: done, 2 + ErrorKind: failed
  std::uint32_t thread;                      ///< operating system id
  static constexpr std::uint32_t kRows = 8;  ///< rows per rank
  TESSERA_RECORD(GroupCreationRow, "comm_making", what, from, ranks, number, when, state, thread)
};

/// A collective that the program registered. Readers do not know its kind.
struct CollectiveRow {
  probe::StringId name;                                                     ///< name of the collective
  OpKind kind;                                                              ///< kind of its operations
  std::uint8_t reduces;                                                     ///< 1 if the operations reduce
  std::uint8_t is_rooted;                                                   ///< 1 if the operations have a root
  static constexpr std::uint32_t kRows = kMaxOpKinds - kFirstCustomOpKind;  ///< one per kind
  TESSERA_RECORD(CollectiveRow, "comm_collective", name, kind, reduces, is_rooted)
};

static_assert(probe::holds_ids_only<CommSignalRow>() && probe::holds_ids_only<GroupCreationRow>() &&
              probe::holds_ids_only<CollectiveRow>());
static_assert(probe::holds_ids_only<OperationRecord>() && probe::holds_ids_only<BeginRecord>() &&
              probe::holds_ids_only<ReplayRecord>() && probe::holds_ids_only<EndRecord>());
static_assert(probe::holds_ids_only<CommGroupRow>() && probe::holds_ids_only<CommAskedRow>() &&
              probe::holds_ids_only<CommRunningRow>());

/// Formats a comm record on one line: "world: #17 all_reduce(f32[1024], sum) started (launch 17, collective 17)".
/// Returns nullopt for other kinds.
TESSERA_API std::optional<std::string> text_of_record(const probe::RecordFile& file, const probe::RecordRef& ref);
/// Formats the groups of a file and their progress, one line each: "world (0-3, shm): 18 launches; runs #17
/// all_reduce(f32[1024], sum) (collective 17), all have come".
TESSERA_API std::vector<std::string> text_of_groups(const probe::RecordFile& file);

}  // namespace tessera::comm
