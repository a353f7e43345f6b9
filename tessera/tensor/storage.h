// The memory of tensors: a buffer of a device that one or more views share, and a count of its writes.
//
// The memory comes from the caching allocator or is external (a mapped file, another library) with an owner that keeps
// it alive. Freed allocator memory is reused in stream order. External memory is released only after the work on all
// streams that used it. Memory used in a capture must live as long as the graph: the caller ensures this.
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

/// Shared memory of tensors. use_on() and the version are thread-safe.
class TESSERA_API Storage final : public detail::Counted, public detail::Recycled {
 public:
  /// Allocates memory for work on the stream of `where`.
  Storage(std::size_t nbytes, const CurrentDevice& where);
  /// Refers to external memory on `device`, which `owner` keeps alive.
  Storage(void* data, std::size_t nbytes, const device::Device& device, std::shared_ptr<void> owner);
  ~Storage();

  /// Returns the first byte; null if nbytes() is 0.
  [[nodiscard]] std::byte* data() const { return data_; }
  /// Returns the size in bytes.
  [[nodiscard]] std::size_t nbytes() const { return nbytes_; }
  /// Returns the device of the memory.
  [[nodiscard]] const device::Device& device() const { return device_; }
  /// Returns the kind of the device.
  [[nodiscard]] DeviceKind kind() const { return kind_; }
  /// Returns false if the memory has addresses only (DeviceProperties::has_values).
  [[nodiscard]] bool has_values() const { return has_values_; }
  /// Returns true if the memory is external.
  [[nodiscard]] bool is_external() const { return outside_ != nullptr; }
  /// Declares that work on `stream` uses the memory. Uses on streams that may be capturing are always reported to the
  /// buffer, which may come from outside the capture.
  void use_on(const device::Stream& stream) const {
    const device::StreamSlot& slot = stream.slot();
    if (slot.id() != stream_ || outside_ != nullptr || slot.hazards() != 0) note_use(stream);
  }
  /// Returns the number of writes so far, by all tensors that share the storage.
  [[nodiscard]] std::uint64_t version() const { return version_.load(std::memory_order_relaxed); }
  /// Counts a write.
  void bump_version() const { version_.fetch_add(1, std::memory_order_relaxed); }

 private:
  // State of external memory.
  struct Outside {
    std::shared_ptr<void> owner;
    std::mutex mutex;                  // protects uses
    std::vector<device::Stream> uses;  // streams with uses; held so that they outlive the memory
  };
  void note_use(const device::Stream& stream) const;

  memory::Buffer buffer_;
  std::byte* data_ = nullptr;
  std::size_t nbytes_ = 0;
  device::Device device_;
  StreamId stream_;  // stream of the buffer
  DeviceKind kind_ = kHostKind;
  bool has_values_ = true;
  mutable std::atomic<std::uint64_t> version_{0};
  std::unique_ptr<Outside> outside_;  // null for allocator memory
};

}  // namespace tessera::tensor
