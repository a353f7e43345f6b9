// Upstreams over the memory of a device.
//
//   device_upstream   expandable: reserves addresses, and maps and moves chunks of physical memory
//   fixed_upstream    the same memory as full segments only, for tests of fixed mode
//   pinned_upstream   host memory that the device accesses in place, as full segments
//
// All are thread-safe and keep their device alive. The destructor frees remaining memory, which must not be in use.
#pragma once

#include <memory>

#include "tessera/base/export.h"
#include "tessera/device/device.h"
#include "tessera/memory/upstream.h"

namespace tessera::memory {

/// Returns an upstream that reserves addresses and maps memory of the device. A chunk is one device::Memory, so moving
/// it preserves its bytes.
///
/// move() maps the chunk at its new address before it unmaps the old one, so a failure cannot lose memory: it throws,
/// and the chunk stays in place. If the driver fails to unmap both the old and then the new address, the new address
/// keeps a second mapping of the chunk. That mapping is removed before anything else is mapped there.
TESSERA_API std::shared_ptr<ExpandableUpstream> device_upstream(const Device& device);

/// Returns an upstream over the same memory without as_expandable(): every segment has separate addresses.
TESSERA_API std::shared_ptr<Upstream> fixed_upstream(const Device& device);

/// Returns an upstream of pinned host memory, in multiples of 64 KiB. Its capacity is the memory of this machine.
TESSERA_API std::shared_ptr<Upstream> pinned_upstream(const Device& device);

}  // namespace tessera::memory
