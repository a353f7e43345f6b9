// Offsets and global indices of the elements of a new tensor, for kernels. The device side of detail::Places.
#pragma once

#include <cstdint>
#include <vector>

#include "tessera/ops/cuda/index_maps.h"

namespace tessera {
class Shape;
namespace tensor {
class Tensor;
}  // namespace tensor
}  // namespace tessera

namespace tessera::ops::cuda {

/// Elements of a strided or sharded result in the order of their local indices: sizes and strides, outermost first, and
/// the index map of each dimension.
struct DrawPlaces {
  static constexpr int kMaxDims = 12;

  std::int32_t ndim = 0;
  bool is_part = false;  // uses the maps; otherwise the global index equals the local index
  std::int64_t sizes[kMaxDims] = {};
  std::int64_t steps[kMaxDims] = {};
  std::int64_t global_sizes[kMaxDims] = {};
  DeviceIndexMap maps[kMaxDims] = {};

  /// Computes the offset in memory and the global index of element `i`, last dimension fastest.
  TESSERA_HOST_DEVICE void find(std::int64_t i, std::int64_t& offset, std::int64_t& global) const {
    offset = 0;
    global = is_part ? 0 : i;
    std::int64_t step = 1;
    for (int d = ndim; d-- > 0;) {
      const std::int64_t digit = i % sizes[d];
      i /= sizes[d];
      offset += digit * steps[d];
      if (!is_part) continue;
      global += maps[d].global(digit) * step;
      step *= global_sizes[d];
    }
  }
};

/// Returns the places of `out`; with maps, those of a shard of a tensor of shape `global`. Throws NotSupported, which
/// names `op`, for too many dimensions.
DrawPlaces places_of(const tensor::Tensor& out, const Shape& global, const std::vector<layout::IndexMap>& index,
                     const char* op);

}  // namespace tessera::ops::cuda
