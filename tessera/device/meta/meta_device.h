// A device without storage, "meta". Its memory has addresses and no bytes, its streams run nothing, and all work on
// them completes at once. Layers above compute shapes, dtypes, layouts, allocations and costs on it as on any device,
// so that a program can be sized on a machine that could not run it:
//
//   tensor::DeviceScope meta("meta");
//   models::Llama model(config);              // 405 billion parameters; the allocator counts 1.6 TB
//
// Each rank has its own. Captures work: the graphs have the nodes and edges of the real program. Reading a value throws
// NotSupported; reading an address faults.
#pragma once

#include "tessera/base/export.h"
#include "tessera/device/device.h"

namespace tessera::device::meta {

/// Bytes that a meta device can create.
inline constexpr std::size_t kCapacityNbytes = std::size_t{64} << 40;

/// Creates a meta device that is separate from that of the current rank, Device::get("meta").
TESSERA_API Device make_meta_device();

/// Returns true if an address belongs to the memory of a meta device. Such an address is valid on no known machine:
/// bits 55 and 56 are set and higher bits are not, which is non-canonical on x86-64, and in the kernel half on AArch64.
TESSERA_API bool is_meta_address(const void* address);

}  // namespace tessera::device::meta
