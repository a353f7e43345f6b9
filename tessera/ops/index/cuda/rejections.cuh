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

/// Returns the index at an offset in elements, unchecked.
__device__ inline std::int64_t index_at(const CheckedIndex& of, std::int64_t offset) {
  if (of.dtype == DType::kI64) return static_cast<const std::int64_t*>(of.from)[offset];
  if (of.dtype == DType::kI32) return static_cast<const std::int32_t*>(of.from)[offset];
  return elements::load_any<std::int64_t>(of.from, of.dtype, offset);
}

/// Returns the index at an offset in elements; -1, which it reports, if it is out of range.
__device__ inline std::int64_t checked_index(const CheckedIndex& of, std::int64_t offset) {
  const std::int64_t index = index_at(of, offset);
  if (index >= 0 && index < of.size) return index;
  reject(of.rejection, Rejected::kIndex, index, of.size, of.dim);
  return -1;
}

}  // namespace tessera::ops::cuda
