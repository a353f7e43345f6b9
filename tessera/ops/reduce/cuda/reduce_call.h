// What a launch of a reduction is given; the same for host and device code. Kernels are in reduce_kernels.cu.
#pragma once

#include <cstdint>

#include "tessera/base/dtype.h"
#include "tessera/ops/cuda/walk.h"

namespace tessera::ops::cuda {

/// Elements that are added before they go to a thread's sum.
inline constexpr int kRun = 4;
/// Threads side by side, and one below the other, of the kernel by columns.
inline constexpr int kColumnsAcross = 32;
inline constexpr int kColumnsDeep = 8;

/// See the head of this file.
struct ReduceCall {
  const void* from;
  void* to;
  void* partial;         // sums of stretches, result by result within a stretch; null: there is one stretch
  std::int64_t results;  // how many
  std::int64_t reduced;  // elements to each of them
  std::int64_t stretch;  // of them, those that are added in one go: a multiple of kRun
  double divisor;        // of the sum, where it has one
  DType in;
  DType out;
  bool has_divisor;
  bool is_truth;       // adds up 1 for what is not zero
  bool has_vectors;    // runs of kRun elements lie dense and aligned
  std::int32_t group;  // by rows in warps: threads to a result, a power of two up to 32
  std::int32_t stretches;
  Walk kept;    // result, input
  Walk folded;  // input; of runs where has_vectors is set
};

}  // namespace tessera::ops::cuda
