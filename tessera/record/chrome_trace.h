// A run as Chrome traces, one a rank, for Perfetto, chrome://tracing and the analyzers that read what PyTorch's
// profiler writes (HTA and others): the same header, the same names of arguments, the same dtypes.
//
//   process of the rank   a row a thread: what it asked for, and its marks
//         | flow, from asking to the stream
//   device                a row a stream: each launch of a group from when it began to when it ended, and in it the
//                         time spent waiting for the other ranks and the time spent moving bytes; and, where a
//                         device::ProfileWindow recorded them, kernels
//
// Kernels and marks that have ended are read from the record files that the evidence names. A launch of a group is
// drawn once, though its stream knows it as a kernel too. Slices of a row nest or do not overlap.
//
// Times are microseconds since the earliest moment of all ranks, which the header gives in nanoseconds since 1970. A
// launch that has not ended is drawn to where its rank was last seen.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "tessera/base/atomic_file.h"
#include "tessera/base/export.h"
#include "tessera/record/evidence.h"

namespace tessera::record {

/// How to write.
struct ChromeOptions {
  /// Of a file, at most. When it does not fit the oldest launches, kernels and marks that have ended are left out, and
  /// a metadata event says how many.
  std::uint64_t max_nbytes = 64ull << 20;
  /// Only what happened since this moment, in nanoseconds since 1970: launches and kernels that were asked for before
  /// it are left out, and so are marks that ended before it; other marks are drawn from it on. 0: all.
  std::int64_t since_ns = 0;
  /// Of the files of write_chrome_traces().
  FileKind file_kind = FileKind::kUser;
};

/// A trace that was written.
struct ChromeTrace {
  std::string path = {};     ///< of the file; empty: it was written to a stream
  int rank = 0;              ///< whose it is
  std::uint64_t nbytes = 0;  ///< how large it is
  std::size_t events = 0;    ///< launches, kernels and marks that have ended that are in it
  std::size_t left_out = 0;  ///< that did not fit
};

/// Writes the trace of evidence.ranks[index]. It holds the text of one event in memory at a time. InvalidArgument:
/// there is no such rank, or the size allows not even for the header; IoError: the stream failed.
TESSERA_API ChromeTrace write_chrome_trace(std::ostream& out, const Evidence& evidence, std::size_t index,
                                           const ChromeOptions& options = {});

/// Writes trace_rank_0.json, trace_rank_1.json, ... into the directory, one for each rank that left something, each as
/// a whole or not at all. IoError.
TESSERA_API std::vector<ChromeTrace> write_chrome_traces(const Evidence& evidence, const std::string& directory,
                                                         const ChromeOptions& options = {});

}  // namespace tessera::record
