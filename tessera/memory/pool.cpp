#include "tessera/memory/pool.h"

#include <algorithm>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/memory/detail/allocator_state.h"
#include "tessera/memory/detail/growth.h"

namespace tessera::memory {

using detail::Heap;
using detail::PoolTable;

namespace {

PoolState& state_of(const Pool& pool) {
  TESSERA_CHECK(pool.state() != nullptr, "Pool: handle must not be empty; create one with Allocator::create_pool");
  pool.state()->allocator.owner.check("pool");
  return *pool.state();
}

}  // namespace

PoolState& PoolTable::add(PoolOptions options, PoolId id, bool is_imaginary) {
  auto pool = std::make_unique<PoolState>(allocator_);
  pool->id = id;
  pool->name = !options.name.empty() ? options.name : "pool " + std::to_string(id.graph != 0 ? id.graph : id.user);
  pool->upstream = options.upstream != nullptr ? options.upstream : allocator_.upstream;
  pool->capacity = pool->upstream == allocator_.upstream ? allocator_.capacity : pool->upstream->capacity_nbytes();
  // One block per segment: the segment is the block, so it never grows.
  if (allocator_.policy.expandable && !options.no_split) pool->expandable = pool->upstream->as_expandable();
  pool->options = std::move(options);
  pool->is_imaginary = is_imaginary;
  if (!is_imaginary) allocator_.history.add_pool(*pool);
  pools_.push_back(std::move(pool));
  return *pools_.back();
}

Pool Allocator::create_pool(PoolOptions options) const {
  TESSERA_CHECK(state_ != nullptr,
                "create_pool: Allocator handle must not be empty; get one with Allocator::of(device)");
  state_->owner.check("allocator");
  const std::lock_guard lock(state_->slow_mutex);
  PoolState& pool = state_->pools.add(std::move(options), {0, ++state_->pools.last_user});
  return Pool(state_->pools.handle_to(pool));
}

Pool Allocator::default_pool() const {
  TESSERA_CHECK(state_ != nullptr,
                "default_pool: Allocator handle must not be empty; get one with Allocator::of(device)");
  return Pool(std::shared_ptr<PoolState>(state_, state_->default_pool));
}

// The handle keeps the allocator alive; the allocator keeps the pool until its last block is gone.
std::shared_ptr<PoolState> PoolTable::handle_to(PoolState& pool) {
  return {&pool, [keep = allocator_.shared_from_this()](PoolState* last) { keep->pools.close(*last); }};
}

void PoolTable::close(PoolState& pool) noexcept {
  if (!allocator_.owner.is_this()) return;
  const std::lock_guard lock(allocator_.slow_mutex);
  pool.is_closed = true;
  shrink_closed(pool);
}

void PoolTable::shrink_closed(PoolState& pool) noexcept {
  try {
    allocator_.backing.trim(pool);
  } catch (...) {  // NOLINT(bugprone-empty-catch): memory that remains is released by a later trim
  }
  std::size_t left = 0;
  for (const auto& heap : pool.heaps) {
    const std::lock_guard heap_lock(heap->lock);
    left += pool.is_imaginary ? heap->sums.live_blocks : heap->sums.mapped;
  }
  if (left > 0 || pool.borrowers > 0) return;
  if (allocator_.device.captures() > 0 && !pool.is_imaginary) return;  // releasing addresses counts as releasing memory
  for (const auto& heap : pool.heaps) {
    allocator_.backing.free_segments(*heap);
    if (pool.is_imaginary) continue;
    allocator_.live_peak.remove(*heap);
    gone_peaks += heap->peak_live;
  }
  std::erase_if(pools_, [&](const auto& one) { return one.get() == &pool; });
}

void PoolTable::remove_closed() noexcept {
  for (std::size_t i = pools_.size(); i-- > 0;) {
    if (pools_[i]->is_closed) shrink_closed(*pools_[i]);
  }
}

Heap& PoolTable::heap_for(PoolState& pool, const device::StreamSlot& slot) {
  if (Heap* known = pool.by_stream.find(slot.id())) return *known;
  TESSERA_CHECK(slot.id().value() < detail::HeapDirectory::kMaxStreams, "allocator of ", allocator_.name,
                ": the stream slot must be below ", detail::HeapDirectory::kMaxStreams, ", got ", slot.id(),
                "; reuse streams");
  const std::lock_guard lock(allocator_.slow_mutex);
  if (Heap* known = pool.by_stream.find(slot.id())) return *known;
  Heap& heap = add_heap(pool, &slot);
  pool.by_stream.add(slot.id(), &heap);
  return heap;
}

Heap& PoolTable::add_heap(PoolState& pool, const device::StreamSlot* slot) {
  pool.heaps.push_back(std::make_unique<Heap>(pool, slot));
  Heap& heap = *pool.heaps.back();
  heap.min_remainder = pool.options.no_split ? ~std::size_t{0} : allocator_.policy.min_remainder_nbytes;
  if (pool.is_imaginary) {
    heap.lease = ~std::size_t{0};
  } else {
    allocator_.live_peak.add(heap);
  }
  return heap;
}

std::vector<Heap*> PoolTable::heaps() const {
  std::vector<Heap*> heaps;
  for (const auto& pool : pools_) {
    for (const auto& heap : pool->heaps) heaps.push_back(heap.get());
  }
  return heaps;
}

PoolId Pool::id() const { return state_of(*this).id; }
const std::string& Pool::name() const { return state_of(*this).name; }
std::size_t Pool::use_count() const { return static_cast<std::size_t>(state_.use_count()); }
Snapshot Pool::snapshot() const { return state_of(*this).allocator.snapshot(&state_of(*this)); }

std::uint64_t Pool::on_growth(std::function<void(const Growth&)> callback) const {
  PoolState& pool = state_of(*this);
  // Under the slow lock, no segment is added or removed between the report of existing ones and the registration.
  const std::lock_guard slow(pool.allocator.slow_mutex);
  std::vector<Growth> there;
  for (const auto& heap : pool.heaps) {
    const std::lock_guard lock(heap->lock);
    for (const detail::Space& space : heap->spaces) {
      for (const auto& segment : space.segments) {
        if (!segment->is_expandable) there.push_back({segment->base, segment->nbytes, true});
        for (const auto& [address, nbytes] : segment->pieces) there.push_back({address, nbytes, true});
      }
    }
  }
  for (const Growth& growth : there) callback(growth);
  return pool.growth_callbacks.add(std::move(callback));
}

void Pool::off_growth(std::uint64_t number) const { state_of(*this).growth_callbacks.remove(number); }

std::size_t Pool::trim() const {
  PoolState& pool = state_of(*this);
  const std::lock_guard lock(pool.allocator.slow_mutex);
  return pool.allocator.backing.trim(pool);
}

PoolScope::PoolScope(Pool pool) : pool_(std::move(pool)) {
  detail::innermost_scope =
      new detail::ThreadScope{&state_of(pool_).allocator, &pool_, nullptr, detail::innermost_scope};
}

PoolScope::~PoolScope() {
  // The innermost scope of its own: a capture that began inside it may still be in progress.
  detail::ThreadScope** at = &detail::innermost_scope;
  while ((*at)->capture != nullptr || (*at)->pool != &pool_) at = &(*at)->outer;
  delete std::exchange(*at, (*at)->outer);
}

}  // namespace tessera::memory
