// Reads timed records of a rank: kernels inside a profile window, and annotations.
//
//   launch, launch_end                     a kernel, by device, stream and number
//   record_mark_begin, record_mark_end     an annotation, by thread and depth; those of a thread nest
//
// Records are not trusted: an end without its beginning, or before it, is ignored, and so are times that differ by an
// hour from the neighboring records. Times are nanoseconds since 1970.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "tessera/base/probe/reader.h"

namespace tessera::analysis::detail {

/// A kernel, host function, copy, fill or graph that ran on a stream.
struct TimedKernel {
  probe::StringId label;     ///< Name of the work.
  probe::StringId device;    ///< Name of the device.
  std::uint32_t stream = 0;  ///< Stream of the device.
  /// Time of the enqueue.
  std::int64_t asked_ns = 0;
  /// Start time as devices report it. On the host, the time of the enqueue, or the end of the previous work on the
  /// stream: a kernel, or a wait for another stream.
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;  ///< Not before the start.
  bool is_graph = false;    ///< The replay of a graph with all its nodes.
};

/// An annotation.
struct TimedAnnotation {
  probe::StringId name;      ///< Name passed to Annotation.
  std::int64_t value = 0;    ///< Value passed to Annotation.
  std::uint32_t tid = 0;     ///< Thread, as the operating system numbers it; 0 if no longer known.
  std::uint16_t thread = 0;  ///< Number of the thread in the file.
  std::uint32_t depth = 0;   ///< Number of enclosing annotations of the thread.
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;  ///< Not before the start; 0 if it has not ended.
};

/// Timed records of a file.
struct TimedRecords {
  std::vector<TimedKernel> kernels = {};              ///< Kernels by the time their end was recorded.
  std::vector<TimedAnnotation> annotations = {};      ///< Ended annotations, by end.
  std::vector<TimedAnnotation> open_marks = {};       ///< Open annotations whose start is still in the ring.
  std::map<std::uint32_t, std::string> threads = {};  ///< Names of threads with annotations, by tid, if they have one.
};

/// Reads the records up to a moment.
TimedRecords read_timed_records(const probe::RecordFile& file,
                                std::int64_t until_ns = std::numeric_limits<std::int64_t>::max());

}  // namespace tessera::analysis::detail
