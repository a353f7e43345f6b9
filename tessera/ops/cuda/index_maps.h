// Index maps of shards (layout/arithmetic.h) as plain data, passed to a launch by value.
#pragma once

#include <cstdint>

#include "tessera/ops/detail/philox.h"

namespace tessera::layout {
struct IndexMap;
}  // namespace tessera::layout

namespace tessera::ops::cuda {

/// The indices of one dimension that a shard holds; see layout::IndexMap.
struct DeviceIndexMap {
  static constexpr int kMaxLevels = 4;

  bool is_whole = true;  // local and global indices are equal; the other members are not used
  std::int32_t nlevels = 0;
  std::int64_t offset = 0;
  std::int64_t block = 1;
  std::int64_t counts[kMaxLevels] = {};
  std::int64_t strides[kMaxLevels] = {};

  /// Returns the global index of a local index.
  TESSERA_HOST_DEVICE std::int64_t global(std::int64_t local) const {
    if (is_whole) return local;
    if (nlevels == 0) return offset + local;
    std::int64_t at = offset + local % block;
    local /= block;
    for (int l = nlevels; l-- > 0; local /= counts[l]) at += local % counts[l] * strides[l];
    return at;
  }
  /// Returns the local index of a global index; -1 if the shard does not hold it.
  TESSERA_HOST_DEVICE std::int64_t local(std::int64_t global) const {
    if (is_whole) return global;
    if (global < offset) return -1;
    std::int64_t rest = global - offset;
    std::int64_t at = 0;
    for (int l = 0; l < nlevels; ++l) {
      const std::int64_t place = rest / strides[l];
      if (place >= counts[l]) return -1;
      rest -= place * strides[l];
      at = at * counts[l] + place;
    }
    return rest < block ? at * block + rest : -1;
  }
};

/// Converts a map; the default map is complete. Throws NotSupported, which names `op`, above kMaxLevels levels.
DeviceIndexMap device_map(const layout::IndexMap& map, const char* op);

}  // namespace tessera::ops::cuda
