// Inspects an allocator: sums heap by heap, or the complete state under all locks.
#include <algorithm>
#include <chrono>

#include "tessera/memory/detail/allocator_state.h"
#include "tessera/memory/label.h"

namespace tessera::memory {

using detail::Heap;
using detail::Phase;
using detail::Segment;

namespace {

BlockView view_of(const AllocatorState& state, const Block& block) {
  BlockView view;
  view.address = reinterpret_cast<std::uint64_t>(block.address);
  view.nbytes = block.size;
  view.stream = block.slot != nullptr ? block.slot->id() : StreamId{};
  switch (block.phase) {
    case Phase::kLive: view.state = BlockState::kLive; break;
    case Phase::kReady: view.state = BlockState::kCached; break;
    default: view.state = BlockState::kPending; break;
  }
  if (view.state == BlockState::kCached) return view;
  view.requested_nbytes = block.requested;
  view.label = Label::text_of(block.label);
  view.stack = state.history.stack_text(block.stack);
  if (view.state == BlockState::kPending && block.extra != nullptr) {
    for (const detail::Use& use : block.extra->uses) view.pending_streams.push_back(use.slot->id());
  }
  return view;
}

// Appends the mapped runs of a segment.
void view_segment(const AllocatorState& state, const Heap& heap, const Segment& segment, Snapshot& out) {
  bool is_open = false;
  for (const Block* block = segment.first; block != nullptr; block = block->next) {
    if (block->phase == Phase::kHole) {
      is_open = false;
      continue;
    }
    if (!is_open) {
      SegmentView run;
      run.address = reinterpret_cast<std::uint64_t>(block->address);
      run.pool = heap.pool.id;
      run.stream = heap.slot != nullptr ? heap.slot->id() : StreamId{};
      run.is_expandable = segment.is_expandable;
      out.segments.push_back(std::move(run));
      is_open = true;
    }
    out.segments.back().nbytes += block->size;
    out.segments.back().blocks.push_back(view_of(state, *block));
  }
}

}  // namespace

Snapshot AllocatorState::snapshot(const PoolState* only) {
  Snapshot out;
  out.device = name;
  out.settings = policy.fields();
  out.modules = history.modules();
  const std::lock_guard slow(slow_mutex);
  std::vector<Heap*> heaps;
  for (const auto& pool : pools) {
    if (only != nullptr ? pool.get() != only : pool->is_imaginary) continue;
    out.pools.push_back({pool->id, pool->name, pool->owner});
    for (const auto& heap : pool->heaps) heaps.push_back(heap.get());
  }
  auto gate = live_peak.gate();
  for (Heap* heap : heaps) heap->lock.lock();
  for (const Heap* heap : heaps) {
    for (const detail::Space& space : heap->spaces) {
      for (const auto& segment : space.segments) view_segment(*this, *heap, *segment, out);
    }
  }
  for (Heap* heap : heaps) heap->lock.unlock();
  gate.unlock();
  std::sort(out.segments.begin(), out.segments.end(),
            [](const SegmentView& a, const SegmentView& b) { return a.address < b.address; });
  return out;
}

Statistics AllocatorState::statistics() {
  Statistics out;
  const std::lock_guard slow(slow_mutex);
  std::uint64_t peaks = pools.gone_peaks;
  for (Heap* heap : pools.heaps()) {
    if (heap->pool.is_imaginary) continue;
    const std::lock_guard lock(heap->lock);
    const detail::HeapSums& sums = heap->sums;
    peaks += heap->peak_live;
    out.now.reserved_nbytes += sums.mapped;
    out.now.live_nbytes += sums.live;
    out.now.rounding_nbytes += sums.used - sums.live;
    out.now.cached_nbytes += sums.cached;
    out.now.pending_nbytes += sums.mapped - sums.used - sums.cached;
    out.now.live_blocks += sums.live_blocks;
    heap->walk([&](const detail::Segment&, const Block& block) {
      if (block.phase == Phase::kReady) ++out.now.cached_blocks;
      if (block.phase == Phase::kPending || block.phase == Phase::kTaken) ++out.now.pending_blocks;
    });
    out.allocations += heap->allocations;
    out.frees += heap->frees;
  }
  out.peak_reserved_nbytes = reserved.peak();
  // Both are bounds: the heaps need not have had their peaks together, and the common peak is slightly too high.
  out.peak_live_nbytes = std::min(peaks, live_peak.peak());
  const detail::EventCounters& c = counters;
  out.covered_reuses = c.covered_reuses;
  out.device_waits = c.device_waits;
  out.events_recorded = c.events_recorded;
  out.capture_reuses = c.capture_reuses;
  out.maps = c.maps;
  out.unmaps = c.unmaps;
  out.moves = c.moves;
  out.retries_pending = c.retries_pending;
  out.retries_trim = c.retries_trim;
  out.retries_synchronize = c.retries_synchronize;
  out.retries_borrow = c.retries_borrow;
  out.retries_callback = c.retries_callback;
  out.collections = c.collections;
  out.out_of_memory = c.out_of_memory;
  return out;
}

Statistics Allocator::statistics() const {
  state_->owner.check("allocator");
  return state_->statistics();
}
Snapshot Allocator::snapshot() const {
  state_->owner.check("allocator");
  return state_->snapshot(nullptr);
}

void Allocator::reset_peaks() const {
  state_->owner.check("allocator");
  const std::lock_guard slow(state_->slow_mutex);
  state_->reserved.reset_peak();
  state_->pools.gone_peaks = 0;
  state_->live_peak.reset();
}

}  // namespace tessera::memory
