// What ranks did over time, as spans in lanes:
//
//   mark        what a rank said it was at (record::Scope): steps, data, evaluations; a lane for each depth
//   compute     kernels, where they were recorded (device::ProfileWindow), but for those that are launches of groups;
//               of the replay of a graph, whose nodes are not told apart, and of outermost marks in which no kernel was
//               recorded, what is left outside of collectives. Where there is no kernel at all the lane is derived
//   collective  from when all had come to the end: bytes move
//   wait        from when the rank came until all had: less what kernels ran meanwhile, so that what is left is exposed
//
// Spans that overlap stand in up to three lanes beside each other. Spans of a lane stand in order of their beginning.
// Times are nanoseconds since 1970. Records are not believed: an end before its beginning, or one without, is no span.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tessera/record/evidence.h"

namespace tessera::record::detail {

/// Names as numbers, each kept once.
class NameTable {
 public:
  /// The number of a name; long ones are cut, and where there are too many the last number stands for all others.
  std::uint16_t number_of(std::string_view name);
  /// By number.
  [[nodiscard]] const std::vector<std::string>& names() const { return names_; }

 private:
  std::unordered_map<std::string, std::uint16_t> numbers_;
  std::vector<std::string> names_;
};

/// Something that took time.
struct Span {
  std::int64_t begin_ns = 0;  ///< when
  std::int64_t end_ns = 0;    ///< not before it
  std::uint16_t name = 0;     ///< in the NameTable
};

/// Of what kind the spans of a lane are.
enum class LaneKind : std::uint8_t { kMark, kCompute, kCollective, kWait };
/// "mark", "compute", "collective", "wait".
std::string_view to_string(LaneKind kind);

/// Spans of one kind and rank.
struct Lane {
  int rank = 0;                     ///< whose
  LaneKind kind = LaneKind::kMark;  ///< what
  std::uint32_t depth = 0;  ///< of marks: inside of how many others; of the rest: which of the lanes beside each other
  bool is_derived = false;  ///< see the head of this file
  std::vector<Span> spans = {};  ///< by beginning
  /// Time of the first record that remains, if later records overwrote those before it: nothing is known of the lane
  /// before. 0: nothing was overwritten.
  std::int64_t since_ns = 0;
};

/// Moments in which a rank computes, as intervals that do not touch, in order.
using BusyTimes = std::vector<Span>;

/// All of it.
struct Spans {
  NameTable names = {};                             ///< of all lanes
  std::vector<Lane> lanes = {};                     ///< by rank, then as in LaneKind; none is empty
  std::unordered_map<int, BusyTimes> kernels = {};  ///< of the ranks whose kernels were recorded
  bool has_kernels = false;                         ///< whether any rank's were
  bool has_graphs = false;                          ///< whether replays of graphs were
  bool has_rest = false;                            ///< whether any compute is the rest of a mark
  std::int64_t start_ns = 0;                        ///< of the first rank whose records were overwritten; 0: of none
};

/// Reads the record files that the evidence names once more, for what evidence leaves out; files that cannot be read
/// are passed over, since read_run() has told of them.
Spans spans_of(const Evidence& evidence);

/// Nanoseconds of [begin, end] that `busy` leaves free.
std::int64_t free_ns(const BusyTimes& busy, std::int64_t begin_ns, std::int64_t end_ns);

}  // namespace tessera::record::detail
