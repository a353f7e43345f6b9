// Memory that peers access: one separate device::Memory in a separate address range, so that it is contiguous for peers
// too. Memory of an allocator need not be contiguous for them.
#pragma once

#include <cstddef>

#include "tessera/device/device.h"

namespace tessera::comm::detail {

/// An owner of such memory. Work on it must have completed before its destruction.
class DeviceBytes {
 public:
  /// Allocates at least `nbytes`. Throws OutOfMemory if the device has no room even after its allocator released its
  /// cache.
  DeviceBytes(const device::Device& device, std::size_t nbytes);
  [[nodiscard]] std::byte* data() const { return range_.data(); }
  [[nodiscard]] std::size_t nbytes() const { return range_.nbytes(); }

 private:
  device::AddressRange range_;
};

}  // namespace tessera::comm::detail
