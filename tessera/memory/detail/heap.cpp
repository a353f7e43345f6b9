#include "tessera/memory/detail/heap.h"

#include <algorithm>

namespace tessera::memory::detail {

Heap::~Heap() = default;

void Heap::more_blocks() {
  constexpr std::size_t kBatch = 64;
  blocks_.push_back(std::make_unique<Block[]>(kBatch));
  for (std::size_t i = 0; i < kBatch; ++i) {
    Block& block = blocks_.back()[i];
    block.heap = this;
    release(&block);
  }
}

void Heap::split(Space& space, Block& block, std::size_t size) {
  Block* rest = new_block();
  rest->address = block.address + size;
  rest->size = block.size - size;
  rest->segment = block.segment;
  rest->tick = block.tick;
  rest->slot = slot;
  rest->freed_at = block.freed_at;
  rest->phase = Phase::kReady;
  rest->prev = &block;
  rest->next = block.next;
  if (block.next != nullptr) block.next->prev = rest;
  block.next = rest;
  block.size = size;
  space.ready.insert(*rest);
  sums.cached += rest->size;
}

void Heap::cut_tail(Block& block, std::size_t nbytes) {
  Space& space = spaces[block.segment->is_large];
  Bins& bins = block.phase == Phase::kPending ? space.pending : space.ready;
  bins.remove(block);
  Block* tail = carve(block, block.end() - nbytes, nbytes);
  if (block.extra != nullptr) {
    extra(*tail).uses = block.extra->uses;
    tail->extra->marks = block.extra->marks;
    tail->extra->capture = block.extra->capture;
    tail->extra->is_barred = block.extra->is_barred;
  }
  tail->freed_at = block.freed_at;
  bins.insert(block);
  bins.insert(*tail);
}

Block* Heap::make_ready(Block& taken) {
  Block* block = &taken;
  Space& space = spaces[block->segment->is_large];
  sums.cached += block->size;
  block->requested = 0;
  Block* next = block->next;
  if (next != nullptr && next->phase == Phase::kReady) {
    space.ready.remove(*next);
    block->tick = std::max(block->tick, next->tick);
    absorb_next(*block);
  }
  Block* prev = block->prev;
  if (prev != nullptr && prev->phase == Phase::kReady) {
    space.ready.remove(*prev);
    prev->tick = std::max(block->tick, prev->tick);
    absorb_next(*prev);
    block = prev;
  }
  block->phase = Phase::kReady;
  block->slot = slot;
  block->freed_at = static_cast<std::uint32_t>(frees);
  space.ready.insert(*block);
  return block;
}

void Heap::absorb_next(Block& block) {
  Block* next = block.next;
  block.size += next->size;
  block.next = next->next;
  if (next->next != nullptr) next->next->prev = &block;
  release(next);
}

Block* Heap::carve(Block& block, std::byte* address, std::size_t nbytes) {
  Block* middle = &block;
  const auto cut = [&](Block& whole, std::byte* at) {
    Block* tail = new_block();
    tail->address = at;
    tail->size = static_cast<std::size_t>(whole.end() - at);
    tail->segment = whole.segment;
    tail->tick = whole.tick;
    tail->slot = whole.slot;
    tail->graph = whole.graph;
    tail->phase = whole.phase;
    tail->prev = &whole;
    tail->next = whole.next;
    if (whole.next != nullptr) whole.next->prev = tail;
    whole.next = tail;
    whole.size -= tail->size;
    return tail;
  };
  if (address > block.address) middle = cut(block, address);
  if (middle->size > nbytes) cut(*middle, address + nbytes);
  return middle;
}

}  // namespace tessera::memory::detail
