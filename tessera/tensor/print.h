// Tensors as text that people read:
//
//   f32[2, 3] on host
//   [[1.0, 2.5, 3.0],
//    [4.0,  nan, 6.0]]
//
// All numbers of a tensor share one format: as many decimals as the longest needs, up to `precision`, and powers of ten
// only where a number would otherwise be lost or run off the page. Large tensors show the first and the last elements
// of each dimension. Printing waits for the tensor's device.
#pragma once

#include <cstdint>
#include <string>

#include "tessera/base/export.h"
#include "tessera/tensor/tensor.h"

namespace tessera::tensor {

/// How tensors are printed.
struct PrintOptions {
  int precision = 4;              ///< most digits behind the point, 0 to 17
  std::int64_t threshold = 1000;  ///< tensors of more elements are elided
  std::int64_t edge_items = 3;    ///< elements shown at each end of an elided dimension, at least 1
  int line_width = 100;           ///< rows that are longer are wrapped
};

/// The whole text. Of a tensor with a layout: its global shape and layout, then this rank's part, said to be that. "no
/// tensor" of none. Waits for the device, and throws what is parked on it; refuses a tensor whose stream is captured.
TESSERA_API std::string to_string(const Tensor& tensor, const PrintOptions& options = {});

}  // namespace tessera::tensor
