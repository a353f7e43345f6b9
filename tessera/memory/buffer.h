// A piece of device memory that somebody owns.
//
//   Buffer x = allocator.allocate(1 << 20, stream);   // for work on `stream`
//   x.use_on(other);                                  // `other` uses it too
//   x.reset();                                        // back to the allocator; work launched so far still may use it
//
// Freeing is asynchronous: the bytes are handed out again only to work that is ordered after every use that was
// launched before the free, on the stream of the allocation and on those named by use_on.
#pragma once

#include <cstddef>
#include <utility>

#include "tessera/base/export.h"
#include "tessera/base/ids.h"
#include "tessera/device/stream.h"

namespace tessera::memory {

class Allocator;
struct Block;

/// Memory from an Allocator. Move-only; the destructor frees. May outlive its Allocator handle, and the stream and the
/// graph it was made for. One Buffer is not for several threads at once, except for use_on() and reading.
class TESSERA_API Buffer {
 public:
  /// No memory.
  Buffer() = default;
  /// Made by Allocator::allocate.
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

  /// Whether there is memory. An allocation of 0 bytes has none.
  explicit operator bool() const { return block_ != nullptr; }
  /// First byte, aligned to 512; null when empty.
  [[nodiscard]] std::byte* data() const;
  /// Bytes asked for.
  [[nodiscard]] std::size_t nbytes() const;
  /// Bytes that may be used: at least nbytes().
  [[nodiscard]] std::size_t usable_nbytes() const;
  /// The slot of the stream it was allocated for.
  [[nodiscard]] StreamId stream() const;
  /// Says that work on `stream`, launched before this buffer is freed, uses it. Its own stream needs no saying, except
  /// in a capture for a buffer from outside, and for memory that the host writes (AllocatorOptions::host_writes).
  void use_on(const device::Stream& stream) const;
  /// Frees. Never throws; a driver that fails here is noted and the block stays pending until the stream is known done.
  void reset() noexcept {
    if (block_ != nullptr) free(std::exchange(block_, nullptr));
  }
  /// The block behind it; for the allocator.
  [[nodiscard]] Block* block() const { return block_; }

 private:
  static void free(Block* block) noexcept;
  Block* block_ = nullptr;
};

}  // namespace tessera::memory
