#include "tessera/memory/detail/live_peak.h"

#include <algorithm>

namespace tessera::memory::detail {

void LivePeak::add(Heap& heap) {
  const std::lock_guard lock(mutex_);
  heaps_.push_back(&heap);
}

void LivePeak::remove(Heap& heap) noexcept {
  const std::lock_guard lock(mutex_);
  std::erase(heaps_, &heap);
  headroom_.fetch_add(heap.lease, std::memory_order_relaxed);
  heap.lease = 0;
}

// Takes a little more, because a growing heap is likely to grow again, and leaves enough for the other heaps.
[[gnu::noinline]] bool LivePeak::extend(Heap& heap, std::size_t nbytes) {
  const std::size_t missing = heap.sums.live + nbytes - heap.lease;
  const std::size_t more = (std::size_t{16} << 10) + heap.sums.live / 256;
  std::size_t left = headroom_.load(std::memory_order_relaxed);
  std::size_t taken = 0;
  do {
    if (left < missing) return false;
    taken = missing + std::min(more, (left - missing) / 2);
  } while (!headroom_.compare_exchange_weak(left, left - taken, std::memory_order_relaxed));
  shared_changes_.fetch_add(1, std::memory_order_relaxed);
  heap.lease += taken;
  return true;
}

// All heap locks are held. Returns the live bytes.
std::size_t LivePeak::cut_leases() {
  std::size_t live = 0;
  for (Heap* heap : heaps_) {
    heap->lease = heap->sums.live;
    live += heap->lease;
  }
  return live;
}

void LivePeak::count(Heap& heap, std::size_t nbytes) {
  const std::lock_guard lock(mutex_);
  for (Heap* one : heaps_) one->lock.lock();
  const std::size_t live = cut_leases() + nbytes;
  heap.lease += nbytes;
  // The excess lets the heaps grow before the next count. It does not add up: it is measured from the live bytes.
  const std::size_t most = live + excess(live, heaps_.size());
  peak_ = std::max(peak_, most);
  headroom_.store(peak_ - live, std::memory_order_relaxed);
  shared_changes_.fetch_add(1, std::memory_order_relaxed);
  for (Heap* one : heaps_) one->lock.unlock();
}

void LivePeak::reset() {
  const std::lock_guard lock(mutex_);
  for (Heap* heap : heaps_) heap->lock.lock();
  peak_ = cut_leases();
  headroom_.store(0, std::memory_order_relaxed);
  for (Heap* heap : heaps_) {
    heap->peak_live = heap->sums.live;
    heap->lock.unlock();
  }
}

std::uint64_t LivePeak::peak() const {
  const std::lock_guard lock(mutex_);
  return peak_;
}

}  // namespace tessera::memory::detail
