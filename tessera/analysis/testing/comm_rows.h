// Records and rows of groups, field by field: as comm writes them (comm/records.h), and in the version before launches
// were numbered. Files of both are read, so these definitions must not follow later changes of comm.
#pragma once

#include <cstdint>

#include "tessera/base/dtype.h"
#include "tessera/base/probe/schema.h"
#include "tessera/comm/operation.h"

namespace tessera::analysis::testing {

using comm::OpKind;
using probe::Moment;
using probe::StringId;

struct OperationRow {
  std::int64_t count;
  std::uint32_t task, group, stream;
  StringId device;
  std::uint32_t parts;
  StringId label;
  OpKind kind;
  DType dtype;
  Reduction reduction;
  std::uint8_t place;
  std::int32_t root;
  TESSERA_RECORD(OperationRow, "comm_operation", count, task, group, stream, device, parts, label, kind, dtype,
                 reduction, place, root)
};
struct BeginRow {
  std::uint64_t sequence;
  std::int64_t count;
  std::uint32_t task, group;
  OpKind kind;
  DType dtype;
  Reduction reduction;
  std::uint8_t operations;
  std::int32_t root;
  std::uint64_t collective_number;
  TESSERA_RECORD(BeginRow, "comm_begin", sequence, count, task, group, kind, dtype, reduction, operations, root,
                 collective_number)
};
struct ReplayRow {
  std::uint64_t sequence, replay;
  std::uint32_t task, group, graph, node;
  static constexpr std::uint32_t kRows = 16;
  TESSERA_RECORD(ReplayRow, "comm_replay", sequence, replay, task, group, graph, node)
};
struct EndRow {
  std::uint64_t sequence;
  std::uint32_t task, group;
  Moment met;
  std::uint8_t failure;
  TESSERA_RECORD(EndRow, "comm_end", sequence, task, group, met, failure)
};
struct GroupRow {
  std::uint32_t group;
  std::int32_t rank, size;
  StringId name, ranks, backend;
  static constexpr std::uint32_t kRows = 16;
  TESSERA_RECORD(GroupRow, "comm_group", group, rank, size, name, ranks, backend)
};
struct AskedRow {
  std::int64_t count = {};
  Moment when = {};
  std::uint32_t task = {};
  std::uint32_t group = {};
  std::uint32_t stream = {};
  StringId device = {};
  std::uint32_t parts = {};
  StringId label = {};
  OpKind kind = {};
  DType dtype = {};
  Reduction reduction = {};
  std::uint8_t place = {};
  std::int32_t root = {};
  std::uint32_t thread = {};
  std::uint32_t operations = {};
  static constexpr std::uint32_t kRows = 64;
  TESSERA_RECORD(AskedRow, "comm_asked", count, when, task, group, stream, device, parts, label, kind, dtype, reduction,
                 place, root, thread, operations)
};
struct RunningRow {
  std::uint64_t begun = {};
  std::uint64_t ended = {};
  std::uint64_t failed = {};
  std::int64_t count = {};
  Moment when = {};
  std::uint32_t task = {};
  std::uint32_t group = {};
  OpKind kind = {};
  DType dtype = {};
  Reduction reduction = {};
  std::uint8_t operations = {};
  std::int32_t root = {};
  std::uint64_t collective_number = {};
  Moment met = {};
  std::uint64_t collectives_begun = {};
  std::uint64_t collectives_ended = {};
  static constexpr std::uint32_t kRows = 16;
  TESSERA_RECORD(RunningRow, "comm_running", begun, ended, failed, count, when, task, group, kind, dtype, reduction,
                 operations, root, collective_number, met, collectives_begun, collectives_ended)
};

// The version before launches were numbered.
struct OldBeginRecord {
  std::uint64_t sequence;
  std::int64_t count;
  std::uint32_t task, group;
  OpKind kind;
  DType dtype;
  Reduction reduction;
  std::uint8_t operations;
  std::int32_t root;
  TESSERA_RECORD(OldBeginRecord, "comm_begin", sequence, count, task, group, kind, dtype, reduction, operations, root)
};
struct OldAskedRow {
  std::int64_t count;
  Moment when;
  std::uint32_t task, group;
  OpKind kind;
  DType dtype;
  Reduction reduction;
  std::uint8_t operations;
  std::int32_t root;
  static constexpr std::uint32_t kRows = 16;
  TESSERA_RECORD(OldAskedRow, "comm_asked", count, when, task, group, kind, dtype, reduction, operations, root)
};

}  // namespace tessera::analysis::testing
