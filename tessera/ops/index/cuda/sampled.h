// Arguments of the kernels in sampled.cu, shared by host and device.
#pragma once

#include "tessera/ops/cuda/walk.h"
#include "tessera/ops/index/cuda/rejections.h"

namespace tessera::ops::cuda {

/// A call of sample_index. A line is a distribution.
struct SampledLines {
  std::int64_t* to = nullptr;
  const void* probabilities = nullptr;
  const void* uniforms = nullptr;
  double* sums = nullptr;  // [lines][classes], cumulative
  DType p_dtype = DType::kF32;
  DType u_dtype = DType::kF32;
  std::int64_t classes = 0;
  std::int64_t count = 0;  // samples of a line
  std::int64_t step[3];    // along a line: result, probabilities, uniforms
  Rejection rejection;
  Walk lines;  // result, probabilities, uniforms
};

}  // namespace tessera::ops::cuda
