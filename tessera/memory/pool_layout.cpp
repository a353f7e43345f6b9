// Checkpoint and restore of the layout of a pool: lets another sequence of captures continue from the state of an
// earlier one.
#include <algorithm>
#include <set>

#include "tessera/base/bytes.h"
#include "tessera/base/error.h"
#include "tessera/memory/detail/allocator_state.h"

namespace tessera::memory {

using detail::Heap;
using detail::Phase;
using detail::Segment;

PoolLayout Pool::checkpoint() const {
  TESSERA_CHECK(state_ != nullptr, "checkpoint: Pool must not be empty; create one with Allocator::create_pool");
  state_->allocator.owner.check("pool");
  PoolLayout layout;
  layout.pool = state_->id;
  const std::lock_guard slow(state_->allocator.slow_mutex);
  for (const auto& heap : state_->heaps) {
    const std::lock_guard lock(heap->lock);
    PoolLayout::PoolLane lane;
    lane.stream = heap->slot != nullptr ? heap->slot->id() : StreamId{};
    lane.is_captured = heap->slot == nullptr;
    heap->walk([&](const Segment&, const Block& block) {
      if (block.phase == Phase::kHole) return;
      const bool is_live = block.phase == Phase::kLive;
      lane.pieces.push_back({block.address, block.size, is_live ? block.requested : 0, is_live, block.graph,
                             block.slot != nullptr ? block.slot->id() : StreamId{}});
    });
    layout.lanes.push_back(std::move(lane));
  }
  return layout;
}

namespace {

Heap* heap_of(PoolState& pool, const PoolLayout::PoolLane& lane) {
  return lane.is_captured ? pool.capture_heap.load() : pool.by_stream.find(lane.stream);
}

// Finds live blocks outside of the layout, and blocks of it that cannot be live again; checked before any change.
void check_restorable(const PoolState& pool, Heap& heap, const PoolLayout::PoolLane& lane) {
  std::set<std::pair<std::byte*, std::size_t>> wanted;
  for (const PoolLayout::PoolPiece& piece : lane.pieces) {
    if (piece.is_live) wanted.emplace(piece.address, piece.nbytes);
  }
  heap.walk([&](const Segment&, const Block& block) {
    TESSERA_CHECK(block.phase != Phase::kLive || wanted.contains({block.address, block.size}), "restore of pool '",
                  pool.name, "': the block of ", format_bytes(block.size), " at ", static_cast<void*>(block.address),
                  " ('", Label::text_of(block.label), "') is newer than the layout and live; free it or hand it over");
    if (block.phase != Phase::kPending && block.phase != Phase::kTaken) return;
    const bool is_wanted = std::any_of(wanted.begin(), wanted.end(), [&](const auto& piece) {
      return piece.first < block.end() && block.address < piece.first + piece.second;
    });
    TESSERA_CHECK(!is_wanted, "restore of pool '", pool.name, "': the block of ", format_bytes(block.size), " at ",
                  static_cast<void*>(block.address), " is still in use by a stream or a graph; wait for it first");
  });
  for (const PoolLayout::PoolPiece& piece : lane.pieces) {
    if (!piece.is_live) continue;
    bool is_there = false;
    heap.walk([&](const Segment&, const Block& block) {
      if (block.phase == Phase::kLive && block.address == piece.address && block.size == piece.nbytes) is_there = true;
      if (block.phase != Phase::kReady || piece.address < block.address || piece.address + piece.nbytes > block.end())
        return;
      is_there = true;
      // It was lent: its target stream is not ordered after later work of the stream of its heap.
      const bool is_lent = heap.slot != nullptr && heap.slot->id() != piece.stream;
      TESSERA_CHECK(!is_lent || pool.allocator.reuse.is_completed(heap, block), "restore of pool '", pool.name,
                    "': the block of ", format_bytes(piece.nbytes), " at ", static_cast<void*>(piece.address),
                    " is still in use by stream ", heap.slot->id(), "; wait for it first");
    });
    TESSERA_CHECK(is_there, "restore of pool '", pool.name, "': ", format_bytes(piece.nbytes), " at ",
                  static_cast<void*>(piece.address), " were released since the checkpoint; do not trim in between");
  }
}

Block* resurrect(Heap& heap, const PoolLayout::PoolPiece& piece) {
  Block* found = nullptr;
  heap.walk([&](const Segment&, Block& block) {
    if (block.phase == Phase::kReady && block.address <= piece.address && piece.address < block.end()) found = &block;
  });
  if (found == nullptr) return nullptr;  // it is already live
  heap.spaces[found->segment->is_large].ready.remove(*found);
  heap.sums.cached -= found->size;
  found->phase = Phase::kTaken;
  const std::byte* const end = found->end();
  Block* block = heap.carve(*found, piece.address, piece.nbytes);
  if (block != found) heap.make_ready(*found);
  if (block->end() < end) heap.make_ready(*block->next);
  return block;
}

}  // namespace

std::vector<Buffer> Pool::restore(const PoolLayout& layout, std::vector<Buffer> give_up) const {
  TESSERA_CHECK(state_ != nullptr, "restore: Pool must not be empty; create one with Allocator::create_pool");
  state_->allocator.owner.check("pool");
  TESSERA_CHECK(layout.pool == state_->id, "restore: layout must be that of pool '", state_->name,
                "', got one of another pool");
  AllocatorState& allocator = state_->allocator;
  give_up.clear();
  const std::lock_guard slow(allocator.slow_mutex);
  for (const auto& heap : state_->heaps) {
    allocator.reuse.poll_users(*heap);
    allocator.reuse.promote_completed(*heap);
  }
  auto gate = allocator.live_peak.gate();
  for (const auto& heap : state_->heaps) heap->lock.lock();
  const auto unlock = [&] {
    for (const auto& heap : state_->heaps) heap->lock.unlock();
    gate.unlock();
  };
  std::vector<Buffer> restored;
  try {
    for (const auto& heap : state_->heaps) {
      PoolLayout::PoolLane none;
      const auto lane = std::find_if(layout.lanes.begin(), layout.lanes.end(),
                                     [&](const auto& one) { return heap_of(*state_, one) == heap.get(); });
      check_restorable(*state_, *heap, lane != layout.lanes.end() ? *lane : none);
    }
    for (const PoolLayout::PoolLane& lane : layout.lanes) {
      Heap& heap = *heap_of(*state_, lane);
      for (const PoolLayout::PoolPiece& piece : lane.pieces) {
        Block* block = piece.is_live ? resurrect(heap, piece) : nullptr;
        if (block == nullptr) continue;
        block->graph = piece.graph;
        allocator.finish(heap, *block, piece.requested, allocator.device.slot(piece.stream), allocator.history.now());
        if ((allocator.special.load() & AllocatorState::kChecked) != 0)
          allocator.device.note_allocated(block->address, block->size);
        restored.emplace_back(block);
      }
    }
  } catch (...) {
    unlock();
    throw;
  }
  unlock();
  if (!restored.empty()) allocator.live_peak.count(*state_->heaps.front(), 0);
  return restored;
}

}  // namespace tessera::memory
