// Blocks that other streams used: who may have them, and when. Order is asked of the clocks, never of the driver.
#include <algorithm>

#include "tessera/base/mutant.h"
#include "tessera/memory/detail/allocator_state.h"
#include "tessera/memory/detail/capture_scope.h"

namespace tessera::memory {

using detail::Heap;
using detail::Phase;
using detail::Request;
using detail::Use;

namespace {

// Blocks looked at before a heap is given up: bounds the time of one allocation.
constexpr int kMostTried = 32;

bool is_done(const device::StreamSlot& slot, Tick tick) { return slot.completed() >= tick; }

// Whether the work behind `tick` of `slot` comes before what `stream` does next. A tick read ahead
// (StreamSlot::upcoming) may not have been taken yet, so a stream's own ticks are not asked of its clock unless
// launches may overlap.
bool is_ordered(const device::Stream& stream, const device::StreamSlot& slot, Tick tick) {
  if (&slot == &stream.slot() && (slot.hazards() & device::StreamSlot::kOverlapping) == 0) return true;
  return stream.covers(slot.id(), tick);
}

}  // namespace

bool AllocatorState::is_over(const Heap& heap, const Block& block, const device::Stream& stream) const {
  if (host_writes) return is_completed(heap, block);
  if (TESSERA_MUTANT("memory.every_block_is_covered")) return true;
  const auto is_covered = [&](const device::StreamSlot& slot, Tick tick) {
    return is_done(slot, tick) || is_ordered(stream, slot, tick);
  };
  if (block.tick != Tick{} && !is_covered(*heap.slot, block.tick)) return false;
  if (block.extra == nullptr) return true;
  return std::all_of(block.extra->uses.begin(), block.extra->uses.end(),
                     [&](const Use& use) { return is_covered(*use.slot, use.tick); });
}

bool AllocatorState::is_completed(const Heap& heap, const Block& block) const {
  if (TESSERA_MUTANT("memory.every_block_is_completed")) return true;
  if (!host_writes && heap.slot != nullptr && !is_done(*heap.slot, block.tick)) return false;
  if (heap.slot == nullptr && !detail::are_replays_completed(heap.pool)) return false;
  if (block.extra == nullptr) return true;
  return std::all_of(block.extra->uses.begin(), block.extra->uses.end(),
                     [](const Use& use) { return is_done(*use.slot, use.tick); });
}

// The stream's own ready blocks. Its own work is ordered before by itself, except inside an overlap scope.
Block* AllocatorState::take_ready(const Request& request, Heap& own) {
  const std::lock_guard lock(own.lock);
  if ((request.slot.hazards() & device::StreamSlot::kOverlapping) == 0) return own.take(request.size);
  detail::Space& space = own.spaces[Heap::is_large(request.size)];
  Block* found = space.ready.find_if(request.size, kMostTried,
                                     [&](const Block& block) { return is_over(own, block, request.stream); });
  if (found != nullptr) own.take_out(space, *found, request.size);
  return found;
}

namespace {

// A pending block is over for its taker: from here on the heap's own tick speaks for it.
void settle(AllocatorState& state, Heap& heap, Block& block, bool by_wait) {
  if (block.requested != 0) state.history.record_reusable(heap, block, by_wait);
  if (block.extra != nullptr) {
    const std::lock_guard lock(state.events_mutex);
    for (Use& use : block.extra->uses) {
      // An event that another part of a split block still waits on must keep its point.
      if (use.event && use.event.state().use_count() == 1) state.spare_events.push_back(std::move(use.event));
    }
  }
  block.extra.reset();
  block.requested = 0;
}

Block* take_over_from(AllocatorState& state, const Request& request, Heap& heap, bool is_own) {
  const std::lock_guard lock(heap.lock);
  if (!is_own) {
    detail::Space& space = heap.spaces[Heap::is_large(request.size)];
    Block* ready = space.ready.find_if(request.size, kMostTried,
                                       [&](const Block& block) { return state.is_over(heap, block, request.stream); });
    if (ready != nullptr) {
      heap.take_out(space, *ready, request.size);
      return ready;
    }
  }
  Block* pending = heap.pending.find_if(request.size, kMostTried,
                                        [&](const Block& block) { return state.is_over(heap, block, request.stream); });
  if (pending == nullptr) return nullptr;
  heap.take_pending(*pending, request.size);
  settle(state, heap, *pending, false);
  return pending;
}

}  // namespace

Block* AllocatorState::take_covered(const Request& request, Heap& own) {
  if (Block* block = take_over_from(*this, request, own, true)) return block;
  if (host_writes) return nullptr;  // the heaps of other streams hold no more that is complete than this one's
  std::vector<Heap*> others;
  {
    const std::lock_guard lock(slow_mutex);
    for (const auto& heap : request.pool->heaps) {
      if (heap.get() != &own && heap->slot != nullptr) others.push_back(heap.get());
    }
  }
  for (Heap* heap : others) {
    if (Block* block = take_over_from(*this, request, *heap, false)) {
      counters.covered_reuses.fetch_add(1, std::memory_order_relaxed);
      return block;
    }
  }
  return nullptr;
}

// A pending block of the stream's own heap behind waits for the events recorded at its free. Neither side may be a
// stream that holds or spins: its work could be waiting for what this very stream does next.
Block* AllocatorState::take_by_wait(const Request& request, Heap& own) {
  if (policy.cross_stream != CrossStream::kWait || host_writes || request.stream.may_spin()) return nullptr;
  if ((request.slot.hazards() & device::StreamSlot::kOverlapping) != 0) return nullptr;
  std::vector<device::Event> events;
  Block* block = nullptr;
  {
    const std::lock_guard lock(own.lock);
    block = own.pending.find_if(request.size, kMostTried, [&](const Block& candidate) {
      return candidate.extra != nullptr &&
             std::all_of(candidate.extra->uses.begin(), candidate.extra->uses.end(), [&](const Use& use) {
               return static_cast<bool>(use.event) || is_done(*use.slot, use.tick) ||
                      is_ordered(request.stream, *use.slot, use.tick);
             });
    });
    if (block == nullptr) return nullptr;
    own.take_pending(*block, request.size);
    for (const Use& use : block->extra->uses) {
      if (use.event && !is_ordered(request.stream, *use.slot, use.tick)) events.push_back(use.event);
    }
  }
  try {
    for (const device::Event& event : events) {
      if (!TESSERA_MUTANT("memory.device_wait_skipped")) request.stream.wait(event);
    }
  } catch (...) {
    const std::lock_guard lock(own.lock);
    own.make_pending(*block);
    throw;
  }
  counters.device_waits.fetch_add(events.size(), std::memory_order_relaxed);
  const std::lock_guard lock(own.lock);
  settle(*this, own, *block, true);
  return block;
}

void AllocatorState::poll_users(Heap& heap) {
  std::vector<StreamId> streams;
  const auto add = [&](const device::StreamSlot& slot) {
    if (std::find(streams.begin(), streams.end(), slot.id()) == streams.end()) streams.push_back(slot.id());
  };
  if (heap.slot != nullptr) add(*heap.slot);
  {
    const std::lock_guard lock(heap.pool.uses_mutex);
    for (const auto& [slot, tick] : heap.pool.replay_streams) add(*slot);
    for (const PoolState::PastUse& past : heap.pool.past_uses) add(*past.use.slot);
  }
  {
    const std::lock_guard lock(heap.lock);
    heap.pending.find_if(kAlignment, 1 << 30, [&](const Block& block) {
      if (block.extra == nullptr) return false;
      for (const Use& use : block.extra->uses) add(*use.slot);
      return false;
    });
  }
  for (const StreamId stream : streams) device.poll(stream);
}

std::size_t AllocatorState::promote_completed(Heap& heap) {
  std::vector<Block*> done;
  const std::lock_guard lock(heap.lock);
  heap.pending.find_if(kAlignment, 1 << 30, [&](Block& block) {
    if (block.extra != nullptr && block.extra->capture != CaptureId{}) return false;
    if (is_completed(heap, block)) done.push_back(&block);
    return false;
  });
  std::size_t nbytes = 0;
  for (Block* block : done) {
    nbytes += block->size;
    heap.end_pending(*block);
    settle(*this, heap, *block, false);
    heap.make_ready(*block);
  }
  return nbytes;
}

}  // namespace tessera::memory
