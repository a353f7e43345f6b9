#include "tessera/memory/detail/replay_order.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "tessera/base/error.h"

namespace tessera::memory::detail {
namespace {

// Sorts the ranges and merges adjacent ones.
std::vector<ReplayRange> tidied(std::vector<ReplayRange> ranges) {
  std::sort(ranges.begin(), ranges.end(), [](const ReplayRange& a, const ReplayRange& b) { return a.begin < b.begin; });
  std::vector<ReplayRange> apart;
  for (const ReplayRange& range : ranges) {
    if (!apart.empty() && range.begin <= apart.back().end) {
      apart.back().end = std::max(apart.back().end, range.end);
    } else {
      apart.push_back(range);
    }
  }
  return apart;
}

std::optional<ReplayRange> shared_bytes(const ReplayRange& a, const ReplayRange& b) {
  const ReplayRange both{std::max(a.begin, b.begin), std::min(a.end, b.end)};
  return both.begin < both.end ? std::optional(both) : std::nullopt;
}

// Returns the first bytes of `range` that are in sorted ranges.
std::optional<ReplayRange> shared_bytes(const std::vector<ReplayRange>& ranges, const ReplayRange& range) {
  auto at = std::upper_bound(ranges.begin(), ranges.end(), range.begin,
                             [](std::uintptr_t begin, const ReplayRange& r) { return begin < r.end; });
  return at == ranges.end() ? std::nullopt : shared_bytes(*at, range);
}

std::optional<ReplayRange> shared_bytes(const std::vector<ReplayRange>& a, const std::vector<ReplayRange>& b) {
  for (const ReplayRange& range : b) {
    if (const auto both = shared_bytes(a, range)) return both;
  }
  return std::nullopt;
}

std::string show(const ReplayRange& range) {
  return fmt::format("{} bytes at {:#x}", range.end - range.begin, range.begin);
}

}  // namespace

ReplayOrder::Slot ReplayOrder::find(GraphKey key) const {
  const auto slot = static_cast<Slot>(key.value());
  return key != GraphKey() && slot < graphs_.size() && graphs_[slot].key == key ? slot : kRemoved;
}

ReplayOrder::Slot ReplayOrder::slot(GraphKey key) const {
  const Slot found = find(key);
  TESSERA_CHECK(found != kRemoved, "replay order: graph ", key, " was removed, or never added");
  return found;
}

ReplayOrder::Slot ReplayOrder::vacant_slot() {
  if (vacant_.empty()) {
    vacant_.reserve(graphs_.size() + 1);  // remove() must not fail half way
    latest_.emplace_back();
    graphs_.emplace_back();
    return static_cast<Slot>(graphs_.size() - 1);
  }
  const Slot slot = vacant_.back();
  vacant_.pop_back();
  return slot;
}

ReplayOrder::ReplayInput ReplayOrder::make_input(const GraphInput& input) const {
  TESSERA_CHECK(input.range.begin < input.range.end, "replay order: an input must not be empty, got 0 bytes at ",
                input.range.begin);
  ReplayInput made;
  made.range = input.range;
  made.writer = input.writer;
  made.writer_slot = find(input.writer);
  made.added = replays_;
  if (made.writer_slot == kRemoved) return made;
  const ReplayGraph& writer = graphs_[made.writer_slot];
  made.writer_name = writer.name;
  if (writer.is_announced) return made;
  const auto written = shared_bytes(writer.writes, input.range);
  TESSERA_CHECK(written.has_value() && written->begin == input.range.begin && written->end == input.range.end,
                "replay order: an input must be within the writes of its writer '", *writer.name, "', got ",
                show(input.range));
  return made;
}

GraphKey ReplayOrder::announce(std::string name) {
  ReplayGraph graph;
  graph.name = std::make_shared<const std::string>(std::move(name));
  graph.is_announced = true;
  const Slot mine = vacant_slot();
  graph.key = GraphKey(++keys_ << 32 | mine);
  graphs_[mine] = std::move(graph);
  latest_[mine] = {};
  return graphs_[mine].key;
}

void ReplayOrder::add(GraphKey key, std::vector<ReplayRange> writes, const std::vector<GraphInput>& inputs) {
  const Slot mine = slot(key);
  ReplayGraph& graph = graphs_[mine];
  TESSERA_CHECK(graph.is_announced, "replay order: graph '", *graph.name, "' is already added");
  for (const ReplayRange& range : writes) {
    TESSERA_CHECK(range.begin < range.end, "replay order: a write of graph '", *graph.name,
                  "' must not be empty, got 0 bytes at ", range.begin);
  }
  std::vector<ReplayInput> made;
  for (const GraphInput& input : inputs) made.push_back(make_input(input));
  graph.writes = tidied(std::move(writes));
  graph.inputs = std::move(made);
  graph.is_announced = false;
  for (Slot other = 0; other < graphs_.size(); ++other) {
    if (graphs_[other].key != GraphKey()) relate(mine, other);
  }
  recall(mine);
}

// Returns bytes that one writes and the other reads or writes.
std::optional<ReplayRange> ReplayOrder::shared(const ReplayGraph& a, const ReplayGraph& b) {
  auto bytes = shared_bytes(a.writes, b.writes);
  for (const ReplayInput& input : a.inputs) bytes = bytes.has_value() ? bytes : shared_bytes(b.writes, input.range);
  for (const ReplayInput& input : b.inputs) bytes = bytes.has_value() ? bytes : shared_bytes(a.writes, input.range);
  return bytes;
}

// Records the conflicts of two graphs, or of one with itself.
void ReplayOrder::relate(Slot a, Slot b) {
  const auto note_overwriter = [this](Slot reader, Slot writer) {
    for (ReplayInput& input : graphs_[reader].inputs) {
      const bool writes = shared_bytes(graphs_[writer].writes, input.range).has_value();
      if (writes && input.writer_slot != writer) input.overwriters.push_back(writer);
    }
  };
  note_overwriter(a, b);
  if (a == b || !shared(graphs_[a], graphs_[b]).has_value()) return;
  note_overwriter(b, a);
  graphs_[a].conflicts.push_back(b);
  graphs_[b].conflicts.push_back(a);
}

bool ReplayOrder::remove(GraphKey key) {
  const Slot gone = slot(key);
  const ReplayGraph graph = std::exchange(graphs_[gone], {});
  const Replay replay = std::exchange(latest_[gone], {});
  vacant_.push_back(gone);
  if (replay.number != 0) remember(graph, replay);
  for (const Slot other : graph.conflicts) {
    std::erase(graphs_[other].conflicts, gone);
    for (ReplayInput& input : graphs_[other].inputs) {
      std::erase(input.overwriters, gone);
      if (input.writer == key) input.writer_slot = kRemoved;
    }
    recall(other);
  }
  if (!graph.is_announced) return true;
  for (ReplayGraph& other : graphs_) {
    for (ReplayInput& input : other.inputs) {
      if (input.writer != key) continue;
      input.writer = {};
      input.writer_slot = kRemoved;
    }
  }
  return false;
}

// Splits past bytes at `at`, if any contain it.
ReplayOrder::Past::iterator ReplayOrder::split(std::uintptr_t at) {
  const auto next = past_.lower_bound(at);
  if (next == past_.begin() || (next != past_.end() && next->first == at)) return next;
  auto& [begin, before] = *std::prev(next);
  if (before.end <= at) return next;
  PastBytes after = before;
  before.end = at;
  return past_.emplace_hint(next, at, std::move(after));
}

// Calls `change` for the past bytes of `range`, and adds missing ones.
template <class Change>
void ReplayOrder::change_past(ReplayRange range, const Change& change) {
  split(range.end);
  auto next = split(range.begin);
  for (std::uintptr_t at = range.begin; at < range.end; ++next) {
    if (next == past_.end() || next->first > at) {
      const std::uintptr_t end = next == past_.end() ? range.end : std::min(range.end, next->first);
      next = past_.emplace_hint(next, at, PastBytes{.end = end, .writer = {}, .readers = {}});
    }
    change(next->second);
    at = next->second.end;
  }
}

template <class Visit>
void ReplayOrder::for_past(ReplayRange range, const Visit& visit) const {
  auto at = past_.upper_bound(range.begin);
  if (at != past_.begin() && std::prev(at)->second.end > range.begin) --at;
  for (; at != past_.end() && at->first < range.end; ++at) visit(at->first, at->second);
}

// Records the last effects of a removed graph by address. A write represents all earlier ones on the same bytes: it was
// ordered after them or made when they were known complete. A read represents earlier reads on the same stream.
void ReplayOrder::remember(const ReplayGraph& graph, const Replay& replay) {
  const PastReplay last{graph.key, replay, graph.name};
  const auto is_earlier = [&](const PastReplay& other) { return other.replay.number < replay.number; };
  for (const ReplayRange& range : graph.writes) {
    change_past(range, [&](PastBytes& bytes) {
      if (is_earlier(bytes.writer)) bytes.writer = last;
      std::erase_if(bytes.readers, is_earlier);
    });
  }
  for (const ReplayInput& input : graph.inputs) {
    change_past(input.range, [&](PastBytes& bytes) {
      if (!is_earlier(bytes.writer)) return;
      const auto same = std::find_if(bytes.readers.begin(), bytes.readers.end(),
                                     [&](const PastReplay& reader) { return reader.replay.stream == replay.stream; });
      if (same == bytes.readers.end()) {
        bytes.readers.push_back(last);
      } else if (is_earlier(*same)) {
        *same = last;
      }
    });
  }
}

// Recomputes the relation of removed graphs to this one.
void ReplayOrder::recall(Slot slot) {
  ReplayGraph& graph = graphs_[slot];
  graph.past_conflicts.clear();
  const auto note = [&](const PastReplay& past) {
    const bool is_known = std::any_of(graph.past_conflicts.begin(), graph.past_conflicts.end(),
                                      [&](const PastReplay& known) { return known.graph == past.graph; });
    if (past.graph != GraphKey() && !is_known) graph.past_conflicts.push_back(past);
  };
  for (const ReplayRange& range : graph.writes) {
    for_past(range, [&](std::uintptr_t, const PastBytes& bytes) {
      note(bytes.writer);
      std::for_each(bytes.readers.begin(), bytes.readers.end(), note);
    });
  }
  for (ReplayInput& input : graph.inputs) {
    for_past(input.range, [&](std::uintptr_t, const PastBytes& bytes) { note(bytes.writer); });
    recall(input);
  }
}

// Finds the latest removed graph that overwrote the input and, if the writer itself was removed, its last replay: none
// unless every byte was written.
void ReplayOrder::recall(ReplayInput& input) const {
  input.written = 0;
  input.past_overwriter = {};
  std::uintptr_t covered = input.range.begin;
  for_past(input.range, [&](std::uintptr_t begin, const PastBytes& bytes) {
    if (bytes.writer.graph != GraphKey() && begin <= covered) covered = bytes.end;
    if (bytes.writer.graph == input.writer) {
      input.written = bytes.writer.replay.number;
      input.writer_name = bytes.writer.name;
    } else if (bytes.writer.replay.number > input.past_overwriter.replay.number) {
      input.past_overwriter = bytes.writer;
    }
  });
  if (covered < input.range.end) input.written = 0;
}

void ReplayOrder::replayed(GraphKey graph, StreamId stream, Tick tick) {
  const Replay latest{++replays_, stream, tick};
  latest_[slot(graph)] = latest;
  if (run_.number == 0 || run_.stream != stream) run_ = latest;
}

std::optional<std::string> ReplayOrder::refusal(GraphKey key, StreamId on, const Ordered& ordered) const {
  const Slot mine = slot(key);
  const ReplayGraph& graph = graphs_[mine];
  for (const ReplayInput& input : graph.inputs) {
    const bool has_writer = input.writer != GraphKey();
    const bool is_removed = input.writer_slot == kRemoved;
    // Data of the holder counts as written when the reader was added.
    const std::uint64_t before = has_writer ? input.written : input.added;
    const std::uint64_t written = is_removed ? before : latest_[input.writer_slot].number;
    const PastReplay& past = input.past_overwriter;
    const bool is_lost = is_removed && past.name != nullptr;  // then the writer may show nowhere any more
    const bool is_written = written != 0 || !has_writer;
    if (!is_written && !is_lost) return lost_input(graph, input, nullptr);
    if (past.replay.number > written) return lost_input(graph, input, past.name.get());
    for (const Slot other : input.overwriters) {
      if (latest_[other].number > written) return lost_input(graph, input, graphs_[other].name.get());
    }
  }
  // Work before the latest replay of this graph has ended before its next replay begins.
  const std::uint64_t own = latest_[mine].number;
  // Usually one stream makes all replays, so no other stream exists.
  if (run_.stream == on && run_.number <= own + 1) return std::nullopt;
  const auto is_over = [&](const Replay& replay) {
    return replay.number <= own || replay.stream == on || ordered(replay.stream, replay.tick);
  };
  for (const Slot other : graph.conflicts) {
    if (!is_over(latest_[other])) {
      return concurrent(graph, on, *graphs_[other].name, latest_[other], shared(graph, graphs_[other]));
    }
  }
  for (const PastReplay& past : graph.past_conflicts) {
    if (!is_over(past.replay)) return concurrent(graph, on, *past.name, past.replay, std::nullopt);
  }
  return std::nullopt;
}

std::string ReplayOrder::lost_input(const ReplayGraph& graph, const ReplayInput& input, const std::string* by) {
  if (input.writer == GraphKey()) {
    return fmt::format(
        "graph '{}' reads {} that no graph wrote, which graph '{}' has overwritten since the capture; capture '{}' "
        "again, or give graph '{}' a separate pool",
        *graph.name, show(input.range), *by, *graph.name, *by);
  }
  const std::string writer =
      input.writer_name != nullptr ? "graph '" + *input.writer_name + "'" : std::string("a removed graph");
  const std::string reads = fmt::format("graph '{}' reads {} written by {}, ", *graph.name, show(input.range), writer);
  const bool is_gone = input.writer_slot == kRemoved;
  if (by == nullptr && is_gone) return reads + "which was removed before it wrote them; capture both again";
  if (by == nullptr) return fmt::format("{}which was never replayed; replay {} first", reads, writer);
  const std::string out = is_gone ? "capture both again" : fmt::format("replay {} again first", writer);
  return fmt::format("{}which graph '{}' has overwritten since; {}, or give graph '{}' a separate pool", reads, *by,
                     out, *by);
}

std::string ReplayOrder::concurrent(const ReplayGraph& graph, StreamId on, const std::string& other,
                                    const Replay& replay, std::optional<ReplayRange> bytes) {
  return fmt::format(
      "graph '{}' shares {} with graph '{}', whose replay on stream {} may still run; let stream {} wait for an event "
      "recorded after that replay, or give the graphs separate pools",
      *graph.name, bytes.has_value() ? show(*bytes) : "memory", other, replay.stream.value(), on.value());
}

}  // namespace tessera::memory::detail
