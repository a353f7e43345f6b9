// Arguments of the kernels in swiglu_rows.cu, for the host and the device.
#pragma once

#include <cstdint>

#include "tessera/base/dtype.h"

namespace tessera::ops::cuda {

inline constexpr int kMaxSwigluDims = 8;
inline constexpr int kMaxSwigluOperands = 5;

/// The results and the inputs of a call, over elements in the memory order of the first result: runs of `run` elements,
/// `step` apart in each operand, and dimensions of runs, innermost first.
struct SwigluCall {
  std::byte* data[kMaxSwigluOperands] = {};  // out, a, b; or da, db, grad, a, b
  DType dtypes[kMaxSwigluOperands] = {};
  std::int32_t ndim = 0;
  std::int64_t run = 1;
  std::int64_t runs = 1;
  std::int64_t steps[kMaxSwigluOperands] = {};
  std::int64_t sizes[kMaxSwigluDims] = {};
  std::int64_t strides[kMaxSwigluDims][kMaxSwigluOperands] = {};
};

}  // namespace tessera::ops::cuda
