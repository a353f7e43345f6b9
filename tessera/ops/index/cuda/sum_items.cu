// Adds items with equal keys in the order of their places, in the compute type, and rounds once: with the bits of the
// host.
#include "tessera/ops/cuda/raw_vectors.cuh"
#include "tessera/ops/cuda/strided.cuh"
#include "tessera/ops/index/cuda/rejections.cuh"
#include "tessera/ops/index/cuda/sum_items.h"

namespace tessera::ops::cuda {
namespace {

__device__ std::int64_t first_item() { return std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; }
__device__ std::int64_t all_threads() { return std::int64_t{gridDim.x} * blockDim.x; }

__device__ void add_to(float& sum, float value) { sum = __fadd_rn(sum, value); }
__device__ void add_to(double& sum, double value) { sum = __dadd_rn(sum, value); }
// Sums wrap.
__device__ void add_to(std::int64_t& sum, std::int64_t value) {
  sum = static_cast<std::int64_t>(static_cast<std::uint64_t>(sum) + static_cast<std::uint64_t>(value));
}
__device__ void add_to(Complex<float>& sum, Complex<float> value) {
  add_to(sum.re, value.re);
  add_to(sum.im, value.im);
}

__device__ std::int64_t source_at(const Walk& places, std::int64_t place) {
  std::int64_t at[3];
  offsets_at(places, place, at);
  return at[1];
}

// One element or vector per thread: x of a row, then its slices.
template <class T>
__device__ void sum_elements(const ItemSums& of) {
  for (std::int64_t i = first_item(); i < of.outs.numel; i += all_threads()) {
    std::int64_t at[4];
    offsets_at(of.outs, i, at);
    T sum{};
    if (of.x != nullptr) sum = load<T>(of.x, of.dtype, at[1]);
    const std::uint32_t end = of.starts[at[3] + 1];
    for (std::uint32_t place = of.starts[at[3]]; place < end; ++place) {
      add_to(sum, load<T>(of.source, of.dtype, at[2] + source_at(of.at_places, of.places[place])));
    }
    store(sum, of.to, of.dtype, at[0]);
  }
}

__device__ void sum_vectors(const ItemSums& of) {
  for (std::int64_t i = first_item(); i < of.outs.numel; i += all_threads()) {
    std::int64_t at[4];
    offsets_at(of.outs, i, at);
    float sums[kSumVector] = {};
    if (of.x != nullptr) load_vector<kSumVector>(sums, of.x, of.dtype, at[1] * kSumVector);
    const std::uint32_t end = of.starts[at[3] + 1];
    for (std::uint32_t place = of.starts[at[3]]; place < end; place += kSlicesAhead) {
      RawVector<float, kSumVector> raw[kSlicesAhead];
#pragma unroll
      for (int k = 0; k < kSlicesAhead; ++k) {
        if (place + k >= end) continue;
        const std::int64_t from = at[2] * kSumVector + source_at(of.at_places, of.places[place + k]);
        load_raw(raw[k], of.source, of.dtype, from);
      }
#pragma unroll
      for (int k = 0; k < kSlicesAhead; ++k) {
        if (place + k >= end) continue;
        float values[kSumVector];
        convert_raw(values, raw[k], of.dtype);
#pragma unroll
        for (int e = 0; e < kSumVector; ++e) add_to(sums[e], values[e]);
      }
    }
    store_vector<kSumVector>(sums, of.to, of.dtype, at[0] * kSumVector);
  }
}

// The first place of each key adds all places of the key to the result.
template <class T>
__device__ void sum_heads(const ItemSums& of) {
  for (std::int64_t i = first_item(); i < of.count; i += all_threads()) {
    const std::uint32_t key = of.keys[i];
    if (key == of.nkeys || (i > 0 && of.keys[i - 1] == key)) continue;
    std::int64_t at[1];
    offsets_at(of.outs, key, at);
    T sum = load<T>(of.to, of.dtype, at[0]);
    for (std::int64_t p = i; p < of.count && of.keys[p] == key; ++p) {
      add_to(sum, load<T>(of.source, of.dtype, source_at(of.at_places, of.places[p])));
    }
    store(sum, of.to, of.dtype, at[0]);
  }
}

// The first place of each index in a line adds all places of the index to the result.
template <class T>
__device__ void sum_lines(const LineSums& of) {
  const std::int64_t index_step = of.places.steps[0][0];
  const std::int64_t source_step = of.places.steps[0][1];
  for (std::int64_t i = first_item(); i < of.places.numel; i += all_threads()) {
    std::int64_t at[3];
    offsets_at(of.places, i, at);
    const std::int64_t index = checked_index(of.index, at[0]);
    const std::int64_t here = i % of.length;
    bool is_first = index >= 0;
    for (std::int64_t p = 1; is_first && p <= here; ++p) is_first = index_at(of.index, at[0] - p * index_step) != index;
    if (!is_first) continue;
    const std::int64_t to = at[2] + index * of.step;
    T sum = load<T>(of.to, of.dtype, to);
    for (std::int64_t p = 0; here + p < of.length; ++p) {
      if (p > 0 && index_at(of.index, at[0] + p * index_step) != index) continue;
      add_to(sum, load<T>(of.source, of.dtype, at[1] + p * source_step));
    }
    store(sum, of.to, of.dtype, to);
  }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(256) find_starts(const __grid_constant__ ItemSums of) {
  for (std::int64_t key = first_item(); key <= of.nkeys; key += all_threads()) {
    std::uint32_t low = 0;
    std::uint32_t high = of.count;
    while (low < high) {
      const std::uint32_t middle = low + (high - low) / 2;
      if (of.keys[middle] < key) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    of.starts[key] = low;
  }
}

extern "C" __global__ void __launch_bounds__(256) sum_rows_vectors(const __grid_constant__ ItemSums of) {
  sum_vectors(of);
}

#define TESSERA_SUM_KERNELS(name, T)                                                                        \
  extern "C" __global__ void __launch_bounds__(256) sum_rows_##name(const __grid_constant__ ItemSums of) {  \
    sum_elements<T>(of);                                                                                    \
  }                                                                                                         \
  extern "C" __global__ void __launch_bounds__(256) sum_heads_##name(const __grid_constant__ ItemSums of) { \
    sum_heads<T>(of);                                                                                       \
  }                                                                                                         \
  extern "C" __global__ void __launch_bounds__(256) sum_lines_##name(const __grid_constant__ LineSums of) { \
    sum_lines<T>(of);                                                                                       \
  }
TESSERA_SUM_KERNELS(f32, float)
TESSERA_SUM_KERNELS(f64, double)
TESSERA_SUM_KERNELS(i64, std::int64_t)
TESSERA_SUM_KERNELS(c64, Complex<float>)

}  // namespace tessera::ops::cuda
