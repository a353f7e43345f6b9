// Frees blocks. A use by a stream is stamped here, at the free, so that it also covers work that other libraries
// launched on the stream since its last event.
#include <algorithm>

#include "tessera/base/log.h"
#include "tessera/memory/detail/allocator_state.h"
#include "tessera/memory/detail/capture_scope.h"

namespace tessera::memory {

using detail::Heap;
using detail::Use;

void Buffer::free(Block* block) noexcept {
  Heap& heap = *block->heap;
  AllocatorState& state = heap.pool.allocator;
  if (!state.owner.is_this()) [[unlikely]]
    return;  // a forked child: the block belongs to the parent
  if (block->extra == nullptr && block->slot == heap.slot && heap.slot->hazards() == 0) [[likely]] {
    const probe::Moment moment = state.history.now();
    const std::lock_guard lock(heap.lock);
    // Checked under the lock: retiring the allocator or closing the pool takes it too.
    if (state.special.load(std::memory_order_relaxed) == 0 && !heap.pool.is_closed.load(std::memory_order_relaxed))
        [[likely]] {
      heap.end_live(*block);
      block->tick = heap.slot->upcoming();
      state.note_block_freed(heap, *block, false, moment);
      heap.make_ready(*block);
      return;
    }
  }
  state.free_slow(block);
}

void AllocatorState::note_block_freed(Heap& heap, Block& block, bool is_pending, probe::Moment moment,
                                      std::uint32_t stack) {
  ++heap.frees;
  history.record_free(heap, block, is_pending, moment, stack);
}

void Buffer::use_on(const device::Stream& stream) const {
  TESSERA_CHECK(block_ != nullptr, "use_on: Buffer must not be empty; allocate it first");
  Heap& heap = *block_->heap;
  AllocatorState& state = heap.pool.allocator;
  state.owner.check("buffer");
  const device::StreamSlot& slot = stream.slot();
  TESSERA_CHECK(slot.device() == state.device_key, "use_on: the stream must be on ", state.device.name(), ", got ",
                stream.name(), " on ", stream.device().name());
  if ((slot.hazards() & (device::StreamSlot::kCapturing | device::StreamSlot::kForeign)) != 0) {
    if (detail::note_captured_use(state, *block_, stream)) return;
  }
  if (&slot == block_->slot && !state.host_writes) return;
  const std::lock_guard lock(heap.lock);
  auto& uses = heap.extra(*block_).uses;
  if (std::any_of(uses.begin(), uses.end(), [&](const Use& use) { return use.slot == &slot; })) return;
  // In a capture nothing is recorded at the free, and a block of a capture finds its streams again if freed outside.
  uses.push_back({&slot, heap.slot == nullptr ? device::Stream() : stream, {}, {}});
}

// Takes the tick of all work of the stream so far and, if a wait may be needed, an event.
void AllocatorState::stamp(Use& use) noexcept {
  const device::Stream stream = std::move(use.stream);
  use.stream.reset();
  use.tick = use.slot->upcoming();
  constexpr std::uint32_t kNoEvents = device::StreamSlot::kCapturing | device::StreamSlot::kForeign;
  if (!stream || ((use.slot->hazards() & kNoEvents) != 0 && stream.is_capturing())) return;
  try {
    if (host_writes) {
      use.tick = stream.publish();
      return;
    }
    // An event after work that may hold or spin is never waited for.
    if (policy.cross_stream != CrossStream::kWait || stream.may_spin()) return;
    device::Event event = spare_events.take(device);
    stream.record(event);
    use.tick = event.point().second;
    use.event = std::move(event);
    counters.events_recorded.fetch_add(1, std::memory_order_relaxed);
  } catch (const std::exception& error) {
    // The tick that was read stays: the block waits for a clock or for completion instead.
    log::warn("freeing memory of ", name, ": ", stream.name(), " could not record an event (", error.what(),
              "); the block is reused later");
  }
}

void AllocatorState::free_slow(Block* block) noexcept {
  Heap& heap = *block->heap;
  if (heap.slot == nullptr) {
    free_captured(block);
    return;
  }
  std::vector<Use> uses;
  if (block->extra != nullptr) uses = std::move(block->extra->uses);
  if (block->slot != heap.slot && !host_writes) uses.push_back({block->slot, device.stream(block->slot->id()), {}, {}});
  for (Use& use : uses) stamp(use);
  if (detail::keep_for_graphs(*this, *block, uses)) return;
  free_with(block, std::move(uses));
}

// On a checked device, accesses to the block are errors from now on. Graphs keep using memory of their captures.
void AllocatorState::forbid(const Block& block) noexcept {
  if ((special.load() & kChecked) == 0 || block.heap->slot == nullptr) return;
  try {
    device.note_freed(block.address, block.size, "the allocator, at free");
  } catch (...) {  // NOLINT(bugprone-empty-catch): then it is not checked
  }
}

// Last step of a free: the block becomes ready, or pending until its uses are over.
void AllocatorState::free_with(Block* block, std::vector<Use> uses) noexcept {
  Heap& heap = *block->heap;
  const std::uint32_t stack = history.stack();
  bool is_retired = false;
  forbid(*block);
  std::unique_lock<std::mutex> slow = hold_closed(heap.pool);
  {
    const std::lock_guard lock(heap.lock);
    heap.end_live(*block);
    // The stream of the heap has not used a lent block since it was lent.
    if (block->slot == heap.slot && !host_writes) block->tick = heap.slot->upcoming();
    const bool is_pending = !uses.empty();
    note_block_freed(heap, *block, is_pending, history.now(), stack);
    if (is_pending) {
      heap.extra(*block).uses = std::move(uses);
      block->extra->keepers.clear();
      heap.make_pending(*block);
    } else {
      heap.drop_extra(*block);
      heap.make_ready(*block);
    }
    is_retired = (special.load() & kRetired) != 0;
  }
  block_is_back(slow, is_retired);
}

// The block keeps a closed pool and the allocator alive: until it is freed, no other thread may destroy either.
std::unique_lock<std::mutex> AllocatorState::hold_closed(const PoolState& pool) noexcept {
  return pool.is_closed.load() ? std::unique_lock(slow_mutex) : std::unique_lock<std::mutex>();
}

// Called after a free, without heap locks; the pool and, after this call, the allocator may be gone.
void AllocatorState::block_is_back(std::unique_lock<std::mutex>& slow, bool is_retired) noexcept {
  if (slow.owns_lock()) {
    pools.remove_closed();
    slow.unlock();
  }
  if (is_retired && retired_live.fetch_sub(1) == 1) end();
}

}  // namespace tessera::memory
