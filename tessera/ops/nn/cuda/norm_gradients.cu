// All gradients of layer_norm and rms_norm in one pass, for rows of vectors that a block holds.
//
// Blocks stay: each takes every gridDim-th row and keeps the sums of its columns for the parameters in registers. The
// next rows are copied to shared memory in the meantime. Each thread copies only what it reads itself, so that no
// barrier is needed. At the end, the rows of a block are added in order, and the block writes its sums;
// norm_parameter_sums adds those of all blocks in order. The order depends on the number of rows and of
// multiprocessors.
#include "tessera/ops/nn/cuda/copy_ahead.cuh"
#include "tessera/ops/nn/cuda/norm_gradients.h"
#include "tessera/ops/nn/cuda/row_groups.cuh"

namespace tessera::ops::cuda {
namespace {

extern __shared__ uint4 shared_vectors[];

template <class Form, bool kIsLayer>
class Gradients {
 public:
  static constexpr int N = Form::N;

  __device__ Gradients(const NormGradientCall& call, const RowThreads& threads)
      : call_(call),
        group_(threads),
        length_(static_cast<int>(call.x.length)),
        share_(1.0F / static_cast<float>(length_)),
        step_(static_cast<std::int64_t>(gridDim.x) * group_.slots) {
    const RowCursor<Form> weights(call.weight);
    float ones[N];
#pragma unroll
    for (float& one : ones) one = 1;
#pragma unroll
    for (int v = 0; v < kGradientVectors; ++v) {
      weight_[v] = pack<Form>(ones);
      if (has(v) && weights.at != nullptr) weight_[v] = weights.read(first(v));
    }
  }

  __device__ void run() {
    const std::int64_t first_row = static_cast<std::int64_t>(blockIdx.x) * group_.slots;
    std::int64_t row = first_row + group_.slot;
    // All groups of a block make equally many calls.
    const auto calls = static_cast<int>((call_.x.count - first_row + step_ - 1) / step_);
#pragma unroll 1
    for (int s = 0; s < kGradientRowsAhead; ++s) fetch(s, row + s * step_);
    load_statistics(row);
    int stage = 0;
    for (int i = 0; i < calls; ++i, row += step_) {
      fetch(stage == 0 ? kGradientRowsAhead : stage - 1, row + kGradientRowsAhead * step_);
      const float center = center_;
      const float scale = scale_;
      load_statistics(row + step_);
      wait_for_copies<kGradientRowsAhead>();
      take(stage, row, center, scale);
      stage = stage == kGradientRowsAhead ? 0 : stage + 1;
    }
    wait_for_copies<0>();
    finish(0, dweight_);
    if constexpr (kIsLayer) finish(1, dbias_);
  }

 private:
  // The index of the first element of a vector of this thread.
  __device__ int first(int v) const { return (v * group_.width + group_.index) * N; }
  __device__ bool has(int v) const { return first(v) < length_; }
  // The vectors of this thread: index (stage, operand, vector).
  __device__ uint4* cell(int stage, int operand, int v) const {
    return shared_vectors + ((stage * 2 + operand) * kGradientVectors + v) * static_cast<int>(blockDim.x) +
           static_cast<int>(threadIdx.x);
  }

  // Starts to copy a row. Ends a group of copies, also if the row does not exist.
  __device__ void fetch(int stage, std::int64_t row) {
    if (row < call_.x.count) {
      const RowCursor<Form> from[] = {{call_.grad, row}, {call_.x, row}};
#pragma unroll
      for (int v = 0; v < kGradientVectors; ++v) {
        if (!has(v)) continue;
#pragma unroll
        for (int operand = 0; operand < 2; ++operand) {
          copy_ahead(cell(stage, operand, v), from[operand].at + first(v) * (16 / N));
        }
      }
    }
    end_copies();
  }

  // Loads the statistics of the next row, which are f32.
  __device__ void load_statistics(std::int64_t row) {
    if (row >= call_.x.count) return;
    if constexpr (kIsLayer) center_ = reinterpret_cast<const float*>(call_.mean.data)[call_.mean.place(row)];
    scale_ = reinterpret_cast<const float*>(call_.rstd.data)[call_.rstd.place(row)];
  }

  // Computes dx of a row and adds to the sums.
  __device__ void take(int stage, std::int64_t row, float center, float scale) {
    const bool is_valid = row < call_.x.count;
    float hat[kGradientVectors][N];
    float scaled[kGradientVectors][N];  // grad * weight
    float sum = 0;
    float dot = 0;
    const float shift = -center * scale;
#pragma unroll
    for (int v = 0; v < kGradientVectors; ++v) {
      if (!is_valid || !has(v)) continue;
      float grad[N];
      unpack<Form>(grad, *cell(stage, 0, v));
      unpack<Form>(hat[v], *cell(stage, 1, v));
      unpack<Form>(scaled[v], weight_[v]);
#pragma unroll
      for (int k = 0; k < N; ++k) {
        // The error of a fused product and sum is far below that of the elements of a half type.
        hat[v][k] = N == 8 ? fmaf(hat[v][k], scale, shift) : (hat[v][k] - center) * scale;
        scaled[v][k] *= grad[k];
        if constexpr (kIsLayer) sum += scaled[v][k];
        dot = fmaf(scaled[v][k], hat[v][k], dot);
        dweight_[v][k] = fmaf(grad[k], hat[v][k], dweight_[v][k]);
        if constexpr (kIsLayer) dbias_[v][k] += grad[k];
      }
    }
    // dx = scale (scaled - mean(scaled) - hat mean(scaled hat))
    float of_sum = 0;
    if constexpr (kIsLayer) {
      const Two<float> sums = group_.sums(sum, dot);
      of_sum = -sums.first * share_ * scale;
      dot = sums.second;
    } else {
      dot = group_.sum(dot);
    }
    if (!is_valid) return;
    const float of_dot = -dot * share_ * scale;
    const RowCursor<Form> to(call_.dx, row);
#pragma unroll
    for (int v = 0; v < kGradientVectors; ++v) {
      if (!has(v)) continue;
#pragma unroll
      for (int k = 0; k < N; ++k) scaled[v][k] = fmaf(scaled[v][k], scale, fmaf(hat[v][k], of_dot, of_sum));
      to.write(scaled[v], first(v));
    }
  }

  // Adds the sums of the rows of the block in order, and writes them.
  __device__ void finish(int which, const float (&sums)[kGradientVectors][N]) {
    auto* cells = reinterpret_cast<float*>(shared_vectors);
    const int columns = group_.width * kGradientVectors * N;
    __syncthreads();  // the last reads of these cells
#pragma unroll
    for (int v = 0; v < kGradientVectors; ++v) {
#pragma unroll
      for (int k = 0; k < N; ++k) cells[group_.slot * columns + first(v) + k] = sums[v][k];
    }
    __syncthreads();
    float* to = call_.parts + (static_cast<std::int64_t>(which) * gridDim.x + blockIdx.x) * length_;
    for (int column = static_cast<int>(threadIdx.x); column < length_; column += static_cast<int>(blockDim.x)) {
      float sum = 0;
#pragma unroll 4
      for (int slot = 0; slot < group_.slots; ++slot) sum += cells[slot * columns + column];
      to[column] = sum;
    }
  }

  const NormGradientCall& call_;
  RowGroup<false> group_;
  int length_;
  float share_;
  std::int64_t step_;
  float center_ = 0;
  float scale_ = 0;
  uint4 weight_[kGradientVectors];
  float dweight_[kGradientVectors][N] = {};
  float dbias_[kGradientVectors][N] = {};
};

}  // namespace

#define TESSERA_GRADIENT_KERNEL(name, form, is_layer)                           \
  extern "C" __global__ void __launch_bounds__(kGradientThreads, 1)             \
      name(RowThreads threads, const __grid_constant__ NormGradientCall call) { \
    Gradients<form, is_layer>(call, threads).run();                             \
  }
#define TESSERA_GRADIENT_KERNELS(name, is_layer)             \
  TESSERA_GRADIENT_KERNEL(name##_float, FloatForm, is_layer) \
  TESSERA_GRADIENT_KERNEL(name##_bf16, Bf16Form, is_layer)   \
  TESSERA_GRADIENT_KERNEL(name##_f16, F16Form, is_layer)
TESSERA_GRADIENT_KERNELS(layer_norm_gradients, true)
TESSERA_GRADIENT_KERNELS(rms_norm_gradients, false)

}  // namespace tessera::ops::cuda
