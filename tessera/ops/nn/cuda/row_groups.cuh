// The threads that process one row: a warp, which holds a short row in registers, or a block, which reads a long row
// again for each pass. The order of sums depends only on the length.
//
// The group strides over a row; each thread takes N elements at a time:
//
//   thread 0: [0, N)  [width * N, width * N + N) ...    thread 1: [N, 2N) ...
#pragma once

#include <cstdint>

#include "tessera/ops/cuda/elements.cuh"
#include "tessera/ops/nn/cuda/device_rows.h"

namespace tessera::ops::cuda {

__device__ inline float exp_of(float x) { return expf(x); }
__device__ inline double exp_of(double x) { return exp(x); }
__device__ inline float log_of(float x) { return logf(x); }
__device__ inline double log_of(double x) { return log(x); }
__device__ inline float root_of(float x) { return __fsqrt_rn(x); }
__device__ inline double root_of(double x) { return __dsqrt_rn(x); }
__device__ inline float larger(float a, float b) { return fmaxf(a, b); }
__device__ inline double larger(double a, double b) { return fmax(a, b); }
template <class T>
__device__ constexpr T minus_infinity() {
  return -static_cast<T>(__builtin_huge_val());
}

/// Loads N elements of a row, starting at `i`.
template <int N, class T>
__device__ inline void load_row(T (&to)[N], const DeviceRows& rows, std::int64_t place, std::int64_t i) {
  if constexpr (N == 1) {
    to[0] = load<T>(rows.data, rows.dtype, place + i * rows.step);
  } else {
    load_vector<N>(to, rows.data, rows.dtype, place + i);
  }
}
/// Stores N elements of a row, starting at `i`.
template <int N, class T>
__device__ inline void store_row(const T (&from)[N], const DeviceRows& rows, std::int64_t place, std::int64_t i) {
  if constexpr (N == 1) {
    store(from[0], rows.data, rows.dtype, place + i * rows.step);
  } else {
    store_vector<N>(from, rows.data, rows.dtype, place + i);
  }
}

/// A warp that processes one row.
struct WarpGroup {
  static constexpr bool kHoldsRow = true;
  __device__ static int index() { return static_cast<int>(threadIdx.x % 32); }
  __device__ static int width() { return 32; }
  __device__ static std::int64_t first_row() {
    return static_cast<std::int64_t>(blockIdx.x) * (blockDim.x / 32) + threadIdx.x / 32;
  }
  __device__ static std::int64_t row_step() { return static_cast<std::int64_t>(gridDim.x) * (blockDim.x / 32); }
  /// Reduces `a` of all threads with the commutative `f`; all threads receive the result.
  template <class V, class F>
  __device__ static V all(V a, const F& f) {
#pragma unroll
    for (int by = 16; by > 0; by /= 2) a = f(a, a.other(by));
    return a;
  }
};

/// A block of full warps that processes one row.
struct BlockGroup {
  static constexpr bool kHoldsRow = false;
  __device__ static int index() { return static_cast<int>(threadIdx.x); }
  __device__ static int width() { return static_cast<int>(blockDim.x); }
  __device__ static std::int64_t first_row() { return blockIdx.x; }
  __device__ static std::int64_t row_step() { return gridDim.x; }
  template <class V, class F>
  __device__ static V all(V a, const F& f) {
    __shared__ V of_warps[32];
    a = WarpGroup::all(a, f);
    __syncthreads();  // waits for the readers of of_warps in the previous call
    if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = a;
    __syncthreads();
    // Each warp reduces all values in the same order, so that all have the same bits.
    const unsigned warps = blockDim.x / 32;
    a = of_warps[0];
    for (unsigned i = 1; i < warps; ++i) a = f(a, of_warps[i]);
    return a;
  }
};

/// One value per group.
template <class T>
struct One {
  T value;
  __device__ One other(int by) const { return {__shfl_xor_sync(0xffffffffU, value, by)}; }
};
template <class Group, class T>
__device__ T sum_of_all(T value) {
  return Group::all(One<T>{value}, [](One<T> a, One<T> b) { return One<T>{a.value + b.value}; }).value;
}
template <class Group, class T>
__device__ T max_of_all(T value) {
  return Group::all(One<T>{value}, [](One<T> a, One<T> b) { return One<T>{larger(a.value, b.value)}; }).value;
}

/// Calls body(chunk, i) for each group of N elements of a row that belongs to this thread. `chunk` counts the groups;
/// it is a compile-time constant if the group holds the row.
template <class Group, int N, class F>
__device__ inline void for_chunks(std::int64_t length, const F& body) {
  if constexpr (Group::kHoldsRow) {
#pragma unroll
    for (int chunk = 0; chunk < kShortRow / (32 * N); ++chunk) {
      const int i = (chunk * 32 + Group::index()) * N;
      if (i < length) body(chunk, static_cast<std::int64_t>(i));
    }
  } else {
    for (std::int64_t i = static_cast<std::int64_t>(Group::index()) * N; i < length;
         i += static_cast<std::int64_t>(Group::width()) * N) {
      body(0, i);
    }
  }
}

/// The values of a row: in registers, or read at every pass.
template <class Group, int N, class T>
struct RowValues {
  static constexpr int kChunks = Group::kHoldsRow ? static_cast<int>(kShortRow / (32 * N)) : 1;
  T values[kChunks][N];

  /// Returns the values of a chunk, loaded at the first pass or at every pass.
  __device__ T (&read(const DeviceRows& rows, std::int64_t place, int chunk, std::int64_t i, bool is_first))[N] {
    if (!Group::kHoldsRow || is_first) load_row<N>(values[chunk], rows, place, i);
    return values[chunk];
  }
};

/// Defines the forms of a kernel whose body is a function template name<Group, T, N>(args).
#define TESSERA_ROW_FORM(name, suffix, group, type, n, threads, parameters, arguments) \
  extern "C" __global__ void __launch_bounds__(threads) name##_##suffix parameters {   \
    name##_rows<group, type, n> arguments;                                             \
  }
#define TESSERA_ROW_FORMS(name, parameters, arguments)                                 \
  TESSERA_ROW_FORM(name, f32_short1, WarpGroup, float, 1, 128, parameters, arguments)  \
  TESSERA_ROW_FORM(name, f32_short4, WarpGroup, float, 4, 128, parameters, arguments)  \
  TESSERA_ROW_FORM(name, f32_short8, WarpGroup, float, 8, 128, parameters, arguments)  \
  TESSERA_ROW_FORM(name, f32_long1, BlockGroup, float, 1, 1024, parameters, arguments) \
  TESSERA_ROW_FORM(name, f32_long4, BlockGroup, float, 4, 1024, parameters, arguments) \
  TESSERA_ROW_FORM(name, f32_long8, BlockGroup, float, 8, 1024, parameters, arguments) \
  TESSERA_ROW_FORM(name, f64_short1, WarpGroup, double, 1, 128, parameters, arguments) \
  TESSERA_ROW_FORM(name, f64_long1, BlockGroup, double, 1, 1024, parameters, arguments)

}  // namespace tessera::ops::cuda
