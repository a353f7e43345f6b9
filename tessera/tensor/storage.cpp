#include "tessera/tensor/storage.h"

#include <algorithm>

#include "tessera/base/log.h"

namespace tessera::tensor {

Storage::Storage(std::size_t nbytes, const CurrentDevice& where)
    : buffer_(nbytes == 0 ? memory::Buffer() : where.context->allocator.allocate(nbytes, *where.stream)),
      data_(buffer_ ? buffer_.data() : nullptr),
      nbytes_(nbytes),
      device_(where.context->device),
      stream_(where.stream->id()),
      kind_(where.context->kind),
      has_values_(where.context->has_values) {}

Storage::Storage(void* data, std::size_t nbytes, const device::Device& device, std::shared_ptr<void> owner)
    : data_(static_cast<std::byte*>(data)),
      nbytes_(nbytes),
      device_(device),
      kind_(tensor::device_kind(device.properties().kind)),
      has_values_(device.properties().has_values),
      outside_(std::make_unique<Outside>()) {
  outside_->owner = std::move(owner);
}

Storage::~Storage() {
  if (!outside_) return;
  // The owner of the memory must outlive the work that uses it: each stream with
  // uses drops its reference when it reaches this point.
  for (const device::Stream& stream : outside_->uses) {
    try {
      if (stream.is_capturing()) continue;
      stream.run([owner = outside_->owner] {}, {.label = "release", .accesses = std::span<const device::Access>()});
    } catch (const std::exception& error) {
      log::warn("external memory: released before its pending work is known to have finished: ", error.what());
    }
  }
}

void Storage::note_use(const device::Stream& stream) const {
  if (!outside_) {
    if (buffer_) buffer_.use_on(stream);
    return;
  }
  const std::lock_guard lock(outside_->mutex);
  std::vector<device::Stream>& uses = outside_->uses;
  if (std::ranges::find(uses, stream.id(), &device::Stream::id) == uses.end()) uses.push_back(stream);
}

}  // namespace tessera::tensor
