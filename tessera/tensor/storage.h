// The bytes behind tensors: a buffer of a device that one or more views share, and a count of the writes to it.
//
// Bytes come from the caching allocator, or from outside (a mapped file, another library) with something that keeps
// them alive. Freed storage of the allocator is reused in stream order; outside bytes are let go of only behind the
// work on the streams that used them. What was used in a capture must live as long as the graph: that is on the caller.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/device/device.h"
#include "tessera/memory/buffer.h"
#include "tessera/tensor/counted.h"
#include "tessera/tensor/device_context.h"
#include "tessera/tensor/recycled.h"

namespace tessera::tensor {

/// See the head of this file. Shared by handle; use_on() and the version may be called from any thread.
class TESSERA_API Storage final : public detail::Counted, public detail::Recycled {
 public:
  /// New bytes for work on `where`'s stream.
  Storage(std::size_t nbytes, const CurrentDevice& where);
  /// Bytes from outside, on `device`, kept alive by `owner`.
  Storage(void* data, std::size_t nbytes, const device::Device& device, std::shared_ptr<void> owner);
  ~Storage();

  /// First byte; null when there are none.
  [[nodiscard]] std::byte* data() const { return data_; }
  /// How many bytes.
  [[nodiscard]] std::size_t nbytes() const { return nbytes_; }
  /// Where they are.
  [[nodiscard]] const device::Device& device() const { return device_; }
  /// The kind of that device.
  [[nodiscard]] DeviceKind kind() const { return kind_; }
  /// Whether they come from outside.
  [[nodiscard]] bool is_external() const { return outside_ != nullptr; }
  /// Says that work on `stream` uses the bytes. A stream that is capturing, or may be, is always told of: the buffer
  /// may be from outside the capture.
  void use_on(const device::Stream& stream) const {
    const device::StreamSlot& slot = stream.slot();
    if (slot.id() != stream_ || outside_ != nullptr || slot.hazards() != 0) note_use(stream);
  }
  /// Writes through any of the tensors that share it, so far.
  [[nodiscard]] std::uint64_t version() const { return version_.load(std::memory_order_relaxed); }
  /// Counts a write.
  void bump_version() const { version_.fetch_add(1, std::memory_order_relaxed); }

 private:
  // What is kept for bytes from outside only.
  struct Outside {
    std::shared_ptr<void> owner;
    std::mutex mutex;                  // for uses
    std::vector<device::Stream> uses;  // where they were used; held, so that none goes before
  };
  void note_use(const device::Stream& stream) const;

  memory::Buffer buffer_;
  std::byte* data_ = nullptr;
  std::size_t nbytes_ = 0;
  device::Device device_;
  StreamId stream_;  // of the buffer
  DeviceKind kind_ = kHostKind;
  mutable std::atomic<std::uint64_t> version_{0};
  std::unique_ptr<Outside> outside_;  // null: bytes of the allocator
};

}  // namespace tessera::tensor
