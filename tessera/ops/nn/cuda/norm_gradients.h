// Arguments of the kernels in norm_gradients.cu, for the host and the device.
#pragma once

#include "tessera/ops/nn/cuda/device_rows.h"

namespace tessera::ops::cuda {

/// Vectors of 16 bytes of a row per thread. Few, because each thread keeps the sums of their columns.
inline constexpr int kGradientVectors = 2;
/// Threads of a block, which a multiprocessor holds alone.
inline constexpr int kGradientThreads = 512;
/// Rows of a group that are copied to shared memory ahead of the current one.
inline constexpr int kGradientRowsAhead = 2;

/// A call over rows of vectors.
struct NormGradientCall {
  DeviceRows grad, x, weight, mean, rstd, dx;  // mean: only layer_norm
  float* parts = nullptr;                      // sums of each block: [blocks, length] for the weight, then for the bias
};

}  // namespace tessera::ops::cuda
