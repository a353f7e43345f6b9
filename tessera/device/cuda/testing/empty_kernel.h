// A kernel that does nothing, as text that the driver compiles.
#pragma once

namespace tessera::device::cuda::testing {

/// Module of the kernel "tessera_empty", which has no parameters.
inline constexpr char kEmptyKernel[] =
    ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry tessera_empty()\n{\n  ret;\n}\n";

}  // namespace tessera::device::cuda::testing
