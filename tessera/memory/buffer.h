// A block of device memory with one owner.
//
//   Buffer x = allocator.allocate(1 << 20, stream);   // for work on `stream`
//   x.use_on(other);                                  // `other` uses it too
//   x.reset();                                        // frees it; work enqueued before may still use it
//
// Freeing is asynchronous: the memory is reused only by work that is ordered after every use enqueued before the free,
// on the stream of the allocation and on the streams of use_on().
#pragma once

#include <cstddef>
#include <utility>

#include "tessera/base/export.h"
#include "tessera/base/ids.h"
#include "tessera/device/stream.h"

namespace tessera::memory {

class Allocator;
struct Block;

/// Memory from an Allocator. Move-only; the destructor frees. May outlive its Allocator handle, its stream and its
/// graph. Only use_on() and reading are thread-safe.
class TESSERA_API Buffer {
 public:
  /// Constructs an empty buffer.
  Buffer() = default;
  /// Takes ownership of a block. For Allocator::allocate().
  explicit Buffer(Block* block) : block_(block) {}
  Buffer(Buffer&& other) noexcept : block_(std::exchange(other.block_, nullptr)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    if (this != &other) {
      reset();
      block_ = std::exchange(other.block_, nullptr);
    }
    return *this;
  }
  ~Buffer() { reset(); }

  /// Returns true if the buffer holds memory. An allocation of 0 bytes holds none.
  explicit operator bool() const { return block_ != nullptr; }
  /// Returns the first byte, aligned to 512 bytes; null if empty.
  [[nodiscard]] std::byte* data() const;
  /// Returns the requested bytes.
  [[nodiscard]] std::size_t nbytes() const;
  /// Returns the usable bytes, at least nbytes().
  [[nodiscard]] std::size_t usable_nbytes() const;
  /// Returns the slot of the stream of the allocation.
  [[nodiscard]] StreamId stream() const;
  /// Declares that work on `stream` uses this buffer. Freed memory is reused only by work ordered after that use. The
  /// stream of the allocation needs no declaration, except in a capture for a buffer from outside, and for memory that
  /// the host writes (AllocatorOptions::host_writes).
  void use_on(const device::Stream& stream) const;
  /// Frees the memory. Never throws: after a driver error, the block stays pending until the stream has finished.
  void reset() noexcept {
    if (block_ != nullptr) free(std::exchange(block_, nullptr));
  }
  /// Returns the block, for the allocator.
  [[nodiscard]] Block* block() const { return block_; }

 private:
  static void free(Block* block) noexcept;
  Block* block_ = nullptr;
};

}  // namespace tessera::memory
