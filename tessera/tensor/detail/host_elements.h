// The elements of a tensor as the host can read them, for printing and writing files: in place where they lie on a host
// device, else copied over, the range of bytes that the view touches. Waits for the tensor's device, so that everything
// written to it is there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "tessera/device/memory.h"
#include "tessera/tensor/tensor.h"

namespace tessera::tensor::detail {

/// See the head of this file. Keeps the tensor.
class HostElements {
 public:
  /// Waits for the device of a plain `tensor` and copies what the host cannot read; refuses to in a capture. `why`
  /// ("printing") is for errors.
  HostElements(Tensor tensor, const char* why);

  /// The element whose index is zero in every dimension; null when there are none. Strides are the tensor's own.
  [[nodiscard]] const std::byte* first() const { return first_; }
  /// The tensor.
  [[nodiscard]] const Tensor& tensor() const { return tensor_; }
  /// Writes all elements to `to`, dense, last dimension fastest.
  void gather(std::byte* to) const;

 private:
  Tensor tensor_;
  device::PinnedMemory copied_;
  const std::byte* first_ = nullptr;
};

}  // namespace tessera::tensor::detail
