// A log of allocations and frees as a list of operations, to be replayed against any policy (trace_replay.h). Two kinds
// of log are read: RMM's CSV (which LogUpstream writes too) and the record file of a rank (history.h).
//
// An allocation is known by a key, which counts from 0 in the order of the log; a pointer that is handed out again
// after its free is a new key. So a key is allocated once, then freed at most once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/export.h"

namespace tessera::memory {

/// One operation of a log.
struct TraceOp {
  bool is_alloc = false;     ///< else a free
  std::uint64_t key = 0;     ///< which allocation
  std::uint64_t nbytes = 0;  ///< asked for; of a free, what its allocation asked for
  std::uint32_t stream = 0;  ///< number of the stream, below Trace::streams; of a free, its allocation's
  /// Same operation.
  friend bool operator==(const TraceOp&, const TraceOp&) = default;
};

/// A log.
struct Trace {
  std::vector<TraceOp> ops = {};      ///< in the order of the log
  std::uint64_t keys = 0;             ///< allocations; keys are below this
  std::uint32_t streams = 0;          ///< streams named
  std::uint64_t logged_failures = 0;  ///< allocations that failed when the log was made; they are no ops
  std::uint64_t unknown_frees = 0;    ///< frees of what the log does not know to be live; they are no ops
};

/// Reads RMM's CSV. The first line must be "Thread,Time,Action,Pointer,Size,Stream"; fields may be quoted. Actions are
/// `allocate`, `allocate failure` and `free`; pointers are hexadecimal with or without 0x ("(nil)" is 0); a stream is
/// any text. A line that is none of this is an InvalidArgument that names `name`, the line and the column.
///
/// Lines of several threads may be slightly out of order: when a pointer is allocated twice before it is freed, its
/// frees are taken in the order of its allocations.
TESSERA_API Trace parse_rmm_csv(std::string_view text, const std::string& name = "log");

/// Reads the allocations and frees in a record file, those of one allocator: the one of this device ("cuda:0", "pinned
/// memory of cuda:0"), which need be named only where the file has several. Its pools are taken as one. What was live
/// before the oldest record (the ring forgets) and is seen later, by its free or in a keyframe, is put first.
TESSERA_API Trace read_record_trace(const std::string& path, const std::string& device = "");

/// Reads either kind, told apart by how the file begins. `device` is for record files. Throws IoError when it cannot be
/// read.
TESSERA_API Trace read_trace(const std::string& path, const std::string& device = "");

}  // namespace tessera::memory
