// Small pieces of pinned memory that live as long as the device: words that kernels, stream writes and the host share.
// Freeing pinned memory waits for every kernel, so pages are never given back; a cell is reused instead. A cell is a
// cache line of its own.
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

namespace tessera::device::cuda {

class CudaContext;

/// Hands out zeroed cells of 64 bytes. Thread-safe.
class PinnedWords {
 public:
  /// Bytes of a cell.
  static constexpr std::size_t kCell = 64;
  explicit PinnedWords(CudaContext& context) : context_(context) {}
  /// A cell, all zero; host and device address are the same.
  void* take();
  /// Gives a cell back that neither host nor device will touch again.
  void give_back(void* cell) noexcept;

 private:
  CudaContext& context_;
  std::mutex mutex_;
  std::vector<void*> free_;
};

}  // namespace tessera::device::cuda
