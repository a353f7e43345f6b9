// The size of a tensor in bytes, for costs.
#pragma once

#include "tessera/tensor/tensor.h"

namespace tessera::ops::detail {

/// Returns the bytes of all elements, from shape and dtype only.
inline double bytes_of(const Tensor& tensor) {
  return static_cast<double>(tensor.numel()) * static_cast<double>(itemsize(tensor.dtype()));
}

}  // namespace tessera::ops::detail
