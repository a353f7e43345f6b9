// Arguments of the kernels in masked_fill_items.cu, shared by host and device.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tessera/ops/cuda/walk.h"

namespace tessera::ops::cuda {

/// A call of masked_fill. The operands of the walk are the result, x and the mask.
struct MaskedFill {
  void* out;
  const void* x;
  const std::uint8_t* mask;
  alignas(16) std::byte value[16];  // the item to write, in its first bytes
  bool is_splat;                    // one bool for all items of a vector
  Walk walk;
};

}  // namespace tessera::ops::cuda
