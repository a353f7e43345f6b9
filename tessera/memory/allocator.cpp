#include "tessera/memory/allocator.h"

#include <algorithm>
#include <bit>

#include "tessera/base/bytes.h"
#include "tessera/base/env.h"
#include "tessera/base/error.h"
#include "tessera/memory/detail/allocator_state.h"
#include "tessera/memory/detail/capture_scope.h"
#include "tessera/memory/device_upstream.h"

namespace tessera::memory {

using detail::AllocationRequest;
using detail::Heap;

namespace detail {
constinit thread_local ThreadScope* innermost_scope = nullptr;
}

namespace {

AllocatorState& state_of(const Allocator& allocator) {
  TESSERA_CHECK(allocator.state() != nullptr,
                "Allocator: handle must not be empty; get one with Allocator::of(device)");
  allocator.state()->owner.check("allocator");
  return *allocator.state();
}

}  // namespace

Buffer Allocator::allocate(std::size_t nbytes, const device::Stream& stream) const {
  AllocatorState& state = state_of(*this);
  const device::StreamSlot& slot = stream.slot();
  if (detail::innermost_scope == nullptr && slot.hazards() == 0 && slot.device() == state.device_key &&
      nbytes - 1 < kMaxNbytes) [[likely]] {
    Heap* heap = state.default_pool->by_stream.find(slot.id());
    if (heap != nullptr) [[likely]] {
      const probe::Moment moment = state.history.now();
      const std::size_t size = state.round(nbytes);
      bool is_time_to_look = false;
      Block* block = nullptr;
      {
        const std::lock_guard lock(heap->lock);
        if (state.special.load(std::memory_order_relaxed) == 0 && state.live_peak.covers(*heap, nbytes)) [[likely]]
          block = heap->take(size);
        if (block != nullptr) [[likely]] {
          state.finish(*heap, *block, nbytes, slot, moment);
          is_time_to_look = state.history.is_time_to_look(heap->allocations);
        }
      }
      if (is_time_to_look) [[unlikely]]
        state.history.write_keyframes_if_due();
      if (block != nullptr) [[likely]]
        return Buffer(block);
    }
  }
  return state.allocate_slow(nbytes, stream);
}

void AllocatorState::finish(Heap& heap, Block& block, std::size_t nbytes, const device::StreamSlot& slot,
                            probe::Moment moment, std::uint32_t stack) {
  heap.make_live(block, nbytes);
  block.stack = stack;
  block.slot = &slot;
  block.label = detail::current_label;
  ++heap.allocations;
  heap.peak_live = std::max(heap.peak_live, heap.sums.live);
  history.record_alloc(heap, block, moment);
}

std::size_t AllocatorState::round(std::size_t nbytes) const {
  const std::size_t size = (nbytes + kAlignment - 1) & ~(kAlignment - 1);
  if (policy.roundup_divisions == 0 || size <= kAlignment * policy.roundup_divisions) [[likely]]
    return size;
  const std::size_t below = std::bit_floor(size);
  if (below == size) return size;
  const std::size_t step = std::max(below / policy.roundup_divisions, kAlignment);
  return (size + step - 1) / step * step;
}

AllocationRequest AllocatorState::request_for(std::size_t nbytes, const device::Stream& stream) {
  const device::StreamSlot& slot = stream.slot();
  TESSERA_CHECK(slot.device() == device_key, "allocate: the stream must be on ", device.name(), ", got ", stream.name(),
                " on ", stream.device().name(), "; use Allocator::of(stream.device())");
  TESSERA_CHECK_AS(OutOfMemory, nbytes <= kMaxNbytes, "allocate: nbytes must be at most ", format_bytes(kMaxNbytes),
                   ", got ", nbytes, "; check for a negative size");
  AllocationRequest request{
      .nbytes = nbytes, .size = round(nbytes), .stream = stream, .slot = slot, .moment = history.now()};
  if (!host_writes) {
    if (const CaptureId id = detail::capture_of(stream); id != CaptureId{}) {
      request.capture = detail::find_scope(device_key, id);
      TESSERA_CHECK(request.capture != nullptr && request.capture->allocator == this, "allocate: the capture of ",
                    stream.name(),
                    " must be started by a memory::GraphCapture of this allocator, "
                    "which keeps the memory for the graph");
    }
  }
  for (detail::ThreadScope* scope = detail::innermost_scope; scope != nullptr; scope = scope->outer) {
    if (scope->allocator != this) continue;
    if (scope->capture != nullptr && scope->capture != request.capture) continue;
    request.pool = scope->pool->state().get();
    if (request.capture != nullptr) detail::add_part(*request.capture, *scope->pool);
    return request;
  }
  request.pool = request.capture != nullptr ? &detail::pool_of(*request.capture) : default_pool;
  return request;
}

Buffer AllocatorState::allocate_slow(std::size_t nbytes, const device::Stream& stream) {
  if (nbytes == 0) return {};
  const AllocationRequest request = request_for(nbytes, stream);
  Block* block = nullptr;
  Heap* heap = nullptr;
  probe::Moment moment = request.moment;
  if (request.capture != nullptr) {
    heap = &detail::capture_heap_of(*request.pool);
    block = take_captured(request, *heap);
  } else {
    heap = &pools.heap_for(*request.pool, request.slot);
    block = reuse.take_ready(request, *heap);
  }
  if (block == nullptr) {
    block = take_or_grow(request, *heap);
    moment = history.now();
    if (request.capture != nullptr) detail::note_captured_alloc(*request.capture, *block);
  }
  bool is_time_to_look = false;
  {
    const std::uint32_t stack = history.stack();
    std::unique_lock lock(block->heap->lock);
    while (!live_peak.covers(*block->heap, nbytes)) {
      lock.unlock();
      live_peak.count(*block->heap, nbytes);
      lock.lock();
    }
    finish(*block->heap, *block, nbytes, request.slot, moment, stack);
    is_time_to_look = history.is_time_to_look(block->heap->allocations);
  }
  if ((special.load() & kChecked) != 0) device.note_allocated(block->address, block->size);
  if (is_time_to_look) history.write_keyframes_if_due();
  return Buffer(block);
}

AllocatorState::AllocatorState(const device::Device& of, AllocatorOptions options)
    : device(of), policy(options.policy), upstream(std::move(options.upstream)), host_writes(options.host_writes) {
  policy.check();
  device_key = device.state().get();
  if (upstream == nullptr) upstream = device_upstream(device);
  capacity = upstream->capacity_nbytes();
  name = options.name.empty() ? upstream->name() : options.name;
  reserved.set_limit(policy.limit_nbytes);
  std::uint32_t flags = host_writes ? kHostWrites : 0U;
  if (device.is_checked() && !host_writes) flags |= kChecked;
  special = flags;
}

AllocatorState::~AllocatorState() {
  history.close();
  for (const auto& pool : pools) {
    for (const auto& heap : pool->heaps) backing.free_segments(*heap);
  }
}

namespace {

// The deleter of the handle: blocks may outlive it.
std::shared_ptr<AllocatorState> make_state(const device::Device& device, AllocatorOptions options) {
  TESSERA_CHECK(static_cast<bool>(device), "Allocator: device must not be empty; get one with Device::get");
  AllocatorState::end_waiting();
  std::shared_ptr<AllocatorState> state(new AllocatorState(device, std::move(options)), [](AllocatorState* last) {
    if (last->owner.is_this()) last->retire();
  });
  const std::lock_guard lock(state->slow_mutex);
  state->history.open(*state);
  state->default_pool = &state->pools.add({.name = "default"}, {});
  return state;
}

// The allocators of one rank, by device.
struct RankAllocators {
  std::mutex mutex;
  std::map<const device::DeviceState*, Allocator> device;
  std::map<const device::DeviceState*, Allocator> pinned;
};

RankAllocators& rank_allocators() {
  probe::recorder();  // created first, so that it is destroyed last
  return current_rank()->part<RankAllocators>([] { return std::make_shared<RankAllocators>(); });
}

}  // namespace

Allocator::Allocator(const device::Device& device, AllocatorOptions options)
    : state_(make_state(device, std::move(options))) {}

Allocator Allocator::of(const device::Device& device) {
  RankAllocators& all = rank_allocators();
  const std::lock_guard lock(all.mutex);
  Allocator& one = all.device[device.state().get()];
  if (!one) one = Allocator(device, {.policy = Policy::parse(env::memory_policy())});
  return one;
}

Allocator Allocator::pinned_of(const device::Device& device) {
  RankAllocators& all = rank_allocators();
  const std::lock_guard lock(all.mutex);
  Allocator& one = all.pinned[device.state().get()];
  if (!one) one = Allocator(device, {.upstream = pinned_upstream(device), .host_writes = true});
  return one;
}

void AllocatorState::retire() noexcept {
  {
    const std::lock_guard slow(slow_mutex);
    const auto heaps = pools.heaps();
    const auto gate = live_peak.gate();
    for (Heap* heap : heaps) heap->lock.lock();
    std::int64_t left = kept.load() + 1;  // one for this call itself: the last block may come back before it is done
    for (Heap* heap : heaps) left += static_cast<std::int64_t>(heap->sums.live_blocks);
    retired_live = left;
    special.fetch_or(kRetired);
    for (Heap* heap : heaps) heap->lock.unlock();
  }
  std::unique_lock<std::mutex> none;
  block_is_back(none, true);
}

namespace {

// Allocators that ended during a capture on their device. Never destroyed, because it may be needed last.
struct WaitingToEnd {
  std::mutex mutex;
  std::vector<AllocatorState*> states;
};
WaitingToEnd& waiting_to_end() {
  static constinit PerProcess<WaitingToEnd> one;
  return one.get();
}

}  // namespace

void AllocatorState::end() noexcept {
  if (device.captures() == 0) {
    delete this;
    return;
  }
  WaitingToEnd& ended = waiting_to_end();
  const std::lock_guard lock(ended.mutex);
  ended.states.push_back(this);
}

void AllocatorState::end_waiting() noexcept {
  WaitingToEnd& ended = waiting_to_end();
  std::vector<std::unique_ptr<AllocatorState>> over;
  const std::lock_guard lock(ended.mutex);
  std::erase_if(ended.states, [&](AllocatorState* state) {
    if (state->device.captures() > 0) return false;
    over.emplace_back(state);
    return true;
  });
}

device::Device Allocator::device() const { return state_of(*this).device; }
const std::string& Allocator::name() const { return state_of(*this).name; }
Policy Allocator::policy() const {
  Policy policy = state_of(*this).policy;
  policy.limit_nbytes = state_->reserved.limit();
  return policy;
}

void Allocator::set_limit(std::size_t nbytes) const { state_of(*this).reserved.set_limit(nbytes); }

void Allocator::set_limit_fraction(double fraction) const {
  TESSERA_CHECK(fraction > 0 && fraction <= 1, "set_limit_fraction: fraction must be in (0, 1], got ", fraction);
  AllocatorState& state = state_of(*this);
  state.reserved.set_limit(fraction == 1 ? 0
                                         : static_cast<std::size_t>(fraction * static_cast<double>(state.capacity)));
}

std::uint64_t Allocator::on_pressure(std::function<bool(std::size_t)> callback) const {
  return state_of(*this).pressure_callbacks.add(std::move(callback));
}

void Allocator::off_pressure(std::uint64_t number) const { state_of(*this).pressure_callbacks.remove(number); }

void Allocator::on_out_of_memory(std::function<void(const std::string&)> observer) const {
  state_of(*this).oom_observers.add(std::move(observer));
}

std::size_t Allocator::trim() const {
  AllocatorState& state = state_of(*this);
  const std::lock_guard lock(state.slow_mutex);
  return state.backing.trim_all();
}

void Allocator::record_stacks(bool on) const {
  AllocatorState& state = state_of(*this);
  state.history.record_stacks(on);
  if (on) {
    state.special.fetch_or(AllocatorState::kStacks);
  } else {
    state.special.fetch_and(~static_cast<std::uint32_t>(AllocatorState::kStacks));
  }
}

std::byte* Buffer::data() const { return block_ != nullptr ? block_->address : nullptr; }
std::size_t Buffer::nbytes() const { return block_ != nullptr ? block_->requested : 0; }
std::size_t Buffer::usable_nbytes() const { return block_ != nullptr ? block_->size : 0; }
StreamId Buffer::stream() const { return block_ != nullptr ? block_->slot->id() : StreamId{}; }

}  // namespace tessera::memory
