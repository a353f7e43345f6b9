// All gradients of layer_norm and rms_norm in one pass, for rows of vectors that a block holds.
//
// Blocks stay: each takes every gridDim-th row and keeps the sums of its columns for the parameters in registers. The
// rows after the current one are copied to shared memory in the meantime. Each thread copies only what it reads itself,
// so that no barrier is needed. At the end, the rows of a block are added in order, and the block writes its sums;
// norm_parameter_sums adds those of all blocks in order. The order depends on the number of rows and of
// multiprocessors.
#include "tessera/ops/nn/cuda/norm_gradients.h"
#include "tessera/ops/nn/cuda/row_groups.cuh"

namespace tessera::ops::cuda {
namespace {

extern __shared__ uint4 shared_vectors[];

__device__ void copy_ahead(uint4* to, const void* from) {
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address), "l"(from) : "memory");
}
// Ends a group of copies, also an empty one.
__device__ void end_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Waits for all groups except the last.
__device__ void wait_for_earlier_copies() { asm volatile("cp.async.wait_group 1;" ::: "memory"); }

// The vectors of this thread: index (stage, operand, vector).
__device__ uint4* cell(int stage, int operand, int v) {
  return shared_vectors + ((stage * 2 + operand) * kGradientVectors + v) * static_cast<int>(blockDim.x) +
         static_cast<int>(threadIdx.x);
}

template <class Form, bool kIsLayer>
class Gradients {
 public:
  static constexpr int N = Form::N;

  __device__ Gradients(const NormGradientCall& call, const RowThreads& threads)
      : call_(call), group_(threads), share_(1.0F / static_cast<float>(call.x.length)) {
    const RowCursor<Form> weights(call.weight, 0);
#pragma unroll
    for (int v = 0; v < kGradientVectors; ++v) {
      const int i = first(v);
      if (i < call.x.length && weights.at != nullptr) weight_[v] = weights.read(i);
    }
  }

  __device__ void run() {
    const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * group_.slots;
    std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * group_.slots + group_.slot;
    const std::int64_t calls = (call_.x.count - static_cast<std::int64_t>(blockIdx.x) * group_.slots + step - 1) / step;
    fetch(0, row);
    for (std::int64_t i = 0; i < calls; ++i, row += step) {
      const float center = center_;
      const float scale = scale_;
      fetch(static_cast<int>((i + 1) % 2), row + step);
      wait_for_earlier_copies();
      take(static_cast<int>(i % 2), row, center, scale);
    }
    asm volatile("cp.async.wait_all;" ::: "memory");
    finish(0, dweight_);
    if constexpr (kIsLayer) finish(1, dbias_);
  }

 private:
  __device__ int first(int v) const { return (v * group_.width + group_.index) * N; }

  // Starts to copy a row and loads its statistics.
  __device__ void fetch(int stage, std::int64_t row) {
    if (row < call_.x.count) {
      const RowCursor<Form> from[] = {{call_.grad, row}, {call_.x, row}};
#pragma unroll
      for (int v = 0; v < kGradientVectors; ++v) {
        const int i = first(v);
        if (i >= call_.x.length) continue;
#pragma unroll
        for (int operand = 0; operand < 2; ++operand) {
          copy_ahead(cell(stage, operand, v), from[operand].at + static_cast<std::int64_t>(i) * (16 / N));
        }
      }
      if constexpr (kIsLayer) center_ = load<float>(call_.mean.data, call_.mean.dtype, call_.mean.place(row));
      scale_ = load<float>(call_.rstd.data, call_.rstd.dtype, call_.rstd.place(row));
    }
    end_copies();
  }

  __device__ void weights(float (&to)[N], int v) const {
    if (call_.weight.data != nullptr) {
      unpack(to, weight_[v], call_.weight.dtype);
    } else {
#pragma unroll
      for (int k = 0; k < N; ++k) to[k] = 1;
    }
  }

  // Computes dx of a row and adds to the sums.
  __device__ void take(int stage, std::int64_t row, float center, float scale) {
    const bool is_valid = row < call_.x.count;
    uint4 raw[kGradientVectors][2];
    float sum = 0;
    float dot = 0;
#pragma unroll
    for (int v = 0; v < kGradientVectors; ++v) {
      if (!is_valid || first(v) >= call_.x.length) continue;
      raw[v][0] = *cell(stage, 0, v);
      raw[v][1] = *cell(stage, 1, v);
      float grad[N];
      float x[N];
      float by[N];
      unpack(grad, raw[v][0], call_.grad.dtype);
      unpack(x, raw[v][1], call_.x.dtype);
      weights(by, v);
#pragma unroll
      for (int k = 0; k < N; ++k) {
        const float hat = (x[k] - center) * scale;
        const float g = grad[k] * by[k];
        if constexpr (kIsLayer) sum += g;
        dot += g * hat;
        dweight_[v][k] += grad[k] * hat;
        if constexpr (kIsLayer) dbias_[v][k] += grad[k];
      }
    }
    const Two<float> means = group_.sums(sum * share_, dot * share_);
    const RowCursor<Form> to(call_.dx, is_valid ? row : 0);
#pragma unroll
    for (int v = 0; v < kGradientVectors; ++v) {
      if (!is_valid || first(v) >= call_.x.length) continue;
      float grad[N];
      float x[N];
      float by[N];
      unpack(grad, raw[v][0], call_.grad.dtype);
      unpack(x, raw[v][1], call_.x.dtype);
      weights(by, v);
#pragma unroll
      for (int k = 0; k < N; ++k) {
        const float hat = (x[k] - center) * scale;
        by[k] = scale * (grad[k] * by[k] - (kIsLayer ? means.first : 0.0F) - hat * means.second);
      }
      to.write(by, first(v));
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
    float* to = call_.parts + (static_cast<std::int64_t>(which) * gridDim.x + blockIdx.x) * call_.x.length;
    for (int column = static_cast<int>(threadIdx.x); column < call_.x.length; column += static_cast<int>(blockDim.x)) {
      float sum = 0;
      for (int slot = 0; slot < group_.slots; ++slot) sum += cells[slot * columns + column];
      to[column] = sum;
    }
  }

  const NormGradientCall& call_;
  RowGroup<false> group_;
  float share_;
  float center_ = 0;
  float scale_ = 0;
  uint4 weight_[kGradientVectors];
  float dweight_[kGradientVectors][N] = {};
  float dbias_[kGradientVectors][N] = {};
};

}  // namespace

#define TESSERA_GRADIENT_KERNEL(name, form, is_layer)                           \
  extern "C" __global__ void __launch_bounds__(kMaxHeldThreads, 1)              \
      name(RowThreads threads, const __grid_constant__ NormGradientCall call) { \
    Gradients<form, is_layer>(call, threads).run();                             \
  }
TESSERA_GRADIENT_KERNEL(layer_norm_gradients_float, FloatForm, true)
TESSERA_GRADIENT_KERNEL(layer_norm_gradients_half, HalfForm, true)
TESSERA_GRADIENT_KERNEL(rms_norm_gradients_float, FloatForm, false)
TESSERA_GRADIENT_KERNEL(rms_norm_gradients_half, HalfForm, false)

}  // namespace tessera::ops::cuda
