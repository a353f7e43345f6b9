// What a rank's Chrome trace draws, and where: pure data made before anything is written. Slices of a row never overlap
// (viewers drop those that do): a launch that overlaps the one before it on its stream goes to a row beside.
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
/// Of a run.
ChromeShared chrome_shared(const Evidence& evidence);

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

/// A trace.
struct ChromePlan {
  std::uint64_t process = 0;                          ///< of the rank ("pid")
  std::uint64_t first_device = 0;                     ///< "pid" of devices[0]; the others follow
  std::int64_t until_ns = 0;                          ///< what has not ended is drawn to here
  std::vector<std::string> devices = {};              ///< names
  std::vector<ChromeRow> rows = {};                   ///< of devices
  std::vector<ChromeLaunch> launches = {};            ///< by time
  std::map<std::string, std::uint64_t> threads = {};  ///< rows of threads that marks name and nobody numbered
};
/// For one rank.
ChromePlan chrome_plan(const Evidence& evidence, const Rank& rank, const ChromeShared& shared);
/// The row of the thread that a mark stands in.
std::uint64_t thread_of(const ChromePlan& plan, const Mark& mark);
/// The number that a text is in whole; 0: it is none.
std::uint64_t number_in(const std::string& text);

}  // namespace tessera::record::detail
