// The smallest device there is: every operation runs at once on the caller, memory is malloc'd, and what it cannot do
// it says. Copy this folder to start a new kind of device, then fill it in: docs/adding_a_device.md walks through it.
//
// It is compiled and tested, but not part of the library. A real kind ends its .cpp with
//
//   const bool registered = register_device_kind({"mine", [](std::string& why_none) { ... }});
#pragma once

#include "tessera/device/device.h"

namespace tessera::device::example {

/// A device of this kind.
Device make_example_device();

}  // namespace tessera::device::example
