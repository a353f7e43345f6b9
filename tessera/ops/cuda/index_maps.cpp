#include "tessera/ops/cuda/index_maps.h"

#include "tessera/base/error.h"
#include "tessera/layout/arithmetic.h"

namespace tessera::ops::cuda {

DeviceIndexMap device_map(const layout::IndexMap& map, const char* op) {
  DeviceIndexMap made;
  if (map == layout::IndexMap()) return made;
  TESSERA_CHECK_AS(NotSupported, map.levels.size() <= DeviceIndexMap::kMaxLevels, op,
                   ": a dimension must be sharded into blocks at most ", DeviceIndexMap::kMaxLevels, " times, got ",
                   map.levels.size(), "; redistribute the tensor");
  made.is_whole = false;
  made.nlevels = static_cast<std::int32_t>(map.levels.size());
  made.offset = map.offset;
  made.block = map.block > 0 ? map.block : 1;
  for (std::size_t l = 0; l < map.levels.size(); ++l) {
    made.counts[l] = map.levels[l].count;
    made.strides[l] = map.levels[l].stride;
  }
  return made;
}

}  // namespace tessera::ops::cuda
