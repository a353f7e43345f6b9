// Reuse of blocks that other streams used. Clocks decide on the order, never the driver.
#include <algorithm>

#include "tessera/memory/detail/allocator_state.h"
#include "tessera/memory/detail/capture_scope.h"

namespace tessera::memory {

using detail::AllocationRequest;
using detail::Heap;
using detail::Phase;
using detail::Reuse;
using detail::Use;

namespace {

// Maximum number of blocks to try per heap: bounds the time of one allocation.
constexpr int kMaxTried = 32;

// Returns true if the work up to `tick` of `slot` comes before the next work of `stream`. A tick read ahead
// (StreamSlot::upcoming) may not have been taken yet, so a stream's own ticks are not compared with its clock unless
// launches may overlap.
bool is_ordered(const device::Stream& stream, const device::StreamSlot& slot, Tick tick) {
  if (&slot == &stream.slot() && (slot.hazards() & device::StreamSlot::kOverlapping) == 0) return true;
  return stream.covers(slot.id(), tick);
}

bool are_uses_done(const Block& block) {
  return block.extra == nullptr ||
         std::all_of(block.extra->uses.begin(), block.extra->uses.end(), [](const Use& use) { return use.is_done(); });
}

}  // namespace

bool Reuse::is_over(const Heap& heap, const Block& block, const device::Stream& stream) const {
  if (allocator_.host_writes) return is_completed(heap, block);
  const auto is_covered = [&](const device::StreamSlot& slot, Tick tick) {
    return slot.completed() >= tick || is_ordered(stream, slot, tick);
  };
  if (block.tick != Tick{} && !is_covered(*heap.slot, block.tick)) return false;
  if (block.extra == nullptr) return true;
  return std::all_of(block.extra->uses.begin(), block.extra->uses.end(),
                     [&](const Use& use) { return is_covered(*use.slot, use.tick); });
}

bool Reuse::is_completed(const Heap& heap, const Block& block) const {
  if (!allocator_.host_writes && heap.slot != nullptr && heap.slot->completed() < block.tick) return false;
  if (heap.slot == nullptr && !detail::are_replays_completed(heap.pool)) return false;
  return are_uses_done(block);
}

// Takes ready blocks of the stream itself. Its own work is ordered before, except inside an overlap scope.
Block* Reuse::take_ready(const AllocationRequest& request, Heap& own) {
  const std::lock_guard lock(own.lock);
  if ((request.slot.hazards() & device::StreamSlot::kOverlapping) == 0) return own.take(request.size);
  detail::Space& space = own.spaces[Heap::is_large(request.size)];
  Block* found = space.ready.find_if(request.size, kMaxTried,
                                     [&](const Block& block) { return is_over(own, block, request.stream); });
  if (found != nullptr) own.take_out(space, *found, request.size);
  return found;
}

void Reuse::settle(Heap& heap, Block& block, probe::Moment moment) {
  if (block.requested != 0) allocator_.history.record_reusable(heap, block, false, moment);
  if (block.extra != nullptr && !block.extra->uses.empty()) allocator_.spare_events.put(block.extra->uses);
  if (block.extra != nullptr && heap.slot == nullptr) {
    block.extra->clear();  // its next free in a capture needs it again
  } else {
    heap.drop_extra(block);
  }
  block.requested = 0;
}

namespace {

Block* take_over_from(Reuse& reuse, const AllocationRequest& request, Heap& heap, bool is_own) {
  const std::lock_guard lock(heap.lock);
  if (!is_own) {
    detail::Space& space = heap.spaces[Heap::is_large(request.size)];
    Block* ready = space.ready.find_if(request.size, kMaxTried,
                                       [&](const Block& block) { return reuse.is_over(heap, block, request.stream); });
    if (ready != nullptr) {
      heap.take_out(space, *ready, request.size);
      return ready;
    }
  }
  Block* pending = heap.spaces[Heap::is_large(request.size)].pending.find_if(
      request.size, kMaxTried, [&](const Block& block) { return reuse.is_over(heap, block, request.stream); });
  if (pending == nullptr) return nullptr;
  heap.take_pending(*pending, request.size);
  reuse.settle(heap, *pending, request.moment);
  return pending;
}

}  // namespace

Block* Reuse::take_covered(const AllocationRequest& request, Heap& own) {
  if (Block* block = take_over_from(*this, request, own, true)) return block;
  if (allocator_.host_writes) {
    poll_users(own);  // costs nothing beside pinning more memory
    if (Block* block = take_over_from(*this, request, own, true)) return block;
  }
  std::vector<Heap*> others;
  {
    const std::lock_guard lock(allocator_.slow_mutex);
    for (const auto& heap : request.pool->heaps) {
      if (heap.get() != &own && heap->slot != nullptr) others.push_back(heap.get());
    }
  }
  for (Heap* heap : others) {
    if (Block* block = take_over_from(*this, request, *heap, false)) {
      allocator_.counters.covered_reuses.fetch_add(1, std::memory_order_relaxed);
      return block;
    }
  }
  return nullptr;
}

namespace {

// Returns the cost for the stream to use a free block of its own heap: 0, the number of waits on the device, or -1 if
// it is impossible. Waits are only on events recorded at the free of the block.
int price_of(const Reuse& reuse, const AllocationRequest& request, const Heap& own, const Block& block, bool may_wait) {
  if (block.phase == Phase::kReady || reuse.is_over(own, block, request.stream)) return 0;
  if (!may_wait || block.extra == nullptr) return -1;
  int waits = 0;
  for (const Use& use : block.extra->uses) {
    if (use.is_done() || is_ordered(request.stream, *use.slot, use.tick)) continue;
    if (!use.event) return -1;
    ++waits;
  }
  return waits;
}

// Finds a pending block that fits, or free neighbors that fit together: memory split for smaller blocks, some of them
// pending, is merged again before the heap grows.
detail::BlockRun find_own(const Reuse& reuse, const AllocationRequest& request, const Heap& own, bool may_wait) {
  const auto price = [&](const Block& block) { return price_of(reuse, request, own, block, may_wait); };
  const detail::Space& space = own.spaces[Heap::is_large(request.size)];
  Block* block = space.pending.find_if(request.size, kMaxTried, [&](const Block& one) { return price(one) >= 0; });
  if (block != nullptr) return {block, block, block->size, price(*block)};
  const std::size_t unused = own.sums.mapped - own.sums.used;
  if (unused < request.size || unused == own.sums.cached) return {};  // ready neighbors have already merged
  return own.find_run(space, request.size, price);
}

}  // namespace

// Takes pending memory of the stream's own heap, after waits on the device if needed. Neither side of a wait
// may be a stream that holds or spins: its work could wait for the next work of this stream.
Block* Reuse::take_by_wait(const AllocationRequest& request, Heap& own, bool may_wait) {
  if ((request.slot.hazards() & device::StreamSlot::kOverlapping) != 0 || allocator_.host_writes) return nullptr;
  may_wait = may_wait && allocator_.policy.cross_stream == CrossStream::kWait && !request.stream.may_spin();
  std::vector<Use> uses;
  Block* block = nullptr;
  {
    const std::lock_guard lock(own.lock);
    const detail::BlockRun run = find_own(*this, request, own, may_wait);
    if (run.first == nullptr) return nullptr;
    block = own.take_run(run, request.size, [&](Block& pending) {
      if (pending.extra == nullptr) return;
      for (Use& use : pending.extra->uses) uses.push_back(std::move(use));
      if (pending.requested != 0) allocator_.history.record_reusable(own, pending, run.cost > 0, request.moment);
      own.drop_extra(pending);
      pending.requested = 0;
    });
  }
  std::size_t waits = 0;
  try {
    for (const Use& use : uses) {
      if (!use.event || use.is_done() || is_ordered(request.stream, *use.slot, use.tick)) continue;
      request.stream.wait(use.event);
      ++waits;
    }
  } catch (...) {
    const std::lock_guard lock(own.lock);
    own.extra(*block).uses = std::move(uses);
    own.make_pending(*block);
    throw;
  }
  allocator_.counters.device_waits.fetch_add(waits, std::memory_order_relaxed);
  allocator_.spare_events.put(uses);
  return block;
}

void Reuse::poll_users(Heap& heap) {
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
    heap.each_pending([&](const Block& block) {
      if (block.extra == nullptr) return;
      for (const Use& use : block.extra->uses) add(*use.slot);
    });
  }
  for (const StreamId stream : streams) allocator_.device.poll(stream);
}

std::size_t Reuse::promote_completed(Heap& heap) {
  std::vector<Block*> done;
  const std::lock_guard lock(heap.lock);
  heap.each_pending([&](Block& block) {
    if (block.extra != nullptr && block.extra->capture != CaptureId{}) return;
    // The replay order covers uses of a free capture block by replays: another capture may take it.
    if (heap.slot == nullptr ? are_uses_done(block) : is_completed(heap, block)) done.push_back(&block);
  });
  std::size_t nbytes = 0;
  for (Block* block : done) {
    nbytes += block->size;
    heap.end_pending(*block);
    settle(heap, *block, allocator_.history.now());
    heap.make_ready(*block);
  }
  return nbytes;
}

}  // namespace tessera::memory
