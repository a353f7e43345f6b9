// rms_norm along rows and its gradients. The gradient of the weight is a sum over rows: each thread takes columns, and
// the rows are split into groups with separate sums, which are then added in order.
#include "tessera/ops/nn/cuda/row_groups.cuh"

namespace tessera::ops::cuda {
namespace {

// Loads the weights of a row; all are 1 if the weight is omitted.
template <int N, class T>
__device__ void load_weights(T (&to)[N], const DeviceRows& weight, std::int64_t i) {
  if (weight.data != nullptr) {
    load_row<N>(to, weight, 0, i);
  } else {
#pragma unroll
    for (int k = 0; k < N; ++k) to[k] = 1;
  }
}

template <class Group, class T, int N>
__device__ void rms_norm_rows(const DeviceRows& x, const DeviceRows& weight, const DeviceRows& y,
                              const DeviceRows& rstd, double eps) {
  for (std::int64_t index = Group::first_row(); index < x.count; index += Group::row_step()) {
    const std::int64_t from = x.place(index);
    const std::int64_t to = y.place(index);
    RowValues<Group, N, T> row;
    T sum = 0;
    for_chunks<Group, N>(x.length, [&](int chunk, std::int64_t i) {
      for (const T value : row.read(x, from, chunk, i, true)) sum += value * value;
    });
    const T scale = T(1) / root_of(sum_of_all<Group>(sum) / static_cast<T>(x.length) + static_cast<T>(eps));
    for_chunks<Group, N>(x.length, [&](int chunk, std::int64_t i) {
      const auto& values = row.read(x, from, chunk, i, false);
      T out[N];
      load_weights<N>(out, weight, i);
#pragma unroll
      for (int k = 0; k < N; ++k) out[k] *= values[k] * scale;
      store_row<N>(out, y, to, i);
    });
    if (Group::index() == 0) store(scale, rstd.data, rstd.dtype, rstd.place(index));
  }
}

// dx = rstd (g - xhat mean(g xhat)), where g = grad weight and xhat = x rstd.
template <class Group, class T, int N>
__device__ void rms_norm_backward_rows(const DeviceRows& grad, const DeviceRows& x, const DeviceRows& weight,
                                       const DeviceRows& rstd, const DeviceRows& dx) {
  for (std::int64_t index = Group::first_row(); index < x.count; index += Group::row_step()) {
    const std::int64_t from_grad = grad.place(index);
    const std::int64_t from_x = x.place(index);
    const std::int64_t to = dx.place(index);
    const T scale = load<T>(rstd.data, rstd.dtype, rstd.place(index));
    RowValues<Group, N, T> grads;
    RowValues<Group, N, T> xs;
    T sum = 0;
    for_chunks<Group, N>(x.length, [&](int chunk, std::int64_t i) {
      const auto& g = grads.read(grad, from_grad, chunk, i, true);
      const auto& values = xs.read(x, from_x, chunk, i, true);
      T by[N];
      load_weights<N>(by, weight, i);
#pragma unroll
      for (int k = 0; k < N; ++k) sum += g[k] * by[k] * (values[k] * scale);
    });
    const T mean = sum_of_all<Group>(sum) / static_cast<T>(x.length);
    for_chunks<Group, N>(x.length, [&](int chunk, std::int64_t i) {
      const auto& g = grads.read(grad, from_grad, chunk, i, false);
      const auto& values = xs.read(x, from_x, chunk, i, false);
      T d[N];
      load_weights<N>(d, weight, i);
#pragma unroll
      for (int k = 0; k < N; ++k) d[k] = scale * (g[k] * d[k] - values[k] * scale * mean);
      store_row<N>(d, dx, to, i);
    });
  }
}

template <class T>
__device__ void weight_parts(const DeviceRows& grad, const DeviceRows& x, const DeviceRows& rstd, T* parts,
                             std::int64_t rows_each) {
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (column >= x.length) return;
  const std::int64_t begin = static_cast<std::int64_t>(blockIdx.y) * rows_each;
  const std::int64_t end = begin + rows_each < x.count ? begin + rows_each : x.count;
  T sum = 0;
  for (std::int64_t row = begin; row < end; ++row) {
    const T g = load<T>(grad.data, grad.dtype, grad.place(row) + column * grad.step);
    const T value = load<T>(x.data, x.dtype, x.place(row) + column * x.step);
    sum += g * (value * load<T>(rstd.data, rstd.dtype, rstd.place(row)));
  }
  parts[static_cast<std::int64_t>(blockIdx.y) * x.length + column] = sum;
}

template <class T>
__device__ void weight_sum(const T* parts, std::int64_t count, const DeviceRows& dweight) {
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (column >= dweight.length) return;
  T sum = 0;
  for (std::int64_t part = 0; part < count; ++part) sum += parts[part * dweight.length + column];
  store(sum, dweight.data, dweight.dtype, column * dweight.step);
}

}  // namespace

#define TESSERA_ROWS const __grid_constant__ DeviceRows
TESSERA_ROW_FORMS(rms_norm, (TESSERA_ROWS x, TESSERA_ROWS weight, TESSERA_ROWS y, TESSERA_ROWS rstd, double eps),
                  (x, weight, y, rstd, eps))
TESSERA_ROW_FORMS(rms_norm_backward,
                  (TESSERA_ROWS grad, TESSERA_ROWS x, TESSERA_ROWS weight, TESSERA_ROWS rstd, TESSERA_ROWS dx),
                  (grad, x, weight, rstd, dx))

extern "C" __global__ void rms_norm_weight_parts_f32(TESSERA_ROWS grad, TESSERA_ROWS x, TESSERA_ROWS rstd, float* parts,
                                                     std::int64_t rows_each) {
  weight_parts(grad, x, rstd, parts, rows_each);
}
extern "C" __global__ void rms_norm_weight_parts_f64(TESSERA_ROWS grad, TESSERA_ROWS x, TESSERA_ROWS rstd,
                                                     double* parts, std::int64_t rows_each) {
  weight_parts(grad, x, rstd, parts, rows_each);
}
extern "C" __global__ void rms_norm_weight_sum_f32(const float* parts, std::int64_t count, TESSERA_ROWS dweight) {
  weight_sum(parts, count, dweight);
}
extern "C" __global__ void rms_norm_weight_sum_f64(const double* parts, std::int64_t count, TESSERA_ROWS dweight) {
  weight_sum(parts, count, dweight);
}

}  // namespace tessera::ops::cuda
