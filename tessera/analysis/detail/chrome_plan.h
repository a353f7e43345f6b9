// Contents and positions of the Chrome trace of a rank: pure data computed before anything is written. Slices of a row
// nest or do not overlap (viewers drop overlapping ones). A launch or kernel that overlaps the previous one on its
// stream goes to an extra row. An annotation that would extend beyond the enclosing one is truncated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tessera/analysis/evidence.h"

namespace tessera::analysis::detail {

/// Values shared by the traces of all ranks.
struct ChromeShared {
  std::int64_t base_ns = 0;  ///< Earliest moment of all ranks, in nanoseconds since 1970.
  /// Numbers of groups by name and members: the same on all ranks, because analyzers match groups by them.
  std::map<std::pair<std::string, std::vector<int>>, int> groups = {};
};
/// Returns the shared values of a run from `since_ns` on; 0: from its beginning.
ChromeShared chrome_shared(const Evidence& evidence, std::int64_t since_ns);

/// A row of a device.
struct ChromeRow {
  std::size_t device = 0;    ///< Index in ChromePlan::devices.
  std::uint32_t stream = 0;  ///< Stream of the row.
  std::uint32_t lane = 0;    ///< 0: the row of the stream; otherwise an extra row.
  std::uint64_t number = 0;  ///< Number in the file ("tid").
  std::int64_t end_ns = 0;   ///< End of the last slice.
};

/// A launch of a group.
struct ChromeLaunch {
  const Group* group = nullptr;  ///< Group of the launch.
  const CollectiveCall* launch = nullptr;
  int group_number = 0;           ///< Number in ChromeShared.
  std::int64_t when_ns = 0;       ///< First known time of it; launches are sorted by it.
  bool is_asked_drawn = false;    ///< True if the enqueueing thread has a slice.
  std::int64_t asked_for_ns = 0;  ///< Drawn length of that slice, which is unknown: up to the next, at most 1 us.
  bool is_run_drawn = false;      ///< True if a stream row has a slice.
  std::size_t row = 0;            ///< Index in ChromePlan::rows.
  std::int64_t begin_ns = 0;      ///< Start of the slice in the stream row.
  std::int64_t end_ns = 0;        ///< End of the slice in the stream row.
};

/// A kernel, or other work on a stream that is not a group launch.
struct ChromeKernel {
  const std::string* name = nullptr;  ///< Name in ChromePlan::labels.
  std::size_t row = 0;                ///< Index in ChromePlan::rows.
  std::int64_t begin_ns = 0;          ///< Start of its slice; kernels are sorted by it.
  std::int64_t end_ns = 0;            ///< End of its slice.
};

/// An annotation.
struct ChromeAnnotation {
  std::string text = {};      ///< "step 117"
  std::uint64_t thread = 0;   ///< Row of its thread ("tid").
  std::int64_t begin_ns = 0;  ///< Start of its slice; annotations are sorted by it, the outer first.
  std::int64_t end_ns = 0;    ///< End of its slice.
  bool is_open = false;       ///< True if it has not ended.
};

/// Contents of a trace.
struct ChromePlan {
  std::uint64_t process = 0;                          ///< Process of the rank ("pid").
  std::uint64_t first_device = 0;                     ///< "pid" of devices[0]; the others follow.
  std::int64_t until_ns = 0;                          ///< End of unfinished slices.
  std::vector<std::string> devices = {};              ///< Names of the devices.
  std::vector<ChromeRow> rows = {};                   ///< Rows of the devices.
  std::vector<ChromeLaunch> launches = {};            ///< Launches by time.
  std::vector<ChromeKernel> kernels = {};             ///< Kernels by time.
  std::vector<ChromeAnnotation> annotations = {};     ///< Annotations by time.
  std::map<std::uint64_t, std::string> threads = {};  ///< Names of the rows of threads.
  std::map<std::uint32_t, std::string> labels = {};   ///< Labels of kernels, by their number in the record.
};
/// Computes the trace of one rank from `since_ns` on: launches and kernels enqueued since, and annotations that had not
/// ended before. Reads the record file of the rank again, for records that evidence omits. An unreadable file is
/// ignored, because the reader of the run has reported it.
ChromePlan chrome_plan(const Evidence& evidence, const Rank& rank, const ChromeShared& shared, std::int64_t since_ns);

}  // namespace tessera::analysis::detail
