// Memory inside a capture. All captures into a pool share one heap, for any streams: the prover decides on reuse, not
// the stream. Blocks freed in the capture are pending with the nodes that must complete. Blocks that nothing in this
// capture has used are ready for any stream.
#include <algorithm>

#include "tessera/base/error.h"
#include "tessera/memory/detail/capture_scope.h"

namespace tessera::memory {

using detail::AllocationRequest;
using detail::CaptureMoment;
using detail::CaptureScope;
using detail::GraphKeeper;
using detail::Heap;
using detail::Phase;
using detail::StreamInCapture;
using detail::Use;

namespace {

// Maximum number of pending blocks to try.
constexpr int kMaxProofs = 256;

// Returns the stream of a slot in the capture; null if it is gone. The lock of the scope is held.
StreamInCapture* find_stream(AllocatorState& state, CaptureScope& scope, const device::StreamSlot& slot) {
  for (StreamInCapture& known : scope.streams) {
    if (known.slot == &slot) return &known;
  }
  const device::Stream stream = state.device.stream(slot.id());
  return stream ? &scope.streams.emplace_back(stream) : nullptr;
}

// Updates the prover for a stream; false if it is not in this capture. Captures by other libraries are not counted, so
// the driver is queried unless it keeps count itself. The lock of the scope is held.
bool follow(CaptureScope& scope, StreamInCapture& at) {
  const std::uint64_t now = at.changes != nullptr ? at.changes->load(std::memory_order_acquire) + 1 : 0;
  if (now != 0 && now == at.told) return true;
  const device::CaptureInfo info = at.stream.capture_info();
  if (info.id != scope.id) return false;
  if (info.dropped.size() > at.dropped) [[unlikely]] {
    scope.order->replaced(at.slot->id(), std::span(info.dropped).subspan(at.dropped));
    at.dropped = info.dropped.size();
  }
  scope.order->advance(at.slot->id(), info.dependencies);
  at.told = now;
  return true;
}

// Returns true if a proof can release a pending block. Uses from outside the capture are no obstacle if a replay can
// wait for them.
bool is_provable(const CaptureScope& scope, const Block& block) {
  if (block.extra == nullptr || block.extra->is_barred) return false;
  if (block.extra->capture != scope.id && block.extra->capture != CaptureId{}) return false;
  return std::all_of(block.extra->uses.begin(), block.extra->uses.end(),
                     [](const Use& use) { return static_cast<bool>(use.event) || use.is_done(); });
}

// Moves the uses of a taken or merged block to the pool: any later user of these bytes, in this capture or another one,
// comes after them.
void hand_on_uses(Heap& heap, const Block& block) {
  if (block.extra->uses.empty()) return;
  const auto begin = reinterpret_cast<std::uintptr_t>(block.address);
  const std::lock_guard lock(heap.pool.uses_mutex);
  std::erase_if(heap.pool.past_uses, [](const PoolState::PastUse& past) { return past.use.is_done(); });
  for (const Use& use : block.extra->uses) {
    if (!use.is_done()) heap.pool.past_uses.push_back({{begin, begin + block.size}, use});
  }
}

// Returns a block for the request that is proven free, or that this capture has not used; the heap lock is held.
Block* find_captured(AllocatorState& state, const AllocationRequest& request, Heap& heap) {
  CaptureScope& scope = *request.capture;
  // The next launch may start before the previous one has ended: no used block is proven free.
  if ((request.slot.hazards() & device::StreamSlot::kOverlapping) != 0) return heap.take(request.size);
  const auto is_over = [&](const Block& block) {
    if (block.phase == Phase::kReady) return true;
    return is_provable(scope, block) && scope.order->proves(request.slot.id(), block.extra->marks);
  };
  detail::BlockRun run;
  const detail::Space& space = heap.spaces[Heap::is_large(request.size)];
  Block* const used = space.pending.find_if(request.size, kMaxProofs, is_over);
  const bool is_exact = used != nullptr && used->size == request.size;
  const Block* const unused = is_exact ? nullptr : space.ready.find(request.size);
  if (unused != nullptr && (used == nullptr || unused->size < used->size)) return heap.take(request.size);
  if (used != nullptr) {
    run = {used, used, used->size, 0};
  } else if (heap.sums.mapped - heap.sums.used >= request.size) {
    run = heap.find_run(space, request.size, [&](const Block& block) { return is_over(block) ? 0 : -1; });
  }
  if (run.first == nullptr) return nullptr;
  Block* block = heap.take_run(run, request.size, [&](Block& pending) {
    hand_on_uses(heap, pending);
    state.reuse.settle(heap, pending, request.moment);
  });
  state.counters.capture_reuses.fetch_add(1, std::memory_order_relaxed);
  return block;
}

// Records an allocation in the capture; the lock of the scope is held.
void note_handed_out(CaptureScope& scope, Block& block) {
  block.graph = scope.graph;
  block.moment = scope.order->now();
  const auto begin = reinterpret_cast<std::uintptr_t>(block.address);
  scope.writes.push_back({{begin, begin + block.size}, &block.heap->pool});
}

}  // namespace

Block* AllocatorState::take_captured(const AllocationRequest& request, Heap& heap) {
  CaptureScope& scope = *request.capture;
  const std::lock_guard scope_lock(scope.mutex);
  StreamInCapture* const stream = find_stream(*this, scope, request.slot);
  TESSERA_CHECK(stream != nullptr && follow(scope, *stream), "allocate: capture '", scope.name, "' of ",
                request.stream.name(), " must be ended by its GraphCapture, got one ended elsewhere");
  Block* block = nullptr;
  {
    const std::lock_guard lock(heap.lock);
    block = find_captured(*this, request, heap);
  }
  if (block != nullptr) note_handed_out(scope, *block);
  return block;
}

namespace {

// Adds marks of every stream that used the block; false, and no proof, if one of them is not in the capture.
bool mark_uses(AllocatorState& state, CaptureScope& scope, const Block& block, detail::Marks& marks) {
  const CaptureMoment since = block.graph == scope.graph ? block.moment : 0;
  const auto mark = [&](const device::StreamSlot& slot) {
    StreamInCapture* const stream = find_stream(state, scope, slot);
    if (stream == nullptr || !follow(scope, *stream)) return false;
    scope.order->mark(slot.id(), marks, since);
    return true;
  };
  if (!mark(*block.slot)) return false;
  if (block.extra == nullptr) return true;
  return std::all_of(block.extra->uses.begin(), block.extra->uses.end(),
                     [&](const Use& use) { return mark(*use.slot); });
}

// Returns the capture in progress that allocated the block, or declared a use of it; null if none.
CaptureScope* scope_of(AllocatorState& state, const Block& block) {
  // Nearly always the capture of this thread.
  for (const detail::ThreadScope* scope = detail::innermost_scope; scope != nullptr; scope = scope->outer) {
    if (scope->capture != nullptr && scope->allocator == &state && scope->capture->graph == block.graph)
      return scope->capture;
  }
  const auto scope_on = [&](const device::StreamSlot& slot) {
    return detail::find_scope(state.device_key, slot.capture());
  };
  if (CaptureScope* scope = scope_on(*block.slot)) return scope;
  if (block.extra == nullptr) return nullptr;
  for (const Use& use : block.extra->uses) {
    if (CaptureScope* scope = scope_on(*use.slot)) return scope;
  }
  return nullptr;
}

// Returns the uses of a block of a capture heap, including its own stream, ready to be stamped.
std::vector<Use> uses_outside(AllocatorState& state, Block& block) {
  std::vector<Use> uses;
  if (block.extra != nullptr) uses = std::move(block.extra->uses);
  uses.push_back({block.slot, {}, {}, {}});
  for (Use& use : uses) use.stream = state.device.stream(use.slot->id());
  return uses;
}

// Returns the uses of a block outside of its capture, ready to be stamped. Operations of the capture itself did not
// run; only the graph will run them.
std::vector<Use> uses_of_others(AllocatorState& state, const CaptureScope& scope, Block& block) {
  std::vector<Use> uses;
  if (block.extra == nullptr) return uses;
  for (Use& use : block.extra->uses) {
    if (use.slot->capture() != scope.id) uses.push_back({use.slot, state.device.stream(use.slot->id()), {}, {}});
  }
  return uses;
}

}  // namespace

// Frees a block of a capture heap in a capture: it waits with marks. Work that ran on it outside is a past use.
void AllocatorState::free_in_capture(CaptureScope& scope, Block& block) noexcept {
  Heap& heap = *block.heap;
  const probe::Moment moment = history.now();
  const std::uint32_t stack = history.stack();
  const std::lock_guard scope_lock(scope.mutex);
  detail::Marks marks;
  bool is_marked = false;
  try {
    is_marked = mark_uses(*this, scope, block, marks);
  } catch (...) {  // NOLINT(bugprone-empty-catch): no answer from the driver: the block waits for the capture's end
  }
  std::vector<Use> uses;
  if (block.graph != scope.graph) {
    uses = uses_outside(*this, block);
  } else {
    // If another graph reads it, this one must not overwrite it, and a capture in progress that has used it does not
    // receive it before its end.
    is_marked = is_marked && (block.extra == nullptr || !block.extra->is_input);
    if (!is_marked) uses = uses_of_others(*this, scope, block);
  }
  for (Use& use : uses) {
    if (use.slot == scope.before.slot) {
      use = scope.before;  // it is capturing: all executed work came before
    } else {
      stamp(use);
    }
  }
  const std::lock_guard lock(heap.lock);
  detail::BlockExtra& extra = heap.extra(block);
  if (uses.empty()) {
    extra.uses.clear();
  } else {
    extra.uses = std::move(uses);
  }
  extra.capture = scope.id;
  extra.is_barred = !is_marked;
  extra.marks = std::move(marks);
  heap.end_live(block);
  note_block_freed(heap, block, true, moment, stack);
  heap.make_pending(block);
}

// Frees a block of a capture heap: inside a capture with marks; outside when its eager uses, and the replays that may
// have written it, have completed.
void AllocatorState::free_captured(Block* block) noexcept {
  CaptureScope* scope = scope_of(*this, *block);
  const bool is_kept = block->extra != nullptr && !block->extra->keepers.empty();
  if (scope != nullptr && !is_kept && detail::has_part(*scope, block->heap->pool)) {
    free_in_capture(*scope, *block);
    return;
  }
  std::vector<Use> uses = uses_outside(*this, *block);
  std::erase_if(uses, [&](const Use& use) { return detail::is_idle(device, use); });
  for (Use& use : uses) stamp(use);
  if (detail::keep_for_graphs(*this, *block, uses)) return;
  std::erase_if(uses, [](const Use& use) { return use.is_done(); });
  free_with(block, std::move(uses));
}

void AllocatorState::end_deferral(PoolState& pool, CaptureId capture) {
  Heap* heap = pool.capture_heap.load();
  if (heap == nullptr) return;
  std::vector<Block*> deferred;
  const std::lock_guard lock(heap->lock);
  heap->each_pending([&](Block& block) {
    if (block.extra != nullptr && block.extra->capture == capture) deferred.push_back(&block);
  });
  for (Block* block : deferred) {
    heap->end_pending(*block);
    block->extra->capture = {};
    block->extra->is_barred = false;
    block->extra->marks.clear();
    if (reuse.is_completed(*heap, *block) || block->extra->uses.empty()) {
      reuse.settle(*heap, *block, history.now());
      heap->make_ready(*block);
    } else {
      heap->make_pending(*block);
    }
  }
}

void AllocatorState::finish_kept(Block* block, const detail::SlotTicks& replays) noexcept {
  Heap& heap = *block->heap;
  bool is_retired = false;
  std::unique_lock<std::mutex> slow = hold_closed(heap.pool);
  {
    const std::lock_guard lock(heap.lock);
    detail::BlockExtra& extra = heap.extra(*block);
    for (const auto& [slot, tick] : replays) extra.uses.push_back({slot, {}, tick, {}});
    if (--extra.holds > 0) return;
    forbid(*block);
    extra.keepers.clear();
    if (extra.uses.empty()) {
      reuse.settle(heap, *block, history.now());
      heap.make_ready(*block);
    } else {
      heap.make_pending(*block);
    }
    --kept;
    is_retired = (special.load() & kRetired) != 0;
  }
  block_is_back(slow, is_retired);
}

namespace detail {

// Returns true if all work on the stream so far is over. Queried once for a block of a graph: an event, the
// alternative, would itself be unfinished work.
bool is_idle(const device::Device& device, const Use& use) {
  try {
    const Tick now = use.slot->upcoming();
    return device.poll(use.slot->id()) >= now;
  } catch (const std::exception&) {
    return false;
  }
}

PoolState& pool_of(CaptureScope& scope) { return *scope.pool.state(); }

Heap& capture_heap_of(PoolState& pool) {
  if (Heap* known = pool.capture_heap.load(std::memory_order_acquire)) return *known;
  const std::lock_guard lock(pool.allocator.slow_mutex);
  if (Heap* known = pool.capture_heap.load()) return *known;
  Heap& heap = pool.allocator.pools.add_heap(pool, nullptr);
  pool.capture_heap.store(&heap, std::memory_order_release);
  return heap;
}

namespace {

bool is_listed(CaptureScope& scope, const PoolState& pool) {
  const std::lock_guard lock(scope.mutex);
  return std::any_of(scope.parts.begin(), scope.parts.end(),
                     [&](const GraphPart& part) { return part.pool.state().get() == &pool; });
}

}  // namespace

bool has_part(CaptureScope& scope, const PoolState& pool) {
  return &pool == scope.pool.state().get() || is_listed(scope, pool);
}

void add_part(CaptureScope& scope, const Pool& pool) {
  if (!has_part(scope, *pool.state())) make_part(scope, pool);
}

void make_part(CaptureScope& scope, const Pool& pool) {
  PoolState& state = *pool.state();
  // A replay holds this lock during its launch: do not wait for it under the lock of the scope, which spins.
  const std::lock_guard replay_lock(state.replay_mutex);
  if (is_listed(scope, state)) return;  // another thread was faster
  const GraphKey key = state.replays.announce(scope.name);
  state.graph_keys[scope.graph] = key;
  state.graphs.fetch_add(1);
  const std::lock_guard lock(scope.mutex);
  scope.parts.push_back({pool, key});
}

void note_captured_alloc(CaptureScope& scope, Block& block) {
  const std::lock_guard lock(scope.mutex);
  note_handed_out(scope, block);
}

bool note_captured_use(AllocatorState& state, Block& block, const device::Stream& stream) {
  const CaptureId id = capture_of(stream);
  if (id == CaptureId{}) return false;
  CaptureScope* scope = find_scope(state.device_key, id);
  TESSERA_CHECK(scope != nullptr, "use_on: the capture of ", stream.name(),
                " must be started by a memory::GraphCapture, which keeps the memory for the graph");
  Heap& heap = *block.heap;
  if (heap.slot == nullptr && has_part(*scope, heap.pool)) {
    if (block.graph != scope->graph) {
      const std::lock_guard lock(scope->mutex);
      const auto begin = reinterpret_cast<std::uintptr_t>(block.address);
      scope->inputs.push_back({{begin, begin + block.size}, &heap.pool, block.graph});
      const std::lock_guard heap_lock(heap.lock);
      heap.extra(block).is_input = true;
    }
    return false;
  }
  const std::lock_guard lock(heap.lock);
  auto& keepers = heap.extra(block).keepers;
  if (std::find(keepers.begin(), keepers.end(), scope->keeper) == keepers.end()) keepers.push_back(scope->keeper);
  return true;
}

bool keep_for_graphs(AllocatorState& state, Block& block, std::vector<Use>& uses) {
  Heap& heap = *block.heap;
  std::vector<std::shared_ptr<GraphKeeper>> keepers;
  if (block.extra != nullptr) keepers = block.extra->keepers;
  if (!state.host_writes && (block.slot->hazards() & device::StreamSlot::kCapturing) != 0) {
    // Its own stream is capturing: later captured work may use it without a declaration.
    CaptureScope* scope = find_scope(state.device_key, block.slot->capture());
    if (scope != nullptr && std::find(keepers.begin(), keepers.end(), scope->keeper) == keepers.end())
      keepers.push_back(scope->keeper);
  }
  if (keepers.empty()) return false;
  std::sort(keepers.begin(), keepers.end());  // so that their locks are always taken in the same order
  std::vector<std::unique_lock<std::mutex>> locks;
  std::size_t holds = 0;
  for (const auto& keeper : keepers) {
    locks.emplace_back(keeper->mutex);
    if (keeper->is_alive) {
      ++holds;
    } else {
      for (const auto& [slot, tick] : keeper->replays) uses.push_back({slot, {}, tick, {}});
    }
  }
  if (holds == 0) return false;
  const std::lock_guard lock(heap.lock);
  heap.end_live(block);
  if (!state.host_writes && heap.slot != nullptr) block.tick = heap.slot->upcoming();
  BlockExtra& extra = heap.extra(block);
  extra.uses = std::move(uses);
  extra.keepers = keepers;
  extra.holds = holds;
  ++state.kept;
  state.note_block_freed(heap, block, true, state.history.now(), state.history.stack());
  for (const auto& keeper : keepers) {
    if (keeper->is_alive) keeper->kept.push_back(&block);
  }
  return true;
}

bool are_replays_completed(PoolState& pool) {
  if (pool.graphs.load() > 0) return false;
  const std::lock_guard lock(pool.uses_mutex);
  std::erase_if(pool.past_uses, [](const PoolState::PastUse& past) { return past.use.is_done(); });
  return pool.past_uses.empty() && std::all_of(pool.replay_streams.begin(), pool.replay_streams.end(),
                                               [](const auto& one) { return one.first->completed() >= one.second; });
}

}  // namespace detail
}  // namespace tessera::memory
