// A minimal device: each operation runs immediately on the caller, memory is malloc'd, and unsupported operations
// throw. Copy this folder to start a new kind of device; docs/adding_a_device.md explains how.
//
// It is compiled and tested, but not part of the library. A real kind ends its .cpp with
//
//   const bool registered = register_device_kind({"mine", [](std::string& why_none) { ... }});
#pragma once

#include "tessera/device/device.h"

namespace tessera::device::example {

/// Creates an example device.
Device make_example_device();

}  // namespace tessera::device::example
