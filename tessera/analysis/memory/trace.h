// A log of allocations and frees as a list of operations, to be replayed with any policy (trace_replay.h). It is read
// from a CSV log of RMM, or from the record file of a rank (history.h).
//
// An allocation is identified by a key, which counts from 0 in the order of the log. A pointer that is reused after its
// free has a new key, so a key is allocated once and then freed at most once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/export.h"

namespace tessera::analysis {

/// One operation of a log.
struct TraceOp {
  bool is_alloc = false;     ///< True for an allocation, false for a free.
  std::uint64_t key = 0;     ///< Key of the allocation.
  std::uint64_t nbytes = 0;  ///< Requested bytes, also for a free.
  std::uint32_t stream = 0;  ///< Stream of the allocation, in [0, Trace::streams).
  /// Compares all fields.
  friend bool operator==(const TraceOp&, const TraceOp&) = default;
};

/// A log of allocations and frees.
struct Trace {
  std::vector<TraceOp> ops = {};      ///< Operations in the order of the log.
  std::uint64_t keys = 0;             ///< Number of allocations; keys are less.
  std::uint32_t streams = 0;          ///< Number of streams.
  std::uint64_t logged_failures = 0;  ///< Allocations that failed in the log; not in `ops`.
  std::uint64_t unknown_frees = 0;    ///< Frees of allocations unknown to the log; not in `ops`.
};

/// Parses a CSV log of RMM. The first line must be "Thread,Time,Action,Pointer,Size,Stream". Fields may be quoted.
/// Actions are `allocate`, `allocate failure` and `free`. Pointers are hexadecimal with or without 0x, and "(nil)" is
/// 0. A stream is any text. Throws InvalidArgument with `name`, the line and the column for an invalid line.
///
/// Lines of several threads may be slightly out of order: if a pointer is allocated twice before it is freed, its frees
/// are matched in the order of its allocations.
TESSERA_API Trace parse_rmm_csv(std::string_view text, const std::string& name = "log");

/// Reads the allocations and frees of one allocator from a record file. `device` ("cuda:0", "pinned memory of cuda:0")
/// is required only if the file has several allocators. Pools are merged. Blocks that were live before the oldest
/// record, known from a later free or keyframe, come first.
TESSERA_API Trace read_record_trace(const std::string& path, const std::string& device = "");

/// Reads a log of either format, recognized by its first bytes. `device` applies to record files. Throws IoError if the
/// file cannot be read.
TESSERA_API Trace read_trace(const std::string& path, const std::string& device = "");

}  // namespace tessera::analysis
