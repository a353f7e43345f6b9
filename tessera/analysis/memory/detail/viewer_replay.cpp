#include "tessera/analysis/memory/detail/viewer_replay.h"

#include <algorithm>
#include <map>

namespace tessera::analysis::detail {
namespace {

using memory::Action;
using memory::BlockState;
using memory::BlockView;
using memory::PoolId;
using memory::SegmentView;
using memory::Snapshot;
using memory::TraceEntry;

// State of the viewer while it goes backwards.
class Undo {
 public:
  explicit Undo(const Snapshot& snapshot) {
    for (const SegmentView& segment : snapshot.segments) {
      runs_[segment.address] = {segment.address + segment.nbytes, segment.stream};
      for (const BlockView& block : segment.blocks) {
        if (block.state != BlockState::kCached) blocks_[block.address] = block.state == BlockState::kPending;
      }
    }
  }

  // Undoes the event; returns false and changes nothing if it does not fit.
  bool undo(const ViewerEvent& event) {
    const TraceEntry& entry = *event.entry;
    switch (entry.action) {
      case Action::kAlloc: return blocks_.erase(entry.address) != 0;
      case Action::kFreeRequested: return unfree(entry.address);
      case Action::kFreeCompleted:
        if (!is_mapped(entry.address, std::max<std::uint64_t>(entry.nbytes, 1))) return false;
        blocks_[entry.address] = true;
        return true;
      case Action::kMap: return event.is_fixed ? remove_segment(entry) : remove_piece(entry);
      case Action::kUnmap: return add(entry, !event.is_fixed);
      case Action::kOutOfMemory:
      case Action::kSnapshot: return true;
    }
    return true;
  }

 private:
  struct HeapRun {
    std::uint64_t end = 0;
    StreamId stream;
  };
  using Runs = std::map<std::uint64_t, HeapRun>;

  // Returns the run that holds the complete range, or the end.
  Runs::iterator run_of(std::uint64_t address, std::uint64_t nbytes) {
    auto it = runs_.upper_bound(address);
    if (it == runs_.begin()) return runs_.end();
    --it;
    return it->second.end > address && it->second.end - address >= nbytes ? it : runs_.end();
  }
  bool is_mapped(std::uint64_t address, std::uint64_t nbytes) { return run_of(address, nbytes) != runs_.end(); }

  [[nodiscard]] bool has_block(std::uint64_t address, std::uint64_t nbytes) const {
    const auto it = blocks_.lower_bound(address);
    return it != blocks_.end() && it->first - address < nbytes;
  }

  bool unfree(std::uint64_t address) {
    const auto it = blocks_.find(address);
    if (it == blocks_.end() || !it->second) return false;
    it->second = false;
    return true;
  }

  bool remove_segment(const TraceEntry& entry) {
    const auto it = runs_.find(entry.address);
    if (it == runs_.end() || it->second.end - it->first != entry.nbytes) return false;
    if (has_block(entry.address, entry.nbytes)) return false;
    runs_.erase(it);
    return true;
  }

  bool remove_piece(const TraceEntry& entry) {
    const auto it = run_of(entry.address, entry.nbytes);
    if (entry.nbytes == 0 || it == runs_.end() || has_block(entry.address, entry.nbytes)) return false;
    const auto [first, run] = *it;
    const std::uint64_t end = entry.address + entry.nbytes;
    runs_.erase(it);
    if (first < entry.address) runs_[first] = {entry.address, run.stream};
    if (end < run.end) runs_[end] = run;
    return true;
  }

  bool add(const TraceEntry& entry, bool merges) {
    const std::uint64_t end = entry.address + entry.nbytes;
    if (end <= entry.address) return false;
    auto next = runs_.lower_bound(entry.address);
    if (next != runs_.end() && next->first < end) return false;
    if (next != runs_.begin() && std::prev(next)->second.end > entry.address) return false;
    auto it = runs_.insert(next, {entry.address, {end, entry.stream}});
    if (!merges) return true;
    next = std::next(it);
    if (next != runs_.end() && next->first == end && next->second.stream == entry.stream) {
      it->second.end = next->second.end;
      runs_.erase(next);
    }
    if (it == runs_.begin()) return true;
    const auto before = std::prev(it);
    if (before->second.end == entry.address && before->second.stream == entry.stream) {
      before->second.end = it->second.end;
      runs_.erase(it);
    }
    return true;
  }

  Runs runs_;
  std::map<std::uint64_t, bool> blocks_;  // not cached, by address: whether pending
};

// Decides whether an event concerns a fixed segment. The trace does not state it, so the final state decides: the
// segment at that address, otherwise those of the same pool. Without either, a chunk is the safe choice, because a
// complete segment is a chunk too.
class FixedSegments {
 public:
  explicit FixedSegments(const Snapshot& snapshot) : segments_(snapshot.segments) {
    for (const SegmentView& segment : segments_) {
      const auto [known, is_new] = pools_.emplace(segment.pool, !segment.is_expandable);
      if (!is_new) known->second = known->second && !segment.is_expandable;
    }
  }

  [[nodiscard]] bool contain(const TraceEntry& entry) const {
    const auto after =
        std::upper_bound(segments_.begin(), segments_.end(), entry.address,
                         [](std::uint64_t address, const SegmentView& segment) { return address < segment.address; });
    if (after != segments_.begin()) {
      const SegmentView& segment = *std::prev(after);
      if (entry.address - segment.address < segment.nbytes) return !segment.is_expandable;
    }
    const auto pool = pools_.find(entry.pool);
    return pool != pools_.end() && pool->second;
  }

 private:
  const std::vector<SegmentView>& segments_;
  std::map<PoolId, bool> pools_;  // true if all segments of the pool are fixed
};

}  // namespace

std::vector<ViewerEvent> viewer_events(const Snapshot& snapshot) {
  std::vector<ViewerEvent> kept;
  Undo state(snapshot);
  const FixedSegments fixed(snapshot);
  for (auto entry = snapshot.trace.rbegin(); entry != snapshot.trace.rend(); ++entry) {
    const bool is_segment = entry->action == Action::kMap || entry->action == Action::kUnmap;
    const ViewerEvent event{&*entry, is_segment && fixed.contain(*entry)};
    if (state.undo(event)) kept.push_back(event);
  }
  std::reverse(kept.begin(), kept.end());
  return kept;
}

}  // namespace tessera::analysis::detail
