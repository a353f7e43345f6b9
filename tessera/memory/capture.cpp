// Memory inside a capture. All captures into a pool share one heap, whatever their streams: what may be reused is a
// question to the prover, not to the stream. Blocks freed in the capture are pending with the nodes that must be over;
// blocks that nothing in this capture has used are ready for anyone.
#include <algorithm>

#include "tessera/base/error.h"
#include "tessera/base/mutant.h"
#include "tessera/memory/detail/capture_scope.h"

namespace tessera::memory {

using detail::CaptureScope;
using detail::GraphKeeper;
using detail::Heap;
using detail::Phase;
using detail::Request;
using detail::Use;

namespace {

// Pending blocks looked at before a proof is given up on.
constexpr int kMostProofs = 256;

// Tells the prover where a stream stands. The scope's lock is held.
void advance(CaptureScope& scope, const device::StreamSlot& slot, const device::CaptureInfo& info) {
  if (!info.dropped.empty()) [[unlikely]] {
    std::size_t& seen = scope.dropped_seen[&slot];
    if (info.dropped.size() > seen) {
      scope.order->replaced(slot.id(), std::span(info.dropped).subspan(seen));
      seen = info.dropped.size();
    }
  }
  scope.order->advance(slot.id(), info.dependencies);
}

bool is_done(const Use& use) { return use.slot->completed() >= use.tick; }

// Whether a pending block is a matter of proof at all. Uses from outside the capture are no obstacle where a replay can
// wait for them.
bool is_provable(const CaptureScope& scope, const Block& block) {
  if (block.extra == nullptr || block.extra->is_barred) return false;
  if (block.extra->capture != scope.id && block.extra->capture != CaptureId{}) return false;
  return std::all_of(block.extra->uses.begin(), block.extra->uses.end(),
                     [](const Use& use) { return static_cast<bool>(use.event) || is_done(use); });
}

// Uses of a block that is taken or merged are the pool's from now on: whoever is given these bytes, in this capture or
// a later one, comes after them.
void hand_on_uses(Heap& heap, const Block& block) {
  const auto begin = reinterpret_cast<std::uintptr_t>(block.address);
  const std::lock_guard lock(heap.pool.uses_mutex);
  for (const Use& use : block.extra->uses) {
    if (!is_done(use)) heap.pool.past_uses.push_back({{begin, begin + block.size}, use});
  }
}

void settle(AllocatorState& state, Heap& heap, Block& block) {
  if (block.requested != 0) state.history.record_reusable(heap, block, false);
  block.extra.reset();
  block.requested = 0;
}

// Merges neighbours that are all proved over for the stream; what it does next comes after each of them, so its own
// marks speak for the whole. Returns whether anything was merged.
bool consolidate(AllocatorState& state, CaptureScope& scope, Heap& heap, StreamId stream) {
  std::vector<Block*> proved;
  heap.pending.find_if(kAlignment, 1 << 30, [&](Block& block) {
    if (is_provable(scope, block) && scope.order->proves(stream, block.extra->marks)) proved.push_back(&block);
    return false;
  });
  std::sort(proved.begin(), proved.end(), [](const Block* a, const Block* b) { return a->address < b->address; });
  bool has_merged = false;
  for (std::size_t i = 0; i < proved.size();) {
    Block& first = *proved[i];
    std::size_t last = i + 1;
    while (last < proved.size() && proved[last]->prev == proved[last - 1]) ++last;
    if (last - i > 1) {
      for (std::size_t k = i; k < last; ++k) {
        heap.end_pending(*proved[k]);
        hand_on_uses(heap, *proved[k]);
        settle(state, heap, *proved[k]);
      }
      for (std::size_t k = i + 1; k < last; ++k) heap.absorb_next(first);
      scope.order->mark(stream, first.more().marks);
      first.extra->capture = scope.id;
      heap.make_pending(first);
      has_merged = true;
    }
    i = last;
  }
  return has_merged;
}

}  // namespace

Block* AllocatorState::take_captured(const Request& request, Heap& heap) {
  CaptureScope& scope = *request.capture;
  const std::lock_guard scope_lock(scope.mutex);
  advance(scope, request.slot, request.info);
  const std::lock_guard lock(heap.lock);
  if (Block* block = heap.take(request.size)) return block;
  // What is launched next may start before the launch before it has ended: nothing that was used is proved over.
  if ((request.slot.hazards() & device::StreamSlot::kOverlapping) != 0) return nullptr;
  const auto find = [&] {
    return heap.pending.find_if(request.size, kMostProofs, [&](const Block& block) {
      if (TESSERA_MUTANT("memory.capture_reuse_unproved")) return true;
      return is_provable(scope, block) && scope.order->proves(request.slot.id(), block.extra->marks);
    });
  };
  Block* block = find();
  if (block == nullptr && consolidate(*this, scope, heap, request.slot.id())) block = find();
  if (block == nullptr) return nullptr;
  heap.take_pending(*block, request.size);
  hand_on_uses(heap, *block);
  settle(*this, heap, *block);
  counters.capture_reuses.fetch_add(1, std::memory_order_relaxed);
  return block;
}

namespace {

// Every stream that used the block, and whether each could be marked in the capture.
void mark_uses(AllocatorState& state, CaptureScope& scope, Block& block, detail::BlockExtra& extra) {
  const auto mark = [&](const device::StreamSlot& slot) {
    const device::Stream stream = state.device.stream(slot.id());
    const device::CaptureInfo info = stream ? stream.capture_info() : device::CaptureInfo{};
    if (info.id != scope.id) {
      extra.is_barred = true;
      return;
    }
    advance(scope, slot, info);
    if (!TESSERA_MUTANT("memory.capture_uses_unmarked") || &slot == block.slot)
      scope.order->mark(slot.id(), extra.marks, block.graph == scope.graph ? block.moment : 0);
  };
  mark(*block.slot);
  for (const Use& use : extra.uses) mark(*use.slot);
}

// The capture under way in which the block was handed out, or that said it uses it; null: none.
CaptureScope* scope_of(AllocatorState& state, const Block& block) {
  const auto scope_on = [&](const device::StreamSlot& slot) -> CaptureScope* {
    if ((slot.hazards() & (device::StreamSlot::kCapturing | device::StreamSlot::kForeign)) == 0) return nullptr;
    const device::Stream stream = state.device.stream(slot.id());
    return stream ? detail::find_scope(state.device_key, stream.capture_info().id) : nullptr;
  };
  if (CaptureScope* scope = scope_on(*block.slot)) return scope;
  if (block.extra == nullptr) return nullptr;
  for (const Use& use : block.extra->uses) {
    if (CaptureScope* scope = scope_on(*use.slot)) return scope;
  }
  return nullptr;
}

}  // namespace

// A block of a capture heap is given back: inside a capture with marks; outside when its eager uses, and the replays
// that may have written it, have completed.
void AllocatorState::free_captured(Block* block) noexcept {
  Heap& heap = *block->heap;
  CaptureScope* scope = scope_of(*this, *block);
  detail::BlockExtra& extra = block->more();
  if (scope != nullptr && extra.keepers.empty() && detail::has_part(*scope, heap.pool)) {
    const std::lock_guard scope_lock(scope->mutex);
    extra.capture = scope->id;
    try {
      mark_uses(*this, *scope, *block, extra);
    } catch (...) {  // the driver gave no answer: the block waits for the end of the capture
      extra.is_barred = true;
    }
    if (block->graph == scope->graph) {
      extra.uses.clear();  // nothing ran: only the graph will
    } else {
      extra.uses.push_back({block->slot, device.stream(block->slot->id()), {}, {}});
      for (Use& use : extra.uses) {
        if (use.slot == scope->before.slot) {
          use = scope->before;  // it captures: whatever ran did so before
        } else {
          stamp(use);
        }
      }
    }
    const std::lock_guard lock(heap.lock);
    heap.end_live(*block);
    note_block_freed(heap, *block, true);
    heap.make_pending(*block);
    return;
  }
  std::vector<Use> uses = std::move(extra.uses);
  uses.push_back({block->slot, device.stream(block->slot->id()), {}, {}});
  for (Use& use : uses) stamp(use);
  if (detail::keep_for_graphs(*this, *block, uses)) return;
  std::erase_if(uses, is_done);
  free_with(block, std::move(uses));
}

void AllocatorState::end_deferral(PoolState& pool, CaptureId capture) {
  Heap* heap = pool.capture_heap.load();
  if (heap == nullptr) return;
  std::vector<Block*> deferred;
  const std::lock_guard lock(heap->lock);
  heap->pending.find_if(kAlignment, 1 << 30, [&](Block& block) {
    if (block.extra != nullptr && block.extra->capture == capture) deferred.push_back(&block);
    return false;
  });
  for (Block* block : deferred) {
    heap->end_pending(*block);
    block->extra->capture = {};
    block->extra->is_barred = false;
    block->extra->marks.clear();
    if (is_completed(*heap, *block) || block->extra->uses.empty()) {
      settle(*this, *heap, *block);
      heap->make_ready(*block);
    } else {
      heap->make_pending(*block);
    }
  }
}

void AllocatorState::finish_kept(Block* block, const detail::SlotTicks& replays) noexcept {
  Heap& heap = *block->heap;
  bool is_closed = false;
  bool is_retired = false;
  {
    const std::lock_guard lock(heap.lock);
    detail::BlockExtra& extra = block->more();
    for (const auto& [slot, tick] : replays) extra.uses.push_back({slot, {}, tick, {}});
    if (--extra.holds > 0) return;
    forbid(*block);
    extra.keepers.clear();
    if (extra.uses.empty()) {
      settle(*this, heap, *block);
      heap.make_ready(*block);
    } else {
      heap.make_pending(*block);
    }
    --kept;
    is_closed = heap.pool.is_closed.load();
    is_retired = (special.load() & kRetired) != 0;
  }
  block_is_back(is_closed, is_retired);
}

namespace detail {

PoolState& pool_of(CaptureScope& scope) { return *scope.pool.state(); }

Heap& capture_heap_of(PoolState& pool) {
  if (Heap* known = pool.capture_heap.load(std::memory_order_acquire)) return *known;
  const std::lock_guard lock(pool.allocator.slow_mutex);
  if (Heap* known = pool.capture_heap.load()) return *known;
  pool.heaps.push_back(std::make_unique<Heap>(pool, nullptr));
  pool.heaps.back()->least_remainder = pool.allocator.policy.least_remainder_nbytes;
  pool.capture_heap.store(pool.heaps.back().get(), std::memory_order_release);
  return *pool.heaps.back();
}

bool has_part(CaptureScope& scope, const PoolState& pool) {
  const std::lock_guard lock(scope.mutex);
  return std::any_of(scope.parts.begin(), scope.parts.end(),
                     [&](const GraphPart& part) { return part.pool.state().get() == &pool; });
}

void add_part(CaptureScope& scope, const Pool& pool) {
  if (has_part(scope, *pool.state())) return;
  const std::lock_guard lock(scope.mutex);
  scope.parts.push_back({pool, {}});
  pool.state()->graphs.fetch_add(1);
}

void note_captured_alloc(CaptureScope& scope, Block& block) {
  const std::lock_guard lock(scope.mutex);
  block.graph = scope.graph;
  block.moment = scope.order->now();
  const auto begin = reinterpret_cast<std::uintptr_t>(block.address);
  scope.writes.push_back({{begin, begin + block.size}, &block.heap->pool});
}

bool note_captured_use(AllocatorState& state, Block& block, const device::Stream& stream) {
  const CaptureId id = stream.capture_info().id;
  if (id == CaptureId{}) return false;
  CaptureScope* scope = find_scope(state.device_key, id);
  TESSERA_CHECK(
      scope != nullptr, "use_on: ", stream.name(),
      " is in a capture that was not begun through memory::GraphCapture: nobody would keep the memory for the "
      "graph; begin the capture with GraphCapture");
  Heap& heap = *block.heap;
  if (heap.slot == nullptr && has_part(*scope, heap.pool)) {
    if (block.graph != scope->graph) {
      const std::lock_guard lock(scope->mutex);
      const auto begin = reinterpret_cast<std::uintptr_t>(block.address);
      scope->inputs.push_back({{begin, begin + block.size}, &heap.pool, block.graph});
    }
    return false;
  }
  const std::lock_guard lock(heap.lock);
  auto& keepers = block.more().keepers;
  if (std::find(keepers.begin(), keepers.end(), scope->keeper) == keepers.end()) keepers.push_back(scope->keeper);
  return true;
}

bool keep_for_graphs(AllocatorState& state, Block& block, std::vector<Use>& uses) {
  Heap& heap = *block.heap;
  std::vector<std::shared_ptr<GraphKeeper>> keepers;
  if (block.extra != nullptr) keepers = block.extra->keepers;
  if (!state.host_writes && (block.slot->hazards() & device::StreamSlot::kCapturing) != 0) {
    // Its own stream is capturing: what was captured since may use it without saying so.
    const device::Stream stream = state.device.stream(block.slot->id());
    CaptureScope* scope = stream ? find_scope(state.device_key, stream.capture_info().id) : nullptr;
    if (scope != nullptr && std::find(keepers.begin(), keepers.end(), scope->keeper) == keepers.end())
      keepers.push_back(scope->keeper);
  }
  if (keepers.empty()) return false;
  std::sort(keepers.begin(), keepers.end());  // so that their locks are always taken in the same order
  BlockExtra& extra = block.more();
  std::vector<std::unique_lock<std::mutex>> locks;
  std::size_t holds = 0;
  for (const auto& keeper : keepers) {
    locks.emplace_back(keeper->mutex);
    if (keeper->is_alive && !TESSERA_MUTANT("memory.graphs_keep_nothing")) {
      ++holds;
    } else {
      for (const auto& [slot, tick] : keeper->replays) uses.push_back({slot, {}, tick, {}});
    }
  }
  if (holds == 0) return false;
  const std::lock_guard lock(heap.lock);
  heap.end_live(block);
  if (!state.host_writes && heap.slot != nullptr) block.tick = heap.slot->upcoming();
  extra.uses = std::move(uses);
  extra.keepers = keepers;
  extra.holds = holds;
  ++state.kept;
  state.note_block_freed(heap, block, true);
  for (const auto& keeper : keepers) {
    if (keeper->is_alive) keeper->kept.push_back(&block);
  }
  return true;
}

bool are_replays_completed(PoolState& pool) {
  if (pool.graphs.load() > 0) return false;
  const std::lock_guard lock(pool.uses_mutex);
  std::erase_if(pool.past_uses, [](const PoolState::PastUse& past) { return is_done(past.use); });
  return pool.past_uses.empty() && std::all_of(pool.replay_streams.begin(), pool.replay_streams.end(),
                                               [](const auto& one) { return one.first->completed() >= one.second; });
}

}  // namespace detail
}  // namespace tessera::memory
