// Upstreams over a device's own memory.
//
//   device_upstream   expandable: addresses are reserved, pieces of physical memory are mapped behind them and moved
//   fixed_upstream    the same memory as whole segments only, for tests of fixed mode
//   pinned_upstream   host memory that the device reads and writes in place, as whole segments
//
// All are thread-safe and keep their device alive. Each frees what is left when it goes; work on it must be over then.
#pragma once

#include <memory>

#include "tessera/base/export.h"
#include "tessera/device/device.h"
#include "tessera/memory/upstream.h"

namespace tessera::memory {

/// The device's memory, by reservation and mapping. A piece is one device::Memory, so that moving it keeps its bytes.
///
/// move() maps the piece at its new place before it unmaps the old one, so that no failure can lose memory: it throws
/// and the piece is where it was. When the driver fails to unmap the old place and then the new one too, the new place
/// keeps a second mapping of the piece; it is taken away before anything else is mapped there.
TESSERA_API std::shared_ptr<ExpandableUpstream> device_upstream(const Device& device);

/// The same memory without as_expandable(): every segment has addresses of its own.
TESSERA_API std::shared_ptr<Upstream> fixed_upstream(const Device& device);

/// Pinned host memory of the device, in multiples of 64 KiB. Its capacity is the memory of this machine.
TESSERA_API std::shared_ptr<Upstream> pinned_upstream(const Device& device);

}  // namespace tessera::memory
