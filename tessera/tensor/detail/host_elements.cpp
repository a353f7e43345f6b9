#include "tessera/tensor/detail/host_elements.h"

#include <cstring>
#include <utility>

namespace tessera::tensor::detail {
namespace {

// Copies the elements of dimension `dim` and the dimensions after it. Returns the end of the written bytes.
std::byte* gather_from(const Tensor& tensor, std::size_t dim, const std::byte* from, std::byte* to) {
  const std::size_t item = itemsize(tensor.dtype());
  if (dim == tensor.shape().size()) {
    std::memcpy(to, from, item);
    return to + item;
  }
  const std::int64_t step = tensor.strides()[dim] * static_cast<std::int64_t>(item);
  const std::int64_t size = tensor.shape()[dim];
  if (dim + 1 == tensor.shape().size()) {
    if (tensor.strides()[dim] == 1) {
      std::memcpy(to, from, static_cast<std::size_t>(size) * item);
      return to + static_cast<std::size_t>(size) * item;
    }
    for (std::int64_t i = 0; i < size; ++i, from += step, to += item) std::memcpy(to, from, item);
    return to;
  }
  for (std::int64_t i = 0; i < size; ++i, from += step) to = gather_from(tensor, dim + 1, from, to);
  return to;
}

}  // namespace

HostElements::HostElements(Tensor tensor, const char* why) : tensor_(std::move(tensor)) {
  const device::Device& device = tensor_.device();
  TESSERA_CHECK_AS(NotSupported, tensor_.storage().has_values(), why, " ", describe(tensor_),
                   ": tensor must have values; create it on a device with storage");
  const device::Stream& stream = current_stream(device);
  TESSERA_CHECK(!stream.is_capturing(), why, " ", describe(tensor_), ": elements cannot be read while ", stream.name(),
                " is captured; read them after the graph is replayed");
  device.synchronize();
  const auto bounds = view_bounds(tensor_.shape(), tensor_.strides());
  if (!bounds) return;
  first_ = tensor_.data();
  if (tensor_.device_kind() == kHostKind) return;
  const auto item = static_cast<std::int64_t>(itemsize(tensor_.dtype()));
  const auto nbytes = static_cast<std::size_t>((bounds->max - bounds->min + 1) * item);
  copied_ = device.allocate_pinned(nbytes);
  stream.copy(copied_.data(), first_ + bounds->min * item, nbytes, why);
  stream.synchronize();
  first_ = copied_.data() - bounds->min * item;
}

void HostElements::gather(std::byte* to) const {
  if (first_ == nullptr) return;
  if (tensor_.is_contiguous()) {
    std::memcpy(to, first_, tensor_.nbytes());
  } else {
    gather_from(tensor_, 0, first_, to);
  }
}

}  // namespace tessera::tensor::detail
