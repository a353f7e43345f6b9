// Adds memory to heaps and removes it, under the slow lock. Heap locks are released around driver calls, and the
// affected blocks are removed from all lists meanwhile.
#include <algorithm>
#include <bit>

#include "tessera/base/bytes.h"
#include "tessera/base/error.h"
#include "tessera/base/log.h"
#include "tessera/memory/detail/allocator_state.h"
#include "tessera/memory/detail/growth.h"

namespace tessera::memory {

using detail::AllocationRequest;
using detail::Backing;
using detail::FreePiece;
using detail::Heap;
using detail::Phase;
using detail::Segment;
using detail::Space;

namespace {

std::size_t round_up(std::size_t nbytes, std::size_t unit) { return (nbytes + unit - 1) / unit * unit; }

std::size_t granule_of(const AllocatorState& state, const PoolState& pool) {
  return round_up(std::max(state.policy.granule_nbytes, pool.upstream->granularity()), pool.upstream->granularity());
}

void tell_growth(PoolState& pool, std::byte* address, std::size_t nbytes, bool is_mapped) {
  pool.growth_callbacks.call_all(Growth{address, nbytes, is_mapped});
}

// Announces that memory is about to be released and calls `body` to release it; if that fails, announces that it stays.
template <class Body>
void take_away(PoolState& pool, std::byte* address, std::size_t nbytes, const Body& body) {
  tell_growth(pool, address, nbytes, false);
  try {
    body();
  } catch (...) {
    tell_growth(pool, address, nbytes, true);
    throw;
  }
}

// Memory came under a pool, or went. A pool that is only priced counts nowhere.
void note_mapped(AllocatorState& state, const PoolState& pool, std::size_t nbytes) {
  if (pool.is_imaginary) return;
  state.reserved.add(nbytes);
  state.counters.maps.fetch_add(1, std::memory_order_relaxed);
}

void note_unmapped(AllocatorState& state, const PoolState& pool, std::size_t nbytes) {
  if (pool.is_imaginary) return;
  state.reserved.remove(nbytes);
  state.counters.unmaps.fetch_add(1, std::memory_order_relaxed);
}

// Rejects a request before anything is mapped for it: beyond the limit, or beyond the capacity of the upstream.
void check_room(AllocatorState& state, const PoolState& pool, std::size_t nbytes) {
  if (pool.is_imaginary) return;
  const std::size_t limit = state.reserved.limit();
  TESSERA_CHECK_AS(OutOfMemory, limit == 0 || state.reserved.now() + nbytes <= limit, "allocator of ", state.name, ": ",
                   format_bytes(nbytes), " more exceed the limit of ", format_bytes(limit));
  std::size_t held = 0;
  for (const auto& one : state.pools) {
    if (one->upstream != pool.upstream) continue;
    for (const auto& heap : one->heaps) {
      const std::lock_guard lock(heap->lock);
      held += heap->sums.mapped;
    }
  }
  TESSERA_CHECK_AS(OutOfMemory, held + nbytes <= pool.capacity, "allocator of ", state.name, ": ", format_bytes(nbytes),
                   " more exceed the capacity of ", pool.upstream->name(), ", ", format_bytes(pool.capacity));
}

// Records under the heap lock that [address, nbytes) is mapped as one chunk.
void note_piece(AllocatorState& state, Heap& heap, Segment& segment, std::byte* address, std::size_t nbytes) {
  const std::lock_guard lock(heap.lock);
  segment.pieces.emplace(address, nbytes);
  segment.mapped += nbytes;
  heap.sums.mapped += nbytes;
  state.history.record_map(heap, address, nbytes, true, true);
}

// Takes a complete chunk of at most `most` bytes out of the ready blocks of `heap`, whose lock is held.
FreePiece take_piece(Heap& heap, std::size_t least, std::size_t most, const std::function<bool(const Block&)>& wanted) {
  for (Space& space : heap.spaces) {
    FreePiece found;
    std::pair<std::byte*, std::size_t> piece;
    space.ready.find_if(least, 1 << 30, [&](Block& block) {
      if (!block.segment->is_expandable || !wanted(block)) return false;
      const auto& pieces = block.segment->pieces;
      for (auto it = pieces.lower_bound(block.address); it != pieces.end(); ++it) {
        if (it->first + it->second > block.end()) break;
        if (it->second > most) continue;
        piece = *it;
        found = {&heap, block.segment, &block};
        return true;
      }
      return false;
    });
    if (found.block == nullptr) continue;
    Block& whole = *found.block;
    const std::byte* const end = whole.end();
    const std::uint32_t freed_at = whole.freed_at;  // the rest keeps its age
    space.ready.remove(whole);
    heap.sums.cached -= whole.size;
    whole.phase = Phase::kTaken;
    found.block = heap.carve(whole, piece.first, piece.second);
    if (found.block != &whole) heap.make_ready(whole)->freed_at = freed_at;
    if (found.block->end() < end) heap.make_ready(*found.block->next)->freed_at = freed_at;
    return found;
  }
  return {};
}

// Takes a fixed segment that is one ready block out of `heap`, whose lock is held.
FreePiece take_segment(Heap& heap, const std::function<bool(const Block&)>& wanted) {
  for (Space& space : heap.spaces) {
    for (const auto& segment : space.segments) {
      Block* first = segment->first;
      if (segment->is_expandable || first->next != nullptr || first->phase != Phase::kReady || !wanted(*first))
        continue;
      space.ready.remove(*first);
      heap.sums.cached -= first->size;
      first->phase = Phase::kTaken;
      return {&heap, segment.get(), first};
    }
  }
  return {};
}

// Takes the next memory that can be released as a unit.
FreePiece take_free(Heap& heap, const std::function<bool(const Block&)>& wanted) {
  const std::lock_guard lock(heap.lock);
  return heap.pool.expandable != nullptr ? take_piece(heap, kAlignment, ~std::size_t{0}, wanted)
                                         : take_segment(heap, wanted);
}

// Records that the chunk is unmapped; the lock of its heap is held.
void drop_piece(AllocatorState& state, const FreePiece& piece) {
  Heap& heap = *piece.heap;
  const std::size_t nbytes = piece.block->size;
  piece.segment->pieces.erase(piece.block->address);
  piece.segment->mapped -= nbytes;
  heap.sums.mapped -= nbytes;
  state.history.record_map(heap, piece.block->address, nbytes, false, true);
  detail::make_hole(heap, *piece.block);
}

void give_piece_back(const FreePiece& piece) {
  const std::lock_guard lock(piece.heap->lock);
  piece.heap->make_ready(*piece.block);
}

// Whether nothing that was launched can touch a free block any more.
bool may_go(const AllocatorState& state, const Heap& heap, const Block& block) {
  return state.reuse.is_completed(heap, block);
}

// Memory of captured graphs stays in place while they can be replayed.
bool is_movable(const Heap& heap) { return heap.slot != nullptr || heap.pool.graphs.load() == 0; }

// Returns the heaps whose cached memory may be moved to `pool`: its own, and those of the default pool.
std::vector<Heap*> heaps_to_move_from(AllocatorState& state, PoolState& pool) {
  std::vector<Heap*> heaps;
  const auto add = [&](const PoolState& from) {
    for (const auto& heap : from.heaps) {
      if (is_movable(*heap)) heaps.push_back(heap.get());
    }
  };
  add(pool);
  if (&pool != state.default_pool && pool.expandable == state.default_pool->expandable) add(*state.default_pool);
  return heaps;
}

// Moves complete free chunks to [to, end) while there are any; `to` is the final position, also if it throws.
void move_pieces(AllocatorState& state, Heap& heap, Segment& segment, std::byte*& to, const std::byte* end) {
  PoolState& pool = heap.pool;
  if (state.device.captures() > 0) return;  // unmapping is giving back
  std::size_t cached = 0;
  const std::vector<Heap*> heaps = heaps_to_move_from(state, pool);
  for (Heap* from : heaps) {
    const std::lock_guard lock(from->lock);
    cached += from->sums.cached;
  }
  if (static_cast<double>(cached) < state.policy.move_above * static_cast<double>(state.reserved.now())) return;
  for (Heap* from : heaps) {
    state.reuse.poll_users(*from);
    while (to < end) {
      FreePiece piece;
      {
        const std::lock_guard lock(from->lock);
        piece = take_piece(*from, granule_of(state, pool), static_cast<std::size_t>(end - to),
                           [&](const Block& block) { return may_go(state, *from, block); });
      }
      if (piece.block == nullptr) break;
      const std::size_t nbytes = piece.block->size;
      try {
        take_away(from->pool, piece.block->address, nbytes,
                  [&] { pool.expandable->move(piece.block->address, to, nbytes); });
      } catch (...) {
        give_piece_back(piece);
        throw;
      }
      {
        const std::lock_guard lock(from->lock);
        drop_piece(state, piece);
      }
      note_piece(state, heap, segment, to, nbytes);
      state.counters.moves.fetch_add(1, std::memory_order_relaxed);
      to += nbytes;
      tell_growth(pool, to - nbytes, nbytes, true);
    }
  }
}

// Maps memory in the hole of a position. Returns the bytes mapped before `failure`, if any.
std::size_t fill_place(AllocatorState& state, Heap& heap, const detail::ReservedPlace& place, std::size_t size,
                       std::exception_ptr& failure) {
  std::byte* const begin = place.hole->address;
  std::byte* const end = place.hole->end();
  const std::size_t granule = granule_of(state, heap.pool);
  const std::size_t most =
      std::clamp(std::bit_floor(size / 4), granule, std::max(granule, state.policy.max_piece_nbytes));
  std::byte* to = begin;
  try {
    move_pieces(state, heap, *place.segment, to, end);
    if (to < end) check_room(state, heap.pool, static_cast<std::size_t>(end - to));
    while (to < end) {
      const auto left = static_cast<std::size_t>(end - to);
      const std::size_t nbytes = left >= most ? most : std::max(granule, std::bit_floor(left) / granule * granule);
      heap.pool.expandable->map(to, nbytes);
      note_mapped(state, heap.pool, nbytes);
      note_piece(state, heap, *place.segment, to, nbytes);
      to += nbytes;
      tell_growth(heap.pool, to - nbytes, nbytes, true);
    }
  } catch (...) {
    failure = std::current_exception();
  }
  return static_cast<std::size_t>(to - begin);
}

Block* grow_expandable(AllocatorState& state, const AllocationRequest& request, Heap& heap) {
  PoolState& pool = heap.pool;
  const std::size_t size = request.size;
  Space& space = heap.spaces[Heap::is_large(size)];
  const std::size_t granule = granule_of(state, pool);
  // Overlapping launches share no memory, not even with the cached blocks on both sides.
  std::function<bool(const Block&)> is_usable;
  if (request.capture == nullptr && (request.slot.hazards() & device::StreamSlot::kOverlapping) != 0)
    is_usable = [&](const Block& block) { return state.reuse.is_over(heap, block, request.stream); };
  detail::ReservedPlace place;
  {
    const std::lock_guard lock(heap.lock);
    place = detail::reserve_place(heap, space, size, granule, is_usable);
  }
  if (place.hole == nullptr) {
    const std::size_t share = Heap::is_large(size) ? pool.capacity : pool.capacity / 8;
    const std::size_t nbytes = round_up(std::max(share, size) + granule, granule);
    std::byte* base = pool.expandable->reserve(nbytes);
    const std::lock_guard lock(heap.lock);
    detail::add_segment(heap, base, nbytes, true, Heap::is_large(size));
    place = detail::reserve_place(heap, space, size, granule);
  }
  std::exception_ptr failure;
  const std::size_t done = fill_place(state, heap, place, size, failure);
  const std::lock_guard lock(heap.lock);
  if (failure == nullptr) return detail::settle_place(heap, place, size);
  detail::restore_place(heap, place, done);
  std::rethrow_exception(failure);
}

// Returns a segment for a request of `size`: a shared one if there is space for it, otherwise a separate one.
std::byte* take_fixed(AllocatorState& state, PoolState& pool, std::size_t size, std::size_t& nbytes) {
  const auto take = [&] {
    check_room(state, pool, nbytes);
    return pool.upstream->allocate(nbytes);
  };
  const std::size_t own =
      round_up(size, pool.options.no_split ? pool.upstream->granularity() : granule_of(state, pool));
  nbytes = own;
  if (!pool.options.no_split && size > (std::size_t{1} << 20) && size < (std::size_t{10} << 20))
    nbytes = round_up(std::max(state.policy.shared_segment_nbytes, own), granule_of(state, pool));
  if (nbytes == own) return take();
  try {
    return take();
  } catch (const OutOfMemory&) {
    nbytes = own;
    return take();
  }
}

Block* grow_fixed(AllocatorState& state, Heap& heap, std::size_t size) {
  PoolState& pool = heap.pool;
  std::size_t nbytes = 0;
  std::byte* const address = take_fixed(state, pool, size, nbytes);
  note_mapped(state, pool, nbytes);
  Block* block = nullptr;
  {
    const std::lock_guard lock(heap.lock);
    block = detail::add_segment(heap, address, nbytes, false, Heap::is_large(size));
    state.history.record_map(heap, address, nbytes, true, false);
    if (block->size - size >= heap.min_remainder) {
      heap.carve(*block, address, size);
      heap.make_ready(*block->next);
    }
  }
  try {
    tell_growth(pool, address, nbytes, true);
  } catch (...) {
    const std::lock_guard lock(heap.lock);
    heap.make_ready(*block);
    throw;
  }
  return block;
}

}  // namespace

Block* Backing::grow(const AllocationRequest& request, Heap& heap) {
  allocator_.pools.remove_closed();
  collect_by_age();
  return heap.pool.expandable != nullptr ? grow_expandable(allocator_, request, heap)
                                         : grow_fixed(allocator_, heap, request.size);
}

namespace {

// Releases a chunk to the upstream; if that fails, it is ready again.
std::size_t give_away(AllocatorState& state, const FreePiece& piece) {
  Heap& heap = *piece.heap;
  PoolState& pool = heap.pool;
  std::byte* const address = piece.block->address;
  const std::size_t nbytes = piece.block->size;
  try {
    take_away(pool, address, nbytes, [&] {
      piece.segment->is_expandable ? pool.expandable->unmap(address, nbytes) : pool.upstream->free(address, nbytes);
    });
  } catch (...) {
    give_piece_back(piece);
    throw;
  }
  note_unmapped(state, pool, nbytes);
  const std::lock_guard lock(heap.lock);
  if (piece.segment->is_expandable) {
    drop_piece(state, piece);
  } else {
    state.history.record_map(heap, address, nbytes, false, false);
    detail::remove_segment(heap, *piece.segment);
  }
  return nbytes;
}

}  // namespace

std::size_t Backing::trim(PoolState& pool, const std::function<bool(const Block&)>& wanted) {
  // A driver may fail or block if memory is released while a graph is captured.
  if (allocator_.device.captures() > 0) return 0;
  std::size_t given = 0;
  for (const auto& heap : pool.heaps) {
    if (!is_movable(*heap)) continue;
    allocator_.reuse.poll_users(*heap);
    allocator_.reuse.promote_completed(*heap);
    const auto may_be_given = [&](const Block& block) {
      return may_go(allocator_, *heap, block) && (!wanted || wanted(block));
    };
    while (const FreePiece piece = take_free(*heap, may_be_given)) given += give_away(allocator_, piece);
  }
  return given;
}

bool Backing::set_aside(PoolState& pool) {
  if (allocator_.device.captures() > 0) return false;
  const std::size_t before = aside_.size();
  for (const auto& heap : pool.heaps) {
    if (!is_movable(*heap)) continue;
    while (const FreePiece piece = take_free(*heap, [](const Block&) { return true; })) aside_.push_back(piece);
  }
  return aside_.size() > before;
}

std::size_t Backing::release_aside() {
  std::size_t given = 0;
  for (std::size_t i = aside_.size(); i-- > 0;) {
    const FreePiece piece = aside_[i];
    const bool may_be_given = allocator_.device.captures() == 0 && is_movable(*piece.heap);
    if (may_be_given && !may_go(allocator_, *piece.heap, *piece.block)) continue;
    aside_.erase(aside_.begin() + static_cast<std::ptrdiff_t>(i));
    if (may_be_given) {
      given += give_away(allocator_, piece);
    } else {
      give_piece_back(piece);
    }
  }
  return given;
}

void Backing::cache_aside() noexcept {
  for (const FreePiece& piece : aside_) give_piece_back(piece);
  aside_.clear();
}

std::size_t Backing::trim_all() {
  std::size_t given = 0;
  for (const auto& pool : allocator_.pools) given += trim(*pool);
  allocator_.pools.remove_closed();
  return given;
}

void Backing::collect_by_age() {
  const std::size_t most =
      allocator_.reserved.limit() != 0 ? allocator_.reserved.limit() : allocator_.default_pool->capacity;
  if (allocator_.policy.collect_above <= 0) return;
  if (static_cast<double>(allocator_.reserved.now()) < allocator_.policy.collect_above * static_cast<double>(most))
    return;
  std::uint64_t ages = 0;
  std::uint64_t blocks = 0;
  const auto age = [](const Block& block) { return static_cast<std::uint32_t>(block.heap->frees) - block.freed_at; };
  for (const auto& heap : allocator_.default_pool->heaps) {
    const std::lock_guard lock(heap->lock);
    heap->walk([&](const Segment&, const Block& block) {
      if (block.phase != Phase::kReady) return;
      ages += age(block);
      ++blocks;
    });
  }
  if (blocks == 0) return;
  const std::uint64_t mean = ages / blocks;
  if (trim(*allocator_.default_pool, [&](const Block& block) { return age(block) >= mean; }) > 0)
    allocator_.counters.collections.fetch_add(1, std::memory_order_relaxed);
}

void Backing::free_segments(Heap& heap) noexcept {
  PoolState& pool = heap.pool;
  try {
    if (heap.sums.mapped > 0) allocator_.device.synchronize();
  } catch (...) {  // NOLINT(bugprone-empty-catch): a lost device has nothing left to wait for
  }
  for (Space& space : heap.spaces) {
    for (const auto& segment : space.segments) {
      try {
        if (!segment->is_expandable) {
          pool.upstream->free(segment->base, segment->nbytes);
        } else {
          for (const auto& [address, nbytes] : segment->pieces) pool.expandable->unmap(address, nbytes);
          pool.expandable->release(segment->base, segment->nbytes);
        }
      } catch (const std::exception& error) {
        log::warn("allocator of ", allocator_.name, ": a segment could not be released: ", error.what());
      } catch (...) {
        log::warn("allocator of ", allocator_.name,
                  ": a segment could not be released: its upstream threw an unknown exception");
      }
    }
  }
}

}  // namespace tessera::memory
