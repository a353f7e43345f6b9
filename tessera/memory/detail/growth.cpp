#include "tessera/memory/detail/growth.h"

#include <algorithm>

namespace tessera::memory::detail {
namespace {

// Takes a ready block out of its list.
void take_whole(Heap& heap, Space& space, Block& block) {
  space.ready.remove(block);
  heap.sums.cached -= block.size;
  block.phase = Phase::kTaken;
}

std::size_t size_of(const Block* block) { return block != nullptr ? block->size : 0; }

}  // namespace

ReservedPlace reserve_place(Heap& heap, Space& space, std::size_t size, std::size_t granule,
                            const std::function<bool(const Block&)>& is_usable) {
  const auto ready_neighbour = [&](Block* block) {
    const bool is_ready = block != nullptr && block->phase == Phase::kReady;
    return is_ready && (!is_usable || is_usable(*block)) ? block : nullptr;
  };
  ReservedPlace best;
  std::size_t best_nbytes = 0;
  for (const auto& segment : space.segments) {
    for (const auto& [address, hole] : segment->holes) {
      Block* left = ready_neighbour(hole->prev);
      Block* right = ready_neighbour(hole->next);
      if (size_of(left) + hole->size + size_of(right) < size) continue;
      // From the left edge of the hole, as little as will do; the block on the right counts only if all is mapped.
      const std::size_t missing = size - std::min(size, size_of(left));
      const std::size_t nbytes = std::min((missing + granule - 1) / granule * granule, hole->size);
      if (nbytes == 0) continue;
      if (best.hole != nullptr && nbytes >= best_nbytes) continue;
      best = {segment.get(), left, hole, nbytes == hole->size ? right : nullptr};
      best_nbytes = nbytes;
    }
  }
  if (best.hole == nullptr) return best;
  best.segment->holes.erase(best.hole->address);
  best.hole->phase = Phase::kTaken;
  if (best_nbytes < best.hole->size) {
    heap.carve(*best.hole, best.hole->address, best_nbytes);
    Block* rest = best.hole->next;
    rest->phase = Phase::kHole;
    best.segment->holes.emplace(rest->address, rest);
  }
  if (best.left != nullptr) take_whole(heap, space, *best.left);
  if (best.right != nullptr) take_whole(heap, space, *best.right);
  return best;
}

Block* settle_place(Heap& heap, const ReservedPlace& place, std::size_t size) {
  Block* block = place.hole;
  Tick tick{};
  if (place.left != nullptr) {
    tick = place.left->tick;
    heap.absorb_next(*place.left);
    block = place.left;
  }
  if (place.right != nullptr) {
    tick = std::max(tick, place.right->tick);
    heap.absorb_next(*block);
  }
  block->tick = tick;
  if (block->size - size >= heap.min_remainder) {
    heap.carve(*block, block->address, size);
    block->next->phase = Phase::kTaken;
    heap.make_ready(*block->next);
  }
  return block;
}

void restore_place(Heap& heap, const ReservedPlace& place, std::size_t mapped) {
  if (mapped < place.hole->size) {
    Block* rest = heap.carve(*place.hole, place.hole->address + mapped, place.hole->size - mapped);
    make_hole(heap, *rest);
  }
  if (mapped > 0) {
    place.hole->tick = {};
    heap.make_ready(*place.hole);
  }
  if (place.left != nullptr) heap.make_ready(*place.left);
  if (place.right != nullptr) heap.make_ready(*place.right);
}

Block* add_segment(Heap& heap, std::byte* base, std::size_t nbytes, bool is_expandable, bool is_large) {
  auto segment = std::make_unique<Segment>();
  segment->base = base;
  segment->nbytes = nbytes;
  segment->is_expandable = is_expandable;
  segment->is_large = is_large;
  Block* block = heap.new_block();
  block->address = base;
  block->size = nbytes;
  block->segment = segment.get();
  block->prev = block->next = nullptr;
  block->tick = {};
  block->slot = heap.slot;
  segment->first = block;
  if (is_expandable) {
    block->phase = Phase::kHole;
    segment->holes.emplace(base, block);
  } else {
    block->phase = Phase::kTaken;
    segment->mapped = nbytes;
    heap.sums.mapped += nbytes;
  }
  heap.spaces[is_large].segments.push_back(std::move(segment));
  return block;
}

void remove_segment(Heap& heap, Segment& segment) {
  heap.sums.mapped -= segment.mapped;
  heap.release(segment.first);
  auto& all = heap.spaces[segment.is_large].segments;
  std::erase_if(all, [&](const auto& one) { return one.get() == &segment; });
}

void make_hole(Heap& heap, Block& taken) {
  Block* block = &taken;
  Segment& segment = *block->segment;
  block->tick = {};
  if (block->next != nullptr && block->next->phase == Phase::kHole) {
    segment.holes.erase(block->next->address);
    heap.absorb_next(*block);
  }
  if (block->prev != nullptr && block->prev->phase == Phase::kHole) {
    block = block->prev;
    segment.holes.erase(block->address);
    heap.absorb_next(*block);
  }
  block->phase = Phase::kHole;
  segment.holes.emplace(block->address, block);
}

}  // namespace tessera::memory::detail
