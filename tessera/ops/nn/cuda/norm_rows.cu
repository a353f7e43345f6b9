// layer_norm and rms_norm along rows, and the gradients of their input.
//
// If rows are vectors that a block can hold, norm_gradients.cu computes all gradients in one pass. Otherwise this file
// computes the gradient of the input, and then the gradients of the parameters in a second pass.
#include "tessera/ops/nn/cuda/row_groups.cuh"
#include "tessera/ops/nn/cuda/row_weights.cuh"

namespace tessera::ops::cuda {
namespace {

// Writes a statistic of a row. The statistics of rows of vectors are f32.
template <class Form>
__device__ void write_statistic(typename Form::T value, const DeviceRows& to, std::int64_t row) {
  if constexpr (Form::N > 1) {
    reinterpret_cast<float*>(to.data)[to.place(row)] = value;
  } else {
    store(value, to.data, to.dtype, to.place(row));
  }
}

template <class Form, bool kIsHeld, bool kIsLayer>
__device__ void forward(const RowThreads& threads, const DeviceRows& x, const DeviceRows& weight,
                        const DeviceRows& bias, const DeviceRows& y, const DeviceRows& mean, const DeviceRows& rstd,
                        double eps) {
  using T = typename Form::T;
  GroupOf<Form> group(threads);
  const WeightOf<Form, kIsHeld> weights(group, weight, x.length, T(1));
  const WeightOf<Form, kIsHeld> biases(group, bias, x.length, T(0));
  const T share = T(1) / static_cast<T>(x.length);
  group.for_rows(x.count, [&](std::int64_t row, bool is_valid) {
    const RowCursor<Form> from[] = {{x, row}};
    const RowCursor<Form> to(y, row);
    const RowReader<Form, 1, kIsHeld> in(group, is_valid ? x.length : 0, from);
    T center = 0;
    if constexpr (kIsLayer) {
      in.each([&](const auto& values, auto, int) {
#pragma unroll
        for (int k = 0; k < Form::N; ++k) center += values[0][k];
      });
      center = group.sum(center) * share;
    }
    // A second pass, because a sum of squares loses the variance of values far from zero.
    T squares = 0;
    in.each([&](const auto& values, auto, int) {
#pragma unroll
      for (int k = 0; k < Form::N; ++k) {
        const T away = kIsLayer ? values[0][k] - center : values[0][k];
        squares = fma(away, away, squares);
      }
    });
    const T scale = T(1) / root_of(group.sum(squares) * share + static_cast<T>(eps));
    const T shift = -center * scale;
    in.each([&](const auto& values, auto i, int v) {
      T by[Form::N];
      T out[Form::N] = {};
      weights.read(by, i, v);
      if constexpr (kIsLayer) biases.read(out, i, v);
#pragma unroll
      for (int k = 0; k < Form::N; ++k) {
        // The error of a fused product and sum is far below that of the elements of a half type.
        const T hat = Form::N == 8 ? fma(values[0][k], scale, shift) : (values[0][k] - center) * scale;
        out[k] = fma(hat, by[k], out[k]);
      }
      to.write(out, i);
    });
    if (is_valid && group.index == 0) {
      if constexpr (kIsLayer) write_statistic<Form>(center, mean, row);
      write_statistic<Form>(scale, rstd, row);
    }
  });
}

// dx = rstd (g - mean(g) - xhat mean(g xhat)), where g = grad weight and xhat = (x - mean) rstd. rms_norm has no mean.
template <class Form, bool kIsHeld>
__device__ void norm_backward_rows(const RowThreads& threads, const DeviceRows& grad, const DeviceRows& x,
                                   const DeviceRows& weight, const DeviceRows& mean, const DeviceRows& rstd,
                                   const DeviceRows& dx) {
  using T = typename Form::T;
  GroupOf<Form> group(threads);
  const RowCursor<Form> weights(weight);
  const bool is_layer = mean.data != nullptr;
  const T share = T(1) / static_cast<T>(x.length);
  group.for_rows(x.count, [&](std::int64_t row, bool is_valid) {
    const RowCursor<Form> from[] = {{grad, row}, {x, row}};
    const RowCursor<Form> to(dx, row);
    const RowReader<Form, 2, kIsHeld> in(group, is_valid ? x.length : 0, from);
    const T scale = load<T>(rstd.data, rstd.dtype, rstd.place(row));
    const T center = is_layer ? load<T>(mean.data, mean.dtype, mean.place(row)) : T(0);
    T sum = 0;
    T dot = 0;
    in.each([&](const auto& values, auto i, int) {
      T by[Form::N];
      weights.read_or(by, i, T(1));
#pragma unroll
      for (int k = 0; k < Form::N; ++k) {
        const T g = values[0][k] * by[k];
        sum += g;
        dot += g * ((values[1][k] - center) * scale);
      }
    });
    const Two<T> means = group.sums(is_layer ? sum * share : T(0), dot * share);
    in.each([&](const auto& values, auto i, int) {
      T by[Form::N];
      weights.read_or(by, i, T(1));
#pragma unroll
      for (int k = 0; k < Form::N; ++k) {
        const T hat = (values[1][k] - center) * scale;
        by[k] = scale * (values[0][k] * by[k] - means.first - hat * means.second);
      }
      to.write(by, i);
    });
  });
}

// Each thread takes a column, and adds the rows of its part of them in order.
template <class T>
__device__ void parameter_parts(const DeviceRows& grad, const DeviceRows& x, const DeviceRows& mean,
                                const DeviceRows& rstd, T* parts, std::int64_t rows_each) {
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (column >= x.length) return;
  const std::int64_t begin = static_cast<std::int64_t>(blockIdx.y) * rows_each;
  const std::int64_t end = begin + rows_each < x.count ? begin + rows_each : x.count;
  const bool is_layer = mean.data != nullptr;
  T weight = 0;
  T bias = 0;
#pragma unroll 4
  for (std::int64_t row = begin; row < end; ++row) {
    const T g = load<T>(grad.data, grad.dtype, grad.place(row) + column * grad.step);
    const T value = load<T>(x.data, x.dtype, x.place(row) + column * x.step);
    const T center = is_layer ? load<T>(mean.data, mean.dtype, mean.place(row)) : T(0);
    weight += g * ((value - center) * load<T>(rstd.data, rstd.dtype, rstd.place(row)));
    bias += g;
  }
  const std::int64_t at = static_cast<std::int64_t>(blockIdx.y) * x.length + column;
  parts[at] = weight;
  if (is_layer) parts[static_cast<std::int64_t>(gridDim.y) * x.length + at] = bias;
}

// Adds `count` parts of each column, always in the same order. Blocks of y = 0 compute dweight, those of y = 1 dbias.
template <class T>
__device__ void parameter_sums(const T* parts, std::int64_t count, const DeviceRows& dweight, const DeviceRows& dbias) {
  __shared__ T cells[32][33];
  const DeviceRows& to = blockIdx.y == 0 ? dweight : dbias;
  const auto lane = static_cast<int>(threadIdx.x % 32);
  const auto line = static_cast<int>(threadIdx.x / 32);
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * 32 + lane;
  T sum = 0;
  if (column < to.length) {
    const T* from = parts + (static_cast<std::int64_t>(blockIdx.y) * count) * to.length + column;
#pragma unroll 8
    for (std::int64_t part = line; part < count; part += 32) sum += from[part * to.length];
  }
  cells[line][lane] = sum;
  __syncthreads();
  // Each warp adds one column.
  sum = cells[lane][line];
#pragma unroll
  for (int by = 16; by > 0; by /= 2) sum += __shfl_xor_sync(0xffffffffU, sum, by);
  const std::int64_t own = static_cast<std::int64_t>(blockIdx.x) * 32 + line;
  if (lane == 0 && own < to.length) store(sum, to.data, to.dtype, own * to.step);
}

template <class Form, bool kIsHeld>
__device__ void layer_norm_rows(const RowThreads& threads, const DeviceRows& x, const DeviceRows& weight,
                                const DeviceRows& bias, const DeviceRows& y, const DeviceRows& mean,
                                const DeviceRows& rstd, double eps) {
  forward<Form, kIsHeld, true>(threads, x, weight, bias, y, mean, rstd, eps);
}
template <class Form, bool kIsHeld>
__device__ void rms_norm_rows(const RowThreads& threads, const DeviceRows& x, const DeviceRows& weight,
                              const DeviceRows& bias, const DeviceRows& y, const DeviceRows& mean,
                              const DeviceRows& rstd, double eps) {
  forward<Form, kIsHeld, false>(threads, x, weight, bias, y, mean, rstd, eps);
}

}  // namespace

#define TESSERA_NORM_FORMS(name, held_bounds)                                                                    \
  TESSERA_ROW_FORMS(name, held_bounds,                                                                           \
                    (RowThreads threads, TESSERA_ROWS x, TESSERA_ROWS weight, TESSERA_ROWS bias, TESSERA_ROWS y, \
                     TESSERA_ROWS mean, TESSERA_ROWS rstd, double eps),                                          \
                    (threads, x, weight, bias, y, mean, rstd, eps))
// Three blocks of 256 threads, without spilled registers: a load of those waits like any other.
TESSERA_NORM_FORMS(layer_norm, __maxnreg__(80))
TESSERA_NORM_FORMS(rms_norm, TESSERA_HELD_BLOCKS(2))
TESSERA_LONG_ROW_FORMS(norm_backward,
                       (RowThreads threads, TESSERA_ROWS grad, TESSERA_ROWS x, TESSERA_ROWS weight, TESSERA_ROWS mean,
                        TESSERA_ROWS rstd, TESSERA_ROWS dx),
                       (threads, grad, x, weight, mean, rstd, dx))

#define TESSERA_PARAMETER_KERNELS(suffix, T)                                                                       \
  extern "C" __global__ void norm_parameter_parts_##suffix(TESSERA_ROWS grad, TESSERA_ROWS x, TESSERA_ROWS mean,   \
                                                           TESSERA_ROWS rstd, T* parts, std::int64_t rows_each) {  \
    parameter_parts(grad, x, mean, rstd, parts, rows_each);                                                        \
  }                                                                                                                \
  extern "C" __global__ void __launch_bounds__(1024)                                                               \
      norm_parameter_sums_##suffix(const T* parts, std::int64_t count, TESSERA_ROWS dweight, TESSERA_ROWS dbias) { \
    parameter_sums(parts, count, dweight, dbias);                                                                  \
  }
TESSERA_PARAMETER_KERNELS(f32, float)
TESSERA_PARAMETER_KERNELS(f64, double)

}  // namespace tessera::ops::cuda
