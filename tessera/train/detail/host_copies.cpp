#include "tessera/train/detail/host_copies.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>

#include "tessera/base/error.h"
#include "tessera/base/rank.h"
#include "tessera/device/device.h"
#include "tessera/memory/allocator.h"
#include "tessera/tensor/device_context.h"

namespace tessera::train::detail {
namespace {

// The streams of one rank that copy batches to its devices.
struct UploadStreams {
  std::mutex mutex;
  std::map<const device::DeviceState*, device::Stream> of;

  device::Stream on(const device::Device& device) {
    const std::lock_guard lock(mutex);
    device::Stream& stream = of[device.state().get()];
    if (!stream) stream = device.create_stream({.name = "upload"});
    return stream;
  }
};

device::Stream upload_stream(const device::Device& device) {
  return current_rank()->part<UploadStreams>([] { return std::make_shared<UploadStreams>(); }).on(device);
}

// Copies through pinned memory, which the allocator gives to others after the copy.
void copy_pinned(const Tensor& to, const void* from, std::size_t nbytes, const device::Stream& stream) {
  const memory::Buffer pinned = memory::Allocator::pinned_of(to.device()).allocate(nbytes, stream);
  std::memcpy(pinned.data(), from, nbytes);
  pinned.use_on(stream);
  to.storage().use_on(stream);
  stream.copy(to.address(), pinned.data(), nbytes, "upload");
}

}  // namespace

Tensor uploaded(const Tensor& own) {
  const device::Device device = tensor::default_device();
  if (own.device() == device) return own;
  TESSERA_CHECK(own.is_contiguous(), "batch: tensors must be contiguous, got ", tensor::describe(own));
  if (own.numel() == 0 || !device.properties().has_values) return Tensor::allocate(own.shape(), own.dtype(), device);
  const device::Stream stream = upload_stream(device);
  Tensor there;
  {
    const tensor::StreamScope scope(stream);
    there = Tensor::allocate(own.shape(), own.dtype(), device);
    copy_pinned(there, own.address(), own.nbytes(), stream);
  }
  const device::Event copied = device.create_event();
  stream.record(copied);
  tensor::current_stream(device).wait(copied);
  return there;
}

Tensor on_host(const Tensor& own) {
  const device::Stream& stream = tensor::current_stream(own.device());
  if (own.device() == tensor::host_device()) {
    stream.synchronize();
    return own;
  }
  const auto memory = std::make_shared<memory::Buffer>(
      memory::Allocator::pinned_of(own.device()).allocate(std::max<std::size_t>(own.nbytes(), 1), stream));
  own.storage().use_on(stream);
  stream.copy(memory->data(), own.address(), own.nbytes(), "to host");
  stream.synchronize();
  return Tensor::wrap(memory->data(), own.shape(), own.dtype(), tensor::host_device(), memory);
}

void store_bytes(const Tensor& to, const void* from, std::size_t nbytes) {
  TESSERA_CHECK(to.is_contiguous() && to.nbytes() == nbytes, "store: requires a contiguous tensor of ", nbytes,
                " bytes, got ", tensor::describe(to));
  if (nbytes > 0 && to.storage().has_values()) copy_pinned(to, from, nbytes, tensor::current_stream(to.device()));
}

HostValues::HostValues(std::size_t count) : count_(count) {
  const device::Device device = tensor::default_device();
  if (!device.properties().has_values) return;
  memory_ = memory::Allocator::pinned_of(device).allocate(count * kMax, tensor::current_stream(device));
  std::memset(memory_.data(), 0, count * kMax);
}

void HostValues::read(const Tensor& from) const {
  TESSERA_CHECK(
      from.is_contiguous() && from.numel() == static_cast<std::int64_t>(count_) && from.nbytes() <= count_ * kMax,
      "HostValues: requires ", count_, " contiguous elements of at most ", kMax, " bytes, got ",
      tensor::describe(from));
  if (!from.storage().has_values()) return;
  const device::Stream& stream = tensor::current_stream(from.device());
  from.storage().use_on(stream);
  memory_.use_on(stream);
  stream.copy(memory_.data(), from.address(), from.nbytes(), "loss");
}

}  // namespace tessera::train::detail
