#include "tessera/analysis/report/detail/spans.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <numeric>
#include <unordered_map>
#include <utility>

#include "tessera/analysis/detail/plausible.h"
#include "tessera/analysis/detail/read_rank.h"
#include "tessera/analysis/detail/timed_records.h"
#include "tessera/analysis/detail/wording.h"
#include "tessera/base/error.h"
#include "tessera/base/probe/reader.h"

namespace tessera::analysis::detail {
namespace {

constexpr std::size_t kMaxNames = 20'000;
constexpr std::size_t kLongestName = 160;
constexpr std::uint32_t kDepths = 3;  // shown depths of annotations
constexpr std::size_t kBeside = 3;    // lanes of one kind and rank

void sort_spans(std::vector<Span>& spans) {
  const auto before = [](const Span& a, const Span& b) { return a.begin_ns < b.begin_ns; };
  if (!std::is_sorted(spans.begin(), spans.end(), before)) std::stable_sort(spans.begin(), spans.end(), before);
}

// Returns the union of sorted spans.
BusyTimes union_of(const std::vector<Span>& spans) {
  BusyTimes busy;
  for (const Span& each : spans) {
    if (!busy.empty() && each.begin_ns <= busy.back().end_ns) {
      busy.back().end_ns = std::max(busy.back().end_ns, each.end_ns);
    } else {
      busy.push_back(each);
    }
  }
  return busy;
}

// Calls take(begin, end) for the parts of a span outside of `busy`. `from` is the search position; it advances.
template <class Take>
void for_free_pieces(const BusyTimes& busy, const Span& span, std::size_t from, const Take& take) {
  std::int64_t at = span.begin_ns;
  for (std::size_t i = from; i < busy.size() && busy[i].begin_ns < span.end_ns; ++i) {
    if (busy[i].end_ns <= at) continue;
    if (busy[i].begin_ns > at) take(at, busy[i].begin_ns);
    at = std::max(at, busy[i].end_ns);
  }
  if (at < span.end_ns) take(at, span.end_ns);
}

std::size_t first_after(const BusyTimes& busy, std::int64_t moment) {
  return static_cast<std::size_t>(
      std::partition_point(busy.begin(), busy.end(), [&](const Span& each) { return each.end_ns <= moment; }) -
      busy.begin());
}

// Sorted, although overlapping spans are split.
std::vector<Span> without(const std::vector<Span>& spans, const BusyTimes& busy) {
  std::vector<Span> left;
  left.reserve(spans.size());
  for (const Span& each : spans) {
    for_free_pieces(busy, each, first_after(busy, each.begin_ns), [&](std::int64_t begin, std::int64_t end) {
      left.push_back({begin, end, each.name});
    });
  }
  sort_spans(left);
  return left;
}

// A group launch is recorded twice: by the group, and as a kernel of its stream. A stream runs one operation at a time,
// so the kernel is identified by its time: one of the two contains the middle of the other.
class OwnLaunches {
 public:
  struct Stream {
    std::vector<std::int64_t> middles;  // of launches, in order
    BusyTimes busy;                     // union of the launches
    [[nodiscard]] bool has(std::int64_t begin_ns, std::int64_t end_ns) const {
      const auto next = std::lower_bound(middles.begin(), middles.end(), begin_ns);
      if (next != middles.end() && *next <= end_ns) return true;
      const std::int64_t middle = std::midpoint(begin_ns, end_ns);
      const std::size_t at = first_after(busy, middle);
      return at < busy.size() && busy[at].begin_ns <= middle;
    }
  };

  explicit OwnLaunches(const Rank& rank) {
    std::map<Name, std::vector<Span>> launches;
    for (const Group& group : rank.groups) {
      for (const CollectiveCall& launch : group.launches) {
        if (launch.begun_ns <= 0 || launch.ended_ns < launch.begun_ns) continue;
        launches[{launch.device, launch.stream}].push_back({launch.begun_ns, launch.ended_ns, 0});
      }
    }
    for (auto& [name, spans] : launches) {
      sort_spans(spans);
      Stream& stream = streams_[name];
      for (const Span& each : spans) stream.middles.push_back(std::midpoint(each.begin_ns, each.end_ns));
      std::sort(stream.middles.begin(), stream.middles.end());
      stream.busy = union_of(spans);
    }
  }
  // Returns null if the groups of the rank enqueued nothing there.
  [[nodiscard]] const Stream* find(const std::string& device, std::uint32_t stream) const {
    const auto found = streams_.find({device, stream});
    return found == streams_.end() ? nullptr : &found->second;
  }

 private:
  using Name = std::pair<std::string, std::uint32_t>;
  std::map<Name, Stream> streams_;
};

// Spans from the record file of a rank that are not in its evidence.
struct FileSpans {
  std::int64_t since_ns = 0;  // as in Lane, for annotations and kernels
  std::int64_t start_ns = 0;  // of the file
  std::array<std::vector<Span>, kDepths> annotations = {};
  std::vector<Span> kernels = {};  // without group launches
  std::vector<Span> graphs = {};   // replays
};

void take_kernels(const probe::RecordFile& file, const std::vector<TimedKernel>& all, const OwnLaunches& own,
                  NameTable& names, FileSpans& found) {
  std::unordered_map<std::uint32_t, std::uint16_t> labels;
  std::map<std::pair<std::uint32_t, std::uint32_t>, const OwnLaunches::Stream*> streams;
  found.kernels.reserve(all.size());
  for (const TimedKernel& each : all) {
    const auto [stream, is_other] = streams.try_emplace({each.device.value(), each.stream}, nullptr);
    if (is_other) stream->second = own.find(file.string(each.device), each.stream);
    if (!each.is_graph && stream->second != nullptr && stream->second->has(each.begin_ns, each.end_ns)) continue;
    const auto [label, is_new] = labels.try_emplace(each.label.value(), std::uint16_t{0});
    if (is_new) label->second = names.number_of(file.string(each.label));
    (each.is_graph ? found.graphs : found.kernels).push_back({each.begin_ns, each.end_ns, label->second});
  }
}

FileSpans file_spans(const Rank& rank, NameTable& names, std::int64_t until_ns) {
  const probe::RecordFile file = probe::RecordFile::open(rank.file);
  const TimedRecords timed = read_timed_records(file);
  FileSpans found;
  found.start_ns = file.info().clock.wall_ns(file.info().clock.first.ticks);
  for (const probe::RingInfo& ring : file.rings()) {
    if (ring.name == "launch" && ring.overwritten > 0) found.since_ns = first_launch_ns(file);
  }
  take_kernels(file, timed.kernels, OwnLaunches(rank), names, found);
  // After kernels, because each annotation may have a separate name, and the number of names is limited.
  const auto add = [&](const TimedAnnotation& annotation, std::int64_t end_ns) {
    if (annotation.depth >= kDepths || end_ns < annotation.begin_ns) return;
    const std::string name = file.string(annotation.name) + " " + std::to_string(annotation.value);
    found.annotations[annotation.depth].push_back({annotation.begin_ns, end_ns, names.number_of(name)});
  };
  for (const TimedAnnotation& each : timed.annotations) add(each, each.end_ns);
  for (const TimedAnnotation& each : timed.open_marks) add(each, until_ns);
  return found;
}

// Spans from the group launches of a rank.
struct CommSpans {
  std::vector<Span> moves;
  std::vector<Span> waits;
  std::vector<Span> whole;  // from arrival to end
};

CommSpans comm_spans(const Rank& rank, NameTable& names, std::int64_t until_ns) {
  CommSpans found;
  for (const Group& group : rank.groups) {
    for (const CollectiveCall& launch : group.launches) {
      if (launch.begun_ns <= 0 || launch.operations.empty()) continue;
      const std::uint16_t name = names.number_of(text_of(launch) + " in " + visible(group.name));
      const std::int64_t end = launch.ended_ns > 0 ? launch.ended_ns : until_ns;
      if (end < launch.begun_ns) continue;
      const bool has_met = launch.met_ns >= launch.begun_ns && launch.met_ns <= end;
      const bool waits_on = !has_met && launch.stage == Stage::kBegun;
      const std::int64_t met = has_met ? launch.met_ns : waits_on ? end : launch.begun_ns;
      if (met > launch.begun_ns) found.waits.push_back({launch.begun_ns, met, name});
      if (!waits_on) found.moves.push_back({met, end, name});
      found.whole.push_back({launch.begun_ns, end, name});
    }
  }
  for (auto* each : {&found.moves, &found.waits, &found.whole}) sort_spans(*each);
  return found;
}

class SpanBuilder {
 public:
  explicit SpanBuilder(const Evidence& evidence) : evidence_(evidence) {}

  Spans build() {
    for (const Rank& rank : evidence_.ranks) add_rank(rank);
    return std::move(spans_);
  }

 private:
  void add_rank(const Rank& rank) {
    const bool is_alive = rank.state == RankState::kRunning || rank.state == RankState::kStopped;
    const std::int64_t until = is_alive || rank.last_ns <= 0 ? evidence_.taken_ns : rank.last_ns;
    FileSpans found;
    if (!rank.file.empty()) {
      try {
        found = file_spans(rank, spans_.names, until);
      } catch (const Error&) {  // read_run() has reported the reason
      }
    }
    CommSpans comm = comm_spans(rank, spans_.names, until);
    for (auto& each : found.annotations) sort_spans(each);
    sort_spans(found.kernels);
    sort_spans(found.graphs);
    const bool is_derived = found.kernels.empty() && found.graphs.empty();
    const std::int64_t comm_since = known_since(rank);
    const bool has_lost = comm_since > 0 || found.since_ns > 0;
    if (has_lost && found.start_ns > 0 && (spans_.start_ns == 0 || found.start_ns < spans_.start_ns))
      spans_.start_ns = found.start_ns;
    std::int64_t compute_since = found.since_ns;
    std::vector<Span> compute = compute_spans(found, comm, comm_since, compute_since);
    for (std::uint32_t depth = 0; depth < kDepths; ++depth)
      add({rank.rank, LaneKind::kMark, depth, false, std::move(found.annotations[depth]), found.since_ns});
    if (!found.kernels.empty()) {
      spans_.kernels[rank.rank] = union_of(found.kernels);
      comm.waits = without(comm.waits, spans_.kernels[rank.rank]);
    }
    add_beside({rank.rank, LaneKind::kCompute, 0, is_derived, {}, compute_since}, compute);
    add_beside({rank.rank, LaneKind::kCollective, 0, false, {}, comm_since}, comm.moves);
    add_beside({rank.rank, LaneKind::kWait, 0, is_derived, {}, comm_since}, comm.waits);
  }

  // Returns the time of the first known launch of a group, if earlier ones were overwritten. Before it, the rest of a
  // step may have been communication.
  static std::int64_t known_since(const Rank& rank) {
    std::int64_t since = 0;
    if (rank.lost == 0) return since;
    for (const Group& group : rank.groups) {
      for (const CollectiveCall& launch : group.launches) {
        const std::int64_t time = launch.asked_ns > 0 ? launch.asked_ns : launch.begun_ns;
        if (time > 0 && (since == 0 || time < since)) since = time;
      }
    }
    return since;
  }

  // Returns kernels; for replays, and for outermost annotations without recorded kernels, the time outside of
  // collectives. The latter is unknown before `comm_since_ns`; `since_ns` becomes later if that omits anything.
  std::vector<Span> compute_spans(const FileSpans& found, const CommSpans& comm, std::int64_t comm_since_ns,
                                  std::int64_t& since_ns) {
    const BusyTimes talks = union_of(comm.whole);
    std::vector<Span> compute = found.kernels;
    const std::vector<Span> replays = without(found.graphs, talks);
    compute.insert(compute.end(), replays.begin(), replays.end());
    sort_spans(compute);
    spans_.has_kernels |= !found.kernels.empty();
    spans_.has_graphs |= !found.graphs.empty();
    const BusyTimes recorded = union_of(compute);
    std::vector<Span> unrecorded = found.annotations[0];
    std::erase_if(unrecorded, [&](const Span& annotation) {
      const std::size_t at = first_after(recorded, annotation.begin_ns);
      return at < recorded.size() && recorded[at].begin_ns < annotation.end_ns;
    });
    std::vector<Span> rest = without(union_of(unrecorded), talks);
    const bool is_cut = std::ranges::any_of(rest, [&](const Span& each) { return each.begin_ns < comm_since_ns; });
    if (is_cut) since_ns = std::max(since_ns, comm_since_ns);
    std::erase_if(rest, [&](const Span& each) { return each.end_ns <= since_ns; });
    for (Span& each : rest) each.begin_ns = std::max(each.begin_ns, since_ns);
    spans_.has_rest |= !rest.empty();
    const std::uint16_t name = rest.empty() ? std::uint16_t{0} : spans_.names.number_of("rest of the step");
    for (Span& each : rest) each.name = name;
    compute.insert(compute.end(), rest.begin(), rest.end());
    sort_spans(compute);
    return compute;
  }

  // Adds overlapping spans, such as those of several streams, to adjacent lanes; without a free lane they overlap in
  // the last.
  void add_beside(Lane lane_of_all, const std::vector<Span>& spans) {
    std::array<std::vector<Span>, kBeside> lanes;
    std::array<std::int64_t, kBeside> ends = {};
    for (const Span& each : spans) {
      if (!is_plausible(each)) continue;
      std::size_t lane = 0;
      while (lane + 1 < kBeside && ends[lane] > each.begin_ns) ++lane;
      lanes[lane].push_back(each);
      ends[lane] = std::max(ends[lane], each.end_ns);
    }
    for (std::uint32_t lane = 0; lane < kBeside; ++lane) {
      lane_of_all.depth = lane;
      lane_of_all.spans = std::move(lanes[lane]);
      add(lane_of_all);
    }
  }

  void add(Lane lane) {
    std::erase_if(lane.spans, [this](const Span& each) { return !is_plausible(each); });
    if (!lane.spans.empty()) spans_.lanes.push_back(std::move(lane));
  }

  [[nodiscard]] bool is_plausible(const Span& span) const {
    return span.end_ns >= span.begin_ns && detail::is_plausible(span.begin_ns, evidence_.taken_ns) &&
           detail::is_plausible(span.end_ns, evidence_.taken_ns);
  }

  const Evidence& evidence_;
  Spans spans_;
};

}  // namespace

std::uint16_t NameTable::number_of(std::string_view name) {
  if (names_.size() > kMaxNames) return static_cast<std::uint16_t>(kMaxNames);
  std::string text = visible(name.substr(0, kLongestName));
  const auto [place, is_new] = numbers_.try_emplace(text, static_cast<std::uint16_t>(names_.size()));
  if (!is_new) return place->second;
  if (names_.size() == kMaxNames) text = "(other)";
  names_.push_back(std::move(text));
  return place->second;
}

std::string_view to_string(LaneKind kind) {
  switch (kind) {
    case LaneKind::kMark: return "mark";
    case LaneKind::kCompute: return "compute";
    case LaneKind::kCollective: return "collective";
    case LaneKind::kWait: return "wait";
  }
  return "unknown";
}

Spans spans_of(const Evidence& evidence) { return SpanBuilder(evidence).build(); }

std::int64_t free_ns(const BusyTimes& busy, std::int64_t begin_ns, std::int64_t end_ns) {
  std::int64_t sum = 0;
  for_free_pieces(busy, {begin_ns, end_ns, 0}, first_after(busy, begin_ns),
                  [&](std::int64_t begin, std::int64_t end) { sum += end - begin; });
  return sum;
}

}  // namespace tessera::analysis::detail
