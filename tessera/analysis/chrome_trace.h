// A run as Chrome traces, one per rank, for Perfetto, chrome://tracing and the analyzers of PyTorch profiler output
// (HTA and others). Header, argument names and dtypes are those of the PyTorch profiler.
//
//   process of the rank   a row per thread: its launches and annotations
//         | flow, from the enqueue to the stream
//   device                a row per stream: each group launch from start to finish, and in it the time spent waiting
//   for
//                         other ranks and the time spent transferring bytes; kernels, if a device::ProfileWindow
//                         recorded them
//
// Kernels and finished annotations are read from the record files that the evidence names. A group launch is drawn
// once, although its stream also records it as a kernel. Slices of a row nest or do not overlap.
//
// Times are microseconds since the earliest moment of all ranks, which the header states in nanoseconds since 1970. An
// unfinished launch is drawn up to the last record of its rank.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "tessera/analysis/evidence.h"
#include "tessera/base/atomic_file.h"
#include "tessera/base/export.h"

namespace tessera::analysis {

/// Options of a Chrome trace.
struct ChromeOptions {
  /// Maximum size of a file. If it is exceeded, the oldest launches, kernels and finished annotations are omitted, and
  /// a metadata event states their number.
  std::uint64_t max_nbytes = 64ull << 20;
  /// Start of the trace, in nanoseconds since 1970. Launches and kernels enqueued before it and annotations that ended
  /// before it are omitted. Other annotations are drawn from it on. 0: everything.
  std::int64_t since_ns = 0;
  /// Kind of the files of write_chrome_traces().
  FileKind file_kind = FileKind::kUser;
};

/// Result of writing a trace.
struct ChromeTrace {
  std::string path = {};     ///< Path of the file. Empty if it was written to a stream.
  int rank = 0;              ///< World rank.
  std::uint64_t nbytes = 0;  ///< Size of the trace.
  std::size_t events = 0;    ///< Launches, kernels and finished annotations in the trace.
  std::size_t left_out = 0;  ///< Events omitted because of the size.
};

/// Writes the trace of evidence.ranks[index], with the text of one event in memory at a time. Throws InvalidArgument if
/// the index is out of range or the size limit is too small for the header, and IoError if the stream fails.
TESSERA_API ChromeTrace write_chrome_trace(std::ostream& out, const Evidence& evidence, std::size_t index,
                                           const ChromeOptions& options = {});

/// Writes trace_rank_0.json, trace_rank_1.json, ... into the directory, one for each rank with a record. Each file is
/// written atomically. Throws IoError.
TESSERA_API std::vector<ChromeTrace> write_chrome_traces(const Evidence& evidence, const std::string& directory,
                                                         const ChromeOptions& options = {});

}  // namespace tessera::analysis
