// The device of a replay: streams that get no work and are always idle, no threads, no memory. What a log does not
// tell, when work ended, is decided here: it has ended by the next operation. So that a replay has one result, whatever
// the machine is doing, and takes the time of the allocator alone.
#pragma once

#include <cstddef>

#include "tessera/device/device.h"

namespace tessera::memory::detail {

/// A device with streams and events alone; everything else is NotSupported. It says to have `memory_nbytes`.
Device make_idle_device(std::size_t memory_nbytes);

}  // namespace tessera::memory::detail
