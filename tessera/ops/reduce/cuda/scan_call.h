// Arguments of the kernels of cumsum and histc, in scan_lines.cu, shared by host and device code.
#pragma once

#include <cstdint>

#include "tessera/base/dtype.h"
#include "tessera/ops/cuda/walk.h"

namespace tessera::ops::cuda {

/// Adjacent elements of a line that a thread adds.
inline constexpr int kScanItems = 8;
/// Maximum number of bins that a block counts in its own memory.
inline constexpr std::int64_t kBlockBins = 4096;

/// A launch of cumsum. Strides are in elements.
struct ScanCall {
  const void* from;
  void* to;
  void* totals;  // of each chunk, line by line within a chunk; null if there is one chunk
  std::int64_t lines;
  std::int64_t length;  // elements of a line
  std::int64_t from_step;
  std::int64_t to_step;
  std::int64_t chunk;  // elements of a line per block
  DType in;
  DType out;
  bool finds_totals;   // writes totals, no sums
  bool has_vectors;    // four elements of a line are contiguous and aligned, in the order of addresses or against it
  std::int32_t group;  // threads per line of the kernel by rows: a power of two
  Walk kept;           // result, input
};

/// A launch of histc.
struct HistogramCall {
  const void* from;
  std::int64_t* to;
  std::int64_t to_step;
  std::int64_t bins;
  double low, high, scale;
  DType in;
  Walk elements;  // input
};

}  // namespace tessera::ops::cuda
