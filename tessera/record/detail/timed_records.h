// What a record file tells of its rank that took time: kernels that ran inside a profile window, and marks.
//
//   launch, launch_end                     a kernel, by device, stream and number
//   record_mark_begin, record_mark_end     a mark, by thread and depth; marks of a thread nest
//
// Records are not believed: an end without its beginning, or before it, is nothing, and so are moments an hour off what
// the records around them say. Times are nanoseconds since 1970.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "tessera/base/probe/reader.h"

namespace tessera::record::detail {

/// A kernel, host function, copy, fill or graph that ran on a stream.
struct TimedKernel {
  probe::StringId label;     ///< what
  probe::StringId device;    ///< where
  std::uint32_t stream = 0;  ///< on which stream of it
  /// When it was put on its stream.
  std::int64_t asked_ns = 0;
  /// Devices tell when it began. Of the host's it is when it was put on its stream, or when the one before it there had
  /// ended.
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;  ///< not before it began
};

/// A mark.
struct TimedMark {
  probe::StringId name;       ///< as it was given
  std::int64_t value = 0;     ///< likewise
  std::uint32_t tid = 0;      ///< thread, of the operating system; 0: not known any more
  std::uint16_t thread = 0;   ///< its number in the file
  std::uint32_t depth = 0;    ///< marks of the thread that it is inside of
  std::int64_t begin_ns = 0;  ///< when
  std::int64_t end_ns = 0;    ///< not before it began; 0: it has not ended
};

/// All of it.
struct TimedRecords {
  std::vector<TimedKernel> kernels = {};              ///< by when it was told that they had ended
  std::vector<TimedMark> marks = {};                  ///< that have ended, by when they did
  std::vector<TimedMark> open_marks = {};             ///< the others, as far as the ring has their beginning
  std::map<std::uint32_t, std::string> threads = {};  ///< names of threads that had marks, by tid, where they have one
};

/// Reads it, from records up to a moment.
TimedRecords read_timed_records(const probe::RecordFile& file,
                                std::int64_t until_ns = std::numeric_limits<std::int64_t>::max());

}  // namespace tessera::record::detail
