#include "tessera/comm/detail/symmetric/device_bytes.h"

#include "tessera/base/error.h"
#include "tessera/memory/allocator.h"

namespace tessera::comm::detail {
namespace {

device::Memory create(const device::Device& device, std::size_t nbytes) {
  try {
    return device.create_memory(nbytes);
  } catch (const OutOfMemory&) {
    if (memory::Allocator::of(device).trim() == 0) throw;
  }
  return device.create_memory(nbytes);
}

}  // namespace

DeviceBytes::DeviceBytes(const device::Device& device, std::size_t nbytes) {
  const std::size_t unit = device.properties().granularity;
  const std::size_t whole = (nbytes + unit - 1) / unit * unit;
  const device::Memory memory = create(device, whole);
  range_ = device.reserve(whole);
  range_.map(0, memory);
}

}  // namespace tessera::comm::detail
