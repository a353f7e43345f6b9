#include "tessera/memory/pool.h"

#include <algorithm>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/memory/detail/allocator_state.h"
#include "tessera/memory/detail/growth.h"

namespace tessera::memory {
namespace {

PoolState& state_of(const Pool& pool) {
  TESSERA_CHECK(pool.state() != nullptr, "this Pool is empty; create one with Allocator::create_pool");
  pool.state()->allocator.owner.check("pool");
  return *pool.state();
}

}  // namespace

PoolState& AllocatorState::add_pool(PoolOptions options, PoolId id, bool is_imaginary) {
  auto pool = std::make_unique<PoolState>(*this);
  pool->id = id;
  pool->name = !options.name.empty() ? options.name : "pool " + std::to_string(id.graph != 0 ? id.graph : id.user);
  pool->upstream = options.upstream != nullptr ? options.upstream : upstream;
  pool->capacity = pool->upstream == upstream ? capacity : pool->upstream->capacity_nbytes();
  // One block per segment: the segment is the block, so it never grows.
  if (policy.expandable && !options.no_split) pool->expandable = pool->upstream->as_expandable();
  pool->options = std::move(options);
  pool->is_imaginary = is_imaginary;
  if (!is_imaginary) history.add_pool(*pool);
  pools.push_back(std::move(pool));
  return *pools.back();
}

Pool Allocator::create_pool(PoolOptions options) const {
  TESSERA_CHECK(state_ != nullptr, "create_pool: this Allocator is empty");
  state_->owner.check("allocator");
  const std::lock_guard lock(state_->slow_mutex);
  PoolState& pool = state_->add_pool(std::move(options), {0, ++state_->last_user_pool});
  return Pool(state_->handle_to(pool));
}

Pool Allocator::default_pool() const {
  TESSERA_CHECK(state_ != nullptr, "default_pool: this Allocator is empty");
  return Pool(std::shared_ptr<PoolState>(state_, state_->default_pool));
}

// The handle keeps the allocator alive; the allocator keeps the pool until its last block is gone.
std::shared_ptr<PoolState> AllocatorState::handle_to(PoolState& pool) {
  return {&pool, [keep = shared_from_this()](PoolState* last) { keep->release_pool(*last); }};
}

void AllocatorState::release_pool(PoolState& pool) noexcept {
  if (!owner.is_this()) return;
  const std::lock_guard lock(slow_mutex);
  pool.is_closed = true;
  shrink_closed(pool);
}

void AllocatorState::shrink_closed(PoolState& pool) noexcept {
  try {
    trim_pool(pool);
  } catch (...) {  // NOLINT(bugprone-empty-catch): what was not given back now goes with a later trim
  }
  std::size_t left = 0;
  for (const auto& heap : pool.heaps) {
    const std::lock_guard heap_lock(heap->lock);
    left += pool.is_imaginary ? heap->sums.live_blocks : heap->sums.mapped;
  }
  if (left > 0 || pool.borrowers > 0) return;
  if (device.captures() > 0 && !pool.is_imaginary) return;  // releasing addresses counts as releasing memory
  for (const auto& heap : pool.heaps) {
    free_segments(*heap);
    if (pool.is_imaginary) continue;
    live_peak.remove(*heap);
    gone_peaks += heap->peak_live;
  }
  std::erase_if(pools, [&](const auto& one) { return one.get() == &pool; });
}

void AllocatorState::shrink_all_closed() noexcept {
  for (std::size_t i = pools.size(); i-- > 0;) {
    if (pools[i]->is_closed) shrink_closed(*pools[i]);
  }
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
  return pool.allocator.trim_pool(pool);
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
