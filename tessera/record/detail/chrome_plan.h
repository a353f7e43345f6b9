// What a rank's Chrome trace draws, and where: pure data made before anything is written. Slices of a row nest or do
// not overlap (viewers drop those that do). A launch or kernel that overlaps the one before it on its stream goes to a
// row beside; a mark that would reach out of the one it began in is cut.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tessera/record/evidence.h"

namespace tessera::record::detail {

/// What the traces of all ranks share.
struct ChromeShared {
  std::int64_t base_ns = 0;  ///< the earliest moment of all ranks, in nanoseconds since 1970
  /// Numbers of groups by name and members: the same on all ranks, since analyzers match groups by them.
  std::map<std::pair<std::string, std::vector<int>>, int> groups = {};
};
/// Of a run, from a moment on; 0: from its beginning.
ChromeShared chrome_shared(const Evidence& evidence, std::int64_t since_ns);

/// A row of a device.
struct ChromeRow {
  std::size_t device = 0;    ///< place in ChromePlan::devices
  std::uint32_t stream = 0;  ///< whose it is
  std::uint32_t lane = 0;    ///< 0: its own row; else one beside it
  std::uint64_t number = 0;  ///< in the file ("tid")
  std::int64_t end_ns = 0;   ///< of the last slice in it
};

/// A launch.
struct ChromeLaunch {
  const Group* group = nullptr;    ///< its group
  const Launch* launch = nullptr;  ///< it
  int group_number = 0;            ///< as in ChromeShared
  std::int64_t when_ns = 0;        ///< the first that is known of it; launches are in this order
  bool is_asked_drawn = false;     ///< whether there is a slice on the asking thread
  std::int64_t asked_for_ns = 0;   ///< how long that is drawn, which is not known: up to the next, at most 1 us
  bool is_run_drawn = false;       ///< whether there is a slice on a stream's row
  std::size_t row = 0;             ///< place in ChromePlan::rows
  std::int64_t begin_ns = 0;       ///< of that slice
  std::int64_t end_ns = 0;         ///< of that slice
};

/// A kernel, or whatever else ran on a stream and is not a launch of a group.
struct ChromeKernel {
  const std::string* name = nullptr;  ///< in ChromePlan::labels
  std::size_t row = 0;                ///< place in ChromePlan::rows
  std::int64_t begin_ns = 0;          ///< of its slice; kernels are in this order
  std::int64_t end_ns = 0;            ///< likewise
};

/// A mark.
struct ChromeMark {
  std::string text = {};      ///< "step 117"
  std::uint64_t thread = 0;   ///< row of its thread ("tid")
  std::int64_t begin_ns = 0;  ///< of its slice; marks are in this order, the outer first
  std::int64_t end_ns = 0;    ///< likewise
  bool is_open = false;       ///< whether it has not ended
};

/// A trace.
struct ChromePlan {
  std::uint64_t process = 0;                          ///< of the rank ("pid")
  std::uint64_t first_device = 0;                     ///< "pid" of devices[0]; the others follow
  std::int64_t until_ns = 0;                          ///< what has not ended is drawn to here
  std::vector<std::string> devices = {};              ///< names
  std::vector<ChromeRow> rows = {};                   ///< of devices
  std::vector<ChromeLaunch> launches = {};            ///< by time
  std::vector<ChromeKernel> kernels = {};             ///< by time
  std::vector<ChromeMark> marks = {};                 ///< by time
  std::map<std::uint64_t, std::string> threads = {};  ///< names of the rows of threads
  std::map<std::uint32_t, std::string> labels = {};   ///< of kernels, by their number in the record
};
/// For one rank, from a moment on: launches and kernels that were asked for since, and marks that have not ended
/// before. Reads the record file that the rank names once more, for what evidence leaves out; one that cannot be read
/// is passed over, since whoever read the run was told.
ChromePlan chrome_plan(const Evidence& evidence, const Rank& rank, const ChromeShared& shared, std::int64_t since_ns);

}  // namespace tessera::record::detail
