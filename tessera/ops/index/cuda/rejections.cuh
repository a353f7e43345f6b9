// Device side of rejections.h.
#pragma once

#include "tessera/ops/cuda/elements.cuh"
#include "tessera/ops/index/cuda/rejections.h"

namespace tessera::ops::cuda {

/// Reports a rejected value.
__device__ inline void reject(const Rejection& to, Rejected why, std::int64_t value, std::int64_t bound,
                              std::int64_t detail) {
  auto* record = static_cast<volatile std::int64_t*>(to.record);
  record[1] = bound;
  record[2] = detail;
  record[0] = value;
  __threadfence_system();
  record[3] = to.op << 8 | (static_cast<std::int64_t>(why) + 1);
  __threadfence_system();
  *static_cast<volatile std::int64_t*>(to.has_report) = 1;
}

/// Returns the index at an offset in elements; -1, which it reports, if it is out of range.
__device__ inline std::int64_t checked_index(const CheckedIndex& of, std::int64_t offset) {
  const std::int64_t index = load<std::int64_t>(of.from, of.dtype, offset);
  if (index >= 0 && index < of.size) return index;
  reject(of.rejection, Rejected::kIndex, index, of.size, of.dim);
  return -1;
}

}  // namespace tessera::ops::cuda
