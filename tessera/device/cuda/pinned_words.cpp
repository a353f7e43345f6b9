#include "tessera/device/cuda/pinned_words.h"

#include <cstring>

#include "tessera/device/cuda/cuda_context.h"

namespace tessera::device::cuda {
namespace {

constexpr std::size_t kPage = 64 * 1024;

}  // namespace

void* PinnedWords::take() {
  const std::lock_guard lock(mutex_);
  if (free_.empty()) {
    context_.make_current();
    void* page = nullptr;
    TESSERA_CUDA(context_, cuMemHostAlloc, &page, kPage, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
    // So that returning a cell never allocates and never throws.
    free_.reserve(free_.capacity() + kPage / kCell);
    for (std::size_t at = kPage; at > 0; at -= kCell) free_.push_back(static_cast<char*>(page) + at - kCell);
  }
  void* cell = free_.back();
  free_.pop_back();
  std::memset(cell, 0, kCell);
  return cell;
}

void PinnedWords::give_back(void* cell) noexcept {
  const std::lock_guard lock(mutex_);
  free_.push_back(cell);
}

}  // namespace tessera::device::cuda
