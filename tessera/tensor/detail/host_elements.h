// The elements of a tensor in host memory, for printing and writing files: in place on a host device, otherwise a copy
// of the range of bytes that the view touches. Waits for the device of the tensor, so that all writes are complete.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "tessera/device/memory.h"
#include "tessera/tensor/tensor.h"

namespace tessera::tensor::detail {

/// Host access to the elements of a tensor. Keeps the tensor alive.
class HostElements {
 public:
  /// Waits for the device of a plain `tensor` and copies elements that the host cannot read. Throws during a capture.
  /// `why` ("printing") is for errors.
  HostElements(Tensor tensor, const char* why);

  /// Returns the element at index zero of every dimension; null if there are
  /// no elements. The strides of the tensor apply.
  [[nodiscard]] const std::byte* first() const { return first_; }
  [[nodiscard]] const Tensor& tensor() const { return tensor_; }
  /// Writes all elements to `to`, contiguous, last dimension fastest.
  void gather(std::byte* to) const;

 private:
  Tensor tensor_;
  device::PinnedMemory copied_;
  const std::byte* first_ = nullptr;
};

}  // namespace tessera::tensor::detail
