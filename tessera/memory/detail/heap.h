// A heap: the memory of one pool for one stream (or, in a pool of graphs, for all streams of its captures), with a
// separate lock. It allocates, frees, splits and merges blocks in constant time and calls no driver: grow.cpp adds and
// removes its memory, under the slow lock of the allocator.
//
// Blocks below 256 KiB and larger ones are in separate spaces: long-lived small blocks would otherwise be scattered
// among the large ones and prevent merging. Replayed churn wastes 6 to 7 % this way, 9 to 11 % in one space.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "tessera/memory/detail/bins.h"
#include "tessera/memory/detail/block.h"
#include "tessera/memory/detail/heap_lock.h"
#include "tessera/memory/detail/segment.h"

namespace tessera::memory {
struct PoolState;
}

namespace tessera::memory::detail {

/// Size of a cache line.
inline constexpr std::size_t kCacheLine = 64;

/// Not thread-safe: `lock` guards all members after it. Changes of segments also need the slow lock. Aligned, so that
/// heaps of two threads share no cache line.
class alignas(kCacheLine) Heap {
 public:
  Heap(PoolState& of_pool, const device::StreamSlot* of_stream) : pool(of_pool), slot(of_stream) {}
  ~Heap();
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;

  static constexpr std::size_t kLargeNbytes = Bins::kExactNbytes;
  static bool is_large(std::size_t size) { return size >= kLargeNbytes; }

  /// Takes a ready block of at least `size`, split to size; null if none exists.
  Block* take(std::size_t size) {
    Space& space = spaces[is_large(size)];
    Block* block = space.ready.find(size);
    if (block == nullptr) return nullptr;
    take_out(space, *block, size);
    return block;
  }
  /// Takes a ready block and splits it to size.
  void take_out(Space& space, Block& block, std::size_t size) {
    space.ready.remove(block);
    sums.cached -= block.size;
    if (block.size - size >= min_remainder) split(space, block, size);
    block.phase = Phase::kTaken;
  }
  /// Takes a pending block and splits it to size; the rest stays pending for the same reasons.
  void take_pending(Block& block, std::size_t size) {
    if (block.size - size >= min_remainder) cut_tail(block, block.size - size);
    end_pending(block);
  }

  /// Makes a taken block live.
  void make_live(Block& block, std::size_t requested) {
    block.phase = Phase::kLive;
    block.requested = requested;
    sums.live += requested;
    sums.used += block.size;
    ++sums.live_blocks;
  }
  /// Makes a live block taken.
  void end_live(Block& block) {
    block.phase = Phase::kTaken;
    sums.live -= block.requested;
    sums.used -= block.size;
    --sums.live_blocks;
  }
  /// Makes a taken block ready and merges it with ready neighbors. Returns the merged block.
  Block* make_ready(Block& block);
  /// Makes a taken block pending.
  void make_pending(Block& block) {
    block.phase = Phase::kPending;
    spaces[block.segment->is_large].pending.insert(block);
  }
  /// Makes a pending block taken.
  void end_pending(Block& block) {
    spaces[block.segment->is_large].pending.remove(block);
    block.phase = Phase::kTaken;
  }

  /// Calls visit(block) for every pending block.
  template <class Visit>
  void each_pending(const Visit& visit) const {
    for (const Space& space : spaces) {
      space.pending.find_if(kAlignment, 1 << 30, [&](Block& block) {
        visit(block);
        return false;
      });
    }
  }
  /// Returns the cheapest run of neighbors of at least `size`, then the smallest. cost(block) is negative for a block
  /// that cannot be part of one. Visits every block of the space: for use when the alternative is to grow.
  template <class Cost>
  [[nodiscard]] BlockRun find_run(const Space& space, std::size_t size, const Cost& cost) const {
    BlockRun best;
    for (const auto& segment : space.segments) {
      BlockRun run;
      for (Block* block = segment->first; block != nullptr; block = block->next) {
        const bool is_free = block->phase == Phase::kReady || block->phase == Phase::kPending;
        const int price = is_free ? cost(*block) : -1;
        if (price < 0) {
          run = {};
          continue;
        }
        if (run.first == nullptr) run.first = block;
        run.last = block;
        run.size += block->size;
        run.cost += price;
        while (run.size - run.first->size >= size) {
          run.size -= run.first->size;
          run.cost -= cost(*run.first);
          run.first = run.first->next;
        }
        if (run.size < size) continue;
        if (best.first == nullptr || run.cost < best.cost || (run.cost == best.cost && run.size < best.size))
          best = run;
      }
    }
    return best;
  }
  /// Takes the blocks of a run as one block of `size`; the rest of the last one stays unchanged. Calls before(block)
  /// for each pending one.
  template <class Before>
  Block* take_run(BlockRun run, std::size_t size, const Before& before) {
    if (run.size - size >= min_remainder) {
      cut_tail(*run.last, run.size - size);
      run.size = size;
    }
    for (Block* block = run.first;; block = block->next) {
      if (block->phase == Phase::kPending) {
        end_pending(*block);
        before(*block);
      } else {
        spaces[block->segment->is_large].ready.remove(*block);
        sums.cached -= block->size;
        block->phase = Phase::kTaken;
      }
      if (block == run.last) break;
    }
    while (run.first->size < run.size) {
      run.first->tick = std::max(run.first->tick, run.first->next->tick);
      absorb_next(*run.first);
    }
    return run.first;
  }

  /// Returns an unused Block object.
  Block* new_block() {
    if (spare_ == nullptr) more_blocks();
    Block* block = spare_;
    spare_ = block->bin_next;
    block->requested = 0;
    block->label = 0;
    block->stack = 0;
    block->graph = 0;
    return block;
  }
  void release(Block* block) {
    drop_extra(*block);
    block->bin_next = spare_;
    spare_ = block;
  }
  /// Returns the extra data of the block, which is created if needed.
  BlockExtra& extra(Block& block) {
    if (block.extra != nullptr) return *block.extra;
    if (spare_extras_.empty()) {
      block.extra = std::make_unique<BlockExtra>();
    } else {
      block.extra = std::move(spare_extras_.back());
      spare_extras_.pop_back();
    }
    return *block.extra;
  }
  /// Drops the extra data of a block. It is cached, because captures take and drop one with every free.
  void drop_extra(Block& block) {
    if (block.extra == nullptr) return;
    block.extra->clear();
    spare_extras_.push_back(std::move(block.extra));
  }
  /// Splits [address, address + nbytes) off `block`, whose parts keep its phase and are in no list. Returns that part.
  Block* carve(Block& block, std::byte* address, std::size_t nbytes);
  /// Merges `block` with the block after it; both are in no list. Keeps `block`.
  void absorb_next(Block& block);

  /// Calls visit(segment, block) for every block, in address order within segments.
  template <class Visit>
  void walk(const Visit& visit) const {
    for (const Space& space : spaces) {
      for (const auto& segment : space.segments) {
        for (Block* block = segment->first; block != nullptr; block = block->next) visit(*segment, *block);
      }
    }
  }

  PoolState& pool;
  const device::StreamSlot* slot;  ///< null: a heap of captures
  std::size_t min_remainder = kAlignment;

  mutable HeapLock lock;
  HeapSums sums;
  std::size_t lease = 0;      ///< live bytes that the peak of the allocator includes (live_peak.h): at least sums.live
  std::size_t peak_live = 0;  ///< maximum of sums.live since the last reset
  /// time of its latest record: of two records of an address, the later one has the later time
  std::uint64_t last_moment = 0;
  std::uint64_t allocations = 0;
  std::uint64_t frees = 0;
  std::array<std::uint64_t, 8> label_strings = {};  ///< label << 32 | its string, by the last bits of the label

 private:
  Block* spare_ = nullptr;

 public:
  Space spaces[2];  ///< small, large

 private:
  /// Splits the last `nbytes` off a free block, with the same phase.
  void cut_tail(Block& block, std::size_t nbytes);
  void split(Space& space, Block& block, std::size_t size);
  void more_blocks();

  std::vector<std::unique_ptr<BlockExtra>> spare_extras_;
  std::vector<std::unique_ptr<Block[]>> blocks_;
};

}  // namespace tessera::memory::detail
