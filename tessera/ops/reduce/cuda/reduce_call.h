// Arguments of a reduction kernel, shared by host and device code. The kernels are in reduce_kernels.cu.
#pragma once

#include <cstdint>

#include "tessera/base/dtype.h"
#include "tessera/ops/cuda/walk.h"
#include "tessera/ops/reduce/detail/fold_steps.h"

namespace tessera::ops::cuda {

/// Elements of a run, which a thread loads as one vector. Runs of f32, bf16 and f16 have 16 bytes in sums.
inline constexpr int kRun = 4;
/// Maximum elements of a run. Chunks are multiples of it.
inline constexpr int kLongestRun = 8;
/// Threads per block of the kernel by columns, in both dimensions.
inline constexpr int kColumnsAcross = 32;
inline constexpr int kColumnsDeep = 8;
/// Maximum levels of the index map of a sharded dimension.
inline constexpr int kMaxReduceLevels = 4;

/// The global indices of a shard, as layout::IndexMap.
struct ReduceMap {
  std::int64_t offset;
  std::int64_t block;  // 0: no map, indices are local
  std::int64_t counts[kMaxReduceLevels];
  std::int64_t strides[kMaxReduceLevels];
  std::int32_t levels;
};

/// What a reduction does with its elements.
struct FoldRule {
  double parameter;    // of the map or the finish
  std::int64_t limit;  // the result of no elements, for maxima and minima of integers
  detail::Fold fold;
  detail::Map map;
  detail::Finish finish;
};

/// A launch of a reduction.
struct ReduceCall : FoldRule {
  const void* from;
  void* to;
  void* partial;         // values of chunks, result by result within a chunk; null if there is one chunk
  std::int64_t results;  // number of results
  std::int64_t reduced;  // elements per result
  std::int64_t stretch;  // elements per result and chunk: a multiple of kLongestRun
  DType in;
  DType out;
  bool has_vectors;    // runs are contiguous and aligned
  std::int32_t group;  // threads per result: a power of two up to the threads of a block
  std::int32_t stretches;
  Walk kept;        // result, input
  Walk folded;      // input; in runs if has_vectors is set
  ReduceMap shard;  // of the dimension that argmax and argmin search
};

}  // namespace tessera::ops::cuda
