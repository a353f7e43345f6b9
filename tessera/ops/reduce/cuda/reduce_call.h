// Arguments of a reduction kernel, shared by host and device code. The kernels are in reduce_kernels.cu.
#pragma once

#include <cstdint>

#include "tessera/base/dtype.h"
#include "tessera/ops/cuda/walk.h"

namespace tessera::ops::cuda {

/// Elements that are added before they are added to the sum of a thread.
inline constexpr int kRun = 4;
/// Threads per block of the kernel by columns, in both dimensions.
inline constexpr int kColumnsAcross = 32;
inline constexpr int kColumnsDeep = 8;

/// A launch of a reduction.
struct ReduceCall {
  const void* from;
  void* to;
  void* partial;         // sums of chunks, result by result within a chunk; null if there is one chunk
  std::int64_t results;  // number of results
  std::int64_t reduced;  // elements per result
  std::int64_t stretch;  // elements per result and chunk: a multiple of kRun
  double divisor;        // divisor of the sum, if the reduction has one
  DType in;
  DType out;
  bool has_divisor;
  bool is_truth;       // adds 1 for each nonzero element
  bool has_vectors;    // runs of kRun elements are contiguous and aligned
  std::int32_t group;  // by rows in warps: threads per result, a power of two up to 32
  std::int32_t stretches;
  Walk kept;    // result, input
  Walk folded;  // input; in runs if has_vectors is set
};

}  // namespace tessera::ops::cuda
