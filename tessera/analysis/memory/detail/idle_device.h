// The device of a replay: streams without work that are always idle, no threads, no memory. A log does not contain the
// end of work; here, work ends before the next operation. A replay therefore has one result on any machine, and takes
// only the time of the allocator.
#pragma once

#include <cstddef>

#include "tessera/device/device.h"

namespace tessera::analysis::detail {

/// Returns a device with streams and events only; all else throws NotSupported. It reports `memory_nbytes`.
Device make_idle_device(std::size_t memory_nbytes);

}  // namespace tessera::analysis::detail
