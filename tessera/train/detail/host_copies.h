// Copies between the host and the device that a run computes on. They go through pinned memory, which is reused when
// its copies are done, so that no copy waits for the host. On the host device, they are work of its stream.
//
//   const Tensor tokens = uploaded(host_tensor);    // while the device still computes the step before
//   store(learning_rate, 3e-4F);                    // before a replay that reads it
//
// Copies are in the order of the current stream: later work sees them, and earlier work does not.
#pragma once

#include <cstddef>

#include "tessera/memory/buffer.h"
#include "tessera/tensor/tensor.h"

namespace tessera::train::detail {

/// Returns a contiguous tensor of the host on the default device. The copy runs on a separate stream, beside the work
/// that the current stream still has, and later work of the current stream waits for it. On the host, returns `own`.
Tensor uploaded(const Tensor& own);

/// Returns the values of a contiguous plain tensor on the host, after the work enqueued so far, which it waits for. On
/// the host, returns `own`.
Tensor on_host(const Tensor& own);

/// Enqueues a copy of these bytes, which may change as soon as the call returns, over the elements of `to`.
void store_bytes(const Tensor& to, const void* from, std::size_t nbytes);
/// Enqueues the value of a tensor of one element.
template <class T>
void store(const Tensor& to, T value) {
  store_bytes(to, &value, sizeof value);
}

/// The values of a small tensor, as the host sees them after the stream has reached the copy. A captured copy is
/// repeated by each replay.
class HostValues {
 public:
  /// Allocates pinned memory of the default device for `count` elements.
  explicit HostValues(std::size_t count = 1);
  /// Enqueues the copy of `from`, a contiguous tensor of as many elements, on the current stream.
  void read(const Tensor& from) const;
  /// Returns element i of the last copy, which must be done.
  template <class T>
  [[nodiscard]] T as(std::size_t i = 0) const {
    static_assert(sizeof(T) <= kMax);
    return reinterpret_cast<const T*>(memory_.data())[i];
  }

 private:
  static constexpr std::size_t kMax = 8;  // bytes of an element
  std::size_t count_;
  memory::Buffer memory_;
};

}  // namespace tessera::train::detail
