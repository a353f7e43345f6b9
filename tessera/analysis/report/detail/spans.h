// Activities of ranks over time, as spans in lanes:
//
//   mark        annotations of a rank (probe::Annotation): steps, data, evaluations; one lane per depth
//   compute     recorded kernels (device::ProfileWindow), except for group launches; for graph replays, whose nodes are
//               not separated, and for outermost annotations without recorded kernels, the time outside of collectives.
//               Without any kernel the lane is derived
//   collective  from the arrival of all ranks to the end: bytes are transferred
//   wait        from the arrival of the rank to that of all, minus kernels in that time: the rest is exposed
//
// Overlapping spans are in up to three adjacent lanes. Spans of a lane are sorted by their start. Times are nanoseconds
// since 1970. Records are not trusted: an end before its start, or without one, is not a span.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tessera/analysis/evidence.h"

namespace tessera::analysis::detail {

/// Numbers names; stores each once.
class NameTable {
 public:
  /// Returns the number of a name. Long names are truncated; if there are too many, the last number stands for the
  /// rest.
  std::uint16_t number_of(std::string_view name);
  /// Returns the names by number.
  [[nodiscard]] const std::vector<std::string>& names() const { return names_; }

 private:
  std::unordered_map<std::string, std::uint16_t> numbers_;
  std::vector<std::string> names_;
};

/// A period of time with a name.
struct Span {
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;  ///< End, not before the start.
  std::uint16_t name = 0;   ///< Number in the NameTable.
};

/// Kind of the spans of a lane.
enum class LaneKind : std::uint8_t { kMark, kCompute, kCollective, kWait };
/// Returns "mark", "compute", "collective" or "wait".
std::string_view to_string(LaneKind kind);

/// Spans of one kind and rank.
struct Lane {
  int rank = 0;                     ///< World rank.
  LaneKind kind = LaneKind::kMark;  ///< Kind of the spans.
  std::uint32_t depth = 0;          ///< Annotations: number of enclosing ones; others: index among adjacent lanes.
  bool is_derived = false;          ///< See the file comment.
  std::vector<Span> spans = {};     ///< Spans by start.
  /// Time of the oldest remaining record, if later records overwrote older ones: the lane is unknown before it. 0:
  /// nothing was overwritten.
  std::int64_t since_ns = 0;
};

/// Times in which a rank computes, as disjoint intervals in order.
using BusyTimes = std::vector<Span>;

/// Spans of a run.
struct Spans {
  NameTable names = {};                             ///< Names of all lanes.
  std::vector<Lane> lanes = {};                     ///< By rank, then by LaneKind; none is empty.
  std::unordered_map<int, BusyTimes> kernels = {};  ///< For ranks with recorded kernels.
  bool has_kernels = false;                         ///< True if any rank has recorded kernels.
  bool has_graphs = false;                          ///< True if graph replays were recorded.
  bool has_rest = false;                            ///< True if any compute span is derived from an annotation.
  std::int64_t start_ns = 0;                        ///< Start of the first rank with overwritten records; 0 if none.
};

/// Reads the record files of the evidence again, for records that evidence omits. Unreadable files are ignored, because
/// read_run() has reported them.
Spans spans_of(const Evidence& evidence);

/// Returns the nanoseconds of [begin, end] outside of `busy`.
std::int64_t free_ns(const BusyTimes& busy, std::int64_t begin_ns, std::int64_t end_ns);

}  // namespace tessera::analysis::detail
