// rope. A thread computes the angles of N pairs at one position and rotates these pairs in vectors that share the
// position, such as those of all heads, so that angles need neither memory nor another kernel.
//
// If the halves of a vector have 1, 2, 4, 8 or 16 items, a warp rotates tiles of adjacent positions, which it reads and
// writes in lines of memory and exchanges through shared memory, where the next tiles arrive in the meantime.
#include "tessera/ops/cuda/strided.cuh"
#include "tessera/ops/nn/cuda/copy_ahead.cuh"
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

// Computes the angles of the pairs of an item at a place.
template <class T, int N>
__device__ void angles_of(const RopeCall& call, std::int64_t place, std::int64_t item, T (&cosines)[N], T (&sines)[N]) {
  const auto position = static_cast<double>(position_at(call, place));
#pragma unroll
  for (int k = 0; k < N; ++k) {
    angle_of(position, call.frequencies[item * N + k], cosines[k], sines[k]);
    if (call.is_inverse) sines[k] = -sines[k];
  }
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
        angles_of(call, place[2], item, cosines, sines);
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

// The vectors of a tile that a thread copies: index lane and lane + 32 in the order of memory.
template <class Form>
class RopeTiles {
 public:
  __device__ RopeTiles(const RopeCall& call, std::int64_t first_place, uint4* cells)
      : call_(call), cells_(cells + threadIdx.x % 32), row_(blockIdx.y) {
    const int per_place = 2 * static_cast<int>(call.items);
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const int index = static_cast<int>(threadIdx.x) % 32 + 32 * j;
      std::int64_t place = first_place + index / per_place;
      has_[j] = place < call.places.numel;
      if (!has_[j]) place = first_place;
      std::int64_t at[3];
      offsets_at(call.places, place, at);
      to_[j] = call.out + (at[0] * kItem + index % per_place * 16);
      from_[j] = call.x + (at[1] * kItem + index % per_place * 16);
    }
  }

  // Starts to copy the next tile to a stage, if there is one.
  __device__ void fetch(int stage) {
    if (row_ < call_.group * call_.groups.numel) {
      std::int64_t at[2];
      find(row_, at);
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        if (has_[j]) copy_ahead(cells_ + stage * kRopeTile + 32 * j, from_[j] + at[1] * kItem);
      }
    }
    end_copies();
    row_ += gridDim.y;
  }
  // Writes a tile.
  __device__ void write(int stage, std::int64_t row) const {
    std::int64_t at[2];
    find(row, at);
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      if (has_[j]) *reinterpret_cast<uint4*>(to_[j] + at[0] * kItem) = cells_[stage * kRopeTile + 32 * j];
    }
  }

 private:
  static constexpr std::int64_t kItem = 16 / Form::N;

  // Computes the offsets of a vector that shares the angles.
  __device__ void find(std::int64_t row, std::int64_t (&at)[2]) const {
    at[0] = at[1] = 0;
    if (call_.groups.numel > 1) {
      offsets_at(call_.groups, row / call_.group, at);
      row %= call_.group;
    }
#pragma unroll
    for (int o = 0; o < 2; ++o) at[o] += row * call_.group_steps[o];
  }

  const RopeCall& call_;
  uint4* cells_;
  std::int64_t row_;
  std::byte* to_[2];
  const std::byte* from_[2];
  bool has_[2];
};

template <class Form>
__device__ void rotate_tiles(const RopeCall& call) {
  constexpr int N = Form::N;
  constexpr int kStages = kRopeTilesAhead + 1;
  constexpr int kWarps = kRopeThreads / 32;
  __shared__ uint4 shared[kWarps][kStages * kRopeTile];
  const auto lane = static_cast<int>(threadIdx.x) % 32;
  const auto warp = static_cast<int>(threadIdx.x) / 32;
  const auto items = static_cast<int>(call.items);
  const std::int64_t first_place = (static_cast<std::int64_t>(blockIdx.x) * kWarps + warp) * (32 / items);
  if (first_place >= call.places.numel) return;
  RopeTiles<Form> tiles(call, first_place, shared[warp]);
#pragma unroll 1
  for (int s = 0; s < kRopeTilesAhead; ++s) tiles.fetch(s);
  const int item = lane % items;
  std::int64_t place = first_place + lane / items;
  if (place >= call.places.numel) place = first_place;
  std::int64_t at[3];
  offsets_at(call.places, place, at);
  float cosines[N];
  float sines[N];
  angles_of(call, at[2], item, cosines, sines);
  // The vectors of this thread in a tile.
  const int first = lane / items * 2 * items + (call.is_interleaved ? 2 * item : item);
  const int second = first + (call.is_interleaved ? 1 : items);
  int stage = 0;
  for (std::int64_t row = blockIdx.y; row < call.group * call.groups.numel; row += gridDim.y) {
    tiles.fetch((stage + kRopeTilesAhead) % kStages);
    wait_for_copies<kRopeTilesAhead>();
    __syncwarp();  // all lanes have waited for their copies
    uint4* cells = &shared[warp][stage * kRopeTile];
    float a[N];
    float b[N];
    unpack<Form>(a, cells[first]);
    unpack<Form>(b, cells[second]);
    turn_pairs(a, b, cosines, sines, call.is_interleaved);
    cells[first] = pack<Form>(a);
    cells[second] = pack<Form>(b);
    __syncwarp();
    tiles.write(stage, row);
    stage = (stage + 1) % kStages;
  }
  wait_for_copies<0>();
}

}  // namespace

#define TESSERA_ROPE_KERNEL(name, body)                                                                       \
  extern "C" __global__ void __launch_bounds__(kRopeThreads, 5) name(const __grid_constant__ RopeCall call) { \
    body(call);                                                                                               \
  }
TESSERA_ROPE_KERNEL(rope_float, rotate<FloatForm>)
TESSERA_ROPE_KERNEL(rope_bf16, rotate<Bf16Form>)
TESSERA_ROPE_KERNEL(rope_f16, rotate<F16Form>)
TESSERA_ROPE_KERNEL(rope_any, rotate<AnyForm>)
TESSERA_ROPE_KERNEL(rope_double, rotate<DoubleForm>)
TESSERA_ROPE_KERNEL(rope_tiles_float, rotate_tiles<FloatForm>)
TESSERA_ROPE_KERNEL(rope_tiles_bf16, rotate_tiles<Bf16Form>)
TESSERA_ROPE_KERNEL(rope_tiles_f16, rotate_tiles<F16Form>)

}  // namespace tessera::ops::cuda
