// Human-readable text of tensors:
//
//   f32[2, 3] on host
//   [[1.0, 2.5, 3.0],
//    [4.0,  nan, 6.0]]
//
// All numbers of a tensor share one format: as many decimals as the longest number needs, up to `precision`. Powers of
// ten are used only if numbers would otherwise become 0 or too long. Large tensors show the first and the last elements
// of each dimension. Printing waits for the device of the tensor.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>

#include "tessera/base/export.h"
#include "tessera/tensor/tensor.h"

namespace tessera::tensor {

/// Format of printed tensors.
struct PrintOptions {
  int precision = 4;              ///< Maximum number of decimals, 0 to 17.
  std::int64_t threshold = 1000;  ///< Tensors with more elements are elided.
  std::int64_t edge_items = 3;    ///< Elements shown at each end of an elided dimension, at least 1.
  int line_width = 100;           ///< Longer rows are wrapped.
};

/// Returns the text of a tensor. For a tensor with a layout: the global shape, the layout and the local shard, marked
/// as such. For an empty handle: "no tensor". Waits for the device and throws its pending error. Throws InvalidArgument
/// if the current stream of the device is being captured.
TESSERA_API std::string to_string(const Tensor& tensor, const PrintOptions& options = {});
/// Writes to_string(tensor).
TESSERA_API std::ostream& operator<<(std::ostream& out, const Tensor& tensor);

}  // namespace tessera::tensor
