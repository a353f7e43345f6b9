// rope. A thread computes the angles of N pairs at one position and rotates these pairs in vectors that share the
// position, such as those of all heads, so that angles need neither memory nor another kernel. The first vectors are
// loaded while the angles are computed.
#include "tessera/ops/cuda/strided.cuh"
#include "tessera/ops/nn/cuda/rope_call.h"
#include "tessera/ops/nn/cuda/row_cursor.cuh"

namespace tessera::ops::cuda {
namespace {

constexpr double kPerTurn = 0.15915494309189533577;  // 1 / (2 pi)

__device__ __noinline__ std::int64_t position_at(const RopeCall& call, std::int64_t at) {
  if (call.positions != nullptr) return load<std::int64_t>(call.positions, call.positions_dtype, at);
  if (!call.has_map) return call.offset + at;
  std::int64_t index = call.map_offset + at % call.block;
  at /= call.block;
#pragma unroll 1
  for (int l = call.nlevels; l-- > 0;) {
    index += at % call.counts[l] * call.strides[l];
    at /= call.counts[l];
  }
  return call.offset + index;
}

// The angle is reduced to half a turn in double, so that the result is accurate at any position.
__device__ void angle_of(double position, double frequency, float& cosine, float& sine) {
  const double turns = position * (frequency * kPerTurn);
  sincospif(static_cast<float>(2 * (turns - rint(turns))), &sine, &cosine);
}
__device__ void angle_of(double position, double frequency, double& cosine, double& sine) {
  sincos(position * frequency, &sine, &cosine);
}

template <class T>
__device__ void turn(T& a, T& b, T cosine, T sine) {
  const T old = a;
  a = a * cosine - b * sine;
  b = b * cosine + old * sine;
}

// Rotates N pairs: a[k] with b[k], or neighbors in a and then in b.
template <class T, int N>
__device__ void turn_pairs(T (&a)[N], T (&b)[N], const T (&cosines)[N], const T (&sines)[N], bool is_interleaved) {
  if constexpr (N > 1) {
    if (is_interleaved) {
#pragma unroll
      for (int k = 0; k < N; k += 2) {
        turn(a[k], a[k + 1], cosines[k / 2], sines[k / 2]);
        turn(b[k], b[k + 1], cosines[N / 2 + k / 2], sines[N / 2 + k / 2]);
      }
      return;
    }
  }
#pragma unroll
  for (int k = 0; k < N; ++k) turn(a[k], b[k], cosines[k], sines[k]);
}

template <class Form>
__device__ RowCursor<Form> vector_at(const std::byte* data, std::int64_t at, std::int64_t step, DType dtype) {
  RowCursor<Form> vector;
  const std::int64_t item = Form::N == 1 ? static_cast<std::int64_t>(itemsize(dtype)) : 16 / Form::N;
  vector.at = const_cast<std::byte*>(data) + at * item;
  vector.step = step;
  vector.dtype = dtype;
  return vector;
}

template <class Form>
__device__ void rotate(const RopeCall& call) {
  using T = typename Form::T;
  constexpr int N = Form::N;
  constexpr int kUnroll = N == 1 ? 2 : 4;
  const std::int64_t thread = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (thread >= call.items * call.places.numel) return;
  const std::int64_t item = thread % call.items;
  std::int64_t place[3];
  offsets_at(call.places, thread / call.items, place);
  const bool is_pair = item < call.pair_items;
  const std::int64_t pair = call.first_pair + item * N;
  std::int64_t first = call.is_interleaved ? 2 * pair : pair;
  std::int64_t second = call.is_interleaved ? first + N : pair + call.pairs;
  if (!is_pair) {
    first = 2 * call.pairs + (item - call.pair_items) * 2 * N;
    second = first + N;
  }
  const bool has_second = second < call.length;
  bool has_angles = !is_pair;
  T cosines[N];
  T sines[N];
  for (std::int64_t group = blockIdx.z; group < call.groups.numel; group += gridDim.z) {
    std::int64_t at[2];
    offsets_at(call.groups, group, at);
    for (std::int64_t start = blockIdx.y; start < call.group; start += std::int64_t{kUnroll} * gridDim.y) {
      typename Form::Raw raw[kUnroll][2];
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) {
        const std::int64_t row = start + std::int64_t{u} * gridDim.y;
        if (row >= call.group) continue;
        const auto from =
            vector_at<Form>(call.x, place[1] + at[1] + row * call.group_steps[1], call.x_step, call.dtype);
        raw[u][0] = from.read(first);
        if (has_second) raw[u][1] = from.read(second);
      }
      if (!has_angles) {
        const auto position = static_cast<double>(position_at(call, place[2]));
#pragma unroll
        for (int k = 0; k < N; ++k) {
          angle_of(position, call.frequencies[item * N + k], cosines[k], sines[k]);
          if (call.is_inverse) sines[k] = -sines[k];
        }
        has_angles = true;
      }
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) {
        const std::int64_t row = start + std::int64_t{u} * gridDim.y;
        if (row >= call.group) continue;
        T a[N];
        T b[N];
        unpack<Form>(a, raw[u][0]);
        unpack<Form>(b, raw[u][1]);
        if (is_pair) turn_pairs(a, b, cosines, sines, call.is_interleaved);
        const auto to =
            vector_at<Form>(call.out, place[0] + at[0] + row * call.group_steps[0], call.out_step, call.dtype);
        to.write(a, first);
        if (has_second) to.write(b, second);
      }
    }
  }
}

}  // namespace

#define TESSERA_ROPE_KERNEL(name, form)                                                                       \
  extern "C" __global__ void __launch_bounds__(kRopeThreads, 5) name(const __grid_constant__ RopeCall call) { \
    rotate<form>(call);                                                                                       \
  }
TESSERA_ROPE_KERNEL(rope_float, FloatForm)
TESSERA_ROPE_KERNEL(rope_bf16, Bf16Form)
TESSERA_ROPE_KERNEL(rope_f16, F16Form)
TESSERA_ROPE_KERNEL(rope_any, AnyForm)
TESSERA_ROPE_KERNEL(rope_double, DoubleForm)

}  // namespace tessera::ops::cuda
