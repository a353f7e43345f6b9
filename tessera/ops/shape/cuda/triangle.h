// Arguments of the kernels in triangle.cu, shared by host and device.
#pragma once

#include "tessera/ops/cuda/index_maps.h"
#include "tessera/ops/cuda/walk.h"

namespace tessera::ops::cuda {

/// A copy of one side of a diagonal, zeros on the other side.
struct TriangleCopy {
  void* to = nullptr;
  const void* from = nullptr;
  std::int64_t last = 0;  // last column of the lower side in row 0
  bool is_lower = true;   // keeps the lower side
  DeviceIndexMap rows, columns;
  Walk walk;  // over groups of columns: to, from, local row, local column
};

}  // namespace tessera::ops::cuda
