// Small cells of pinned memory that live as long as the device: words that kernels, stream writes and the host share.
// Freeing pinned memory waits for every kernel, so pages are never freed; cells are reused. Each cell is a separate
// cache line.
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

namespace tessera::device::cuda {

class CudaContext;

/// Allocates zeroed cells of 64 bytes. Thread-safe.
class PinnedWords {
 public:
  /// Bytes per cell.
  static constexpr std::size_t kCell = 64;
  explicit PinnedWords(CudaContext& context) : context_(context) {}
  /// Returns a zeroed cell; host and device address are the same.
  void* take();
  /// Returns a cell that neither host nor device will access again.
  void give_back(void* cell) noexcept;

 private:
  CudaContext& context_;
  std::mutex mutex_;
  std::vector<void*> free_;
};

}  // namespace tessera::device::cuda
