// sample_index: cumulative probabilities in the order and type of the host, then a binary search per number.
#include "tessera/ops/cuda/strided.cuh"
#include "tessera/ops/index/cuda/rejections.cuh"
#include "tessera/ops/index/cuda/sampled.h"

namespace tessera::ops::cuda {
namespace {

__device__ double number_at(const void* from, DType dtype, std::int64_t at) {
  return dtype == DType::kF64 ? static_cast<const double*>(from)[at]
                              : static_cast<double>(load<float>(from, dtype, at));
}

}  // namespace

// One warp per line. All lanes add the numbers of all lanes one after the other, so that each sum is rounded as on the
// host, while the next 32 numbers are loaded.
extern "C" __global__ void __launch_bounds__(256) sum_probabilities(const __grid_constant__ SampledLines of) {
  const int lane = threadIdx.x % 32;
  const std::int64_t warps = std::int64_t{gridDim.x} * (blockDim.x / 32);
  for (std::int64_t line = std::int64_t{blockIdx.x} * (blockDim.x / 32) + threadIdx.x / 32; line < of.lines.numel;
       line += warps) {
    std::int64_t at[3];
    offsets_at(of.lines, line, at);
    const auto load_next = [&](std::int64_t first) {
      const std::int64_t i = first + lane;
      return i < of.classes ? number_at(of.probabilities, of.p_dtype, at[1] + i * of.step[1]) : 0.0;
    };
    double sum = 0;
    double next = load_next(0);
    for (std::int64_t first = 0; first < of.classes; first += 32) {
      const double value = next;
      next = load_next(first + 32);
      if (!(value >= 0 && value <= 1.7976931348623157e308)) {
        reject(of.rejection, Rejected::kProbability, __double_as_longlong(value), of.classes, 0);
      }
      double mine = 0;
#pragma unroll
      for (int k = 0; k < 32; ++k) {
        sum = __dadd_rn(sum, __shfl_sync(0xffffffffU, value, k));
        if (k == lane) mine = sum;
      }
      if (first + lane < of.classes) of.sums[line * of.classes + first + lane] = mine;
    }
    if (lane == 0 && !(sum > 0)) reject(of.rejection, Rejected::kNoProbability, 0, of.classes, 0);
  }
}

// Finds the first sum above u * total, but never a class after the last one with a probability above 0.
extern "C" __global__ void __launch_bounds__(256) find_classes(const __grid_constant__ SampledLines of) {
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
  const std::int64_t all = of.lines.numel * of.count;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < all; i += stride) {
    const std::int64_t line = i / of.count;
    const std::int64_t sample = i - line * of.count;
    std::int64_t at[3];
    offsets_at(of.lines, line, at);
    const double* sums = of.sums + line * of.classes;
    const double total = sums[of.classes - 1];
    const double wanted = __dmul_rn(number_at(of.uniforms, of.u_dtype, at[2] + sample * of.step[2]), total);
    std::int64_t low = 0;
    std::int64_t high = of.classes;
    while (low < high) {
      const std::int64_t middle = low + (high - low) / 2;
      const double sum = sums[middle];
      // The sums from the first one that reaches the total on are equal.
      if (sum <= wanted && sum < total) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    of.to[at[0] + sample * of.step[0]] = low;
  }
}

}  // namespace tessera::ops::cuda
