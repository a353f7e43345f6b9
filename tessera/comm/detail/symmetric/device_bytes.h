// Memory for peers to reach: one device::Memory of its own at addresses of its own, so that it lies in a row for them
// too, which what comes from an allocator need not.
#pragma once

#include <cstddef>

#include "tessera/device/device.h"

namespace tessera::comm::detail {

/// See the head of this file. Work on it must be over when it goes.
class DeviceBytes {
 public:
  /// At least `nbytes`; OutOfMemory where the device has no room, also after its allocator gave back what it keeps.
  DeviceBytes(const device::Device& device, std::size_t nbytes);
  [[nodiscard]] std::byte* data() const { return range_.data(); }
  [[nodiscard]] std::size_t nbytes() const { return range_.nbytes(); }

 private:
  device::AddressRange range_;
};

}  // namespace tessera::comm::detail
