// softmax and log_softmax along rows, and their gradients.
//
// A warp holds its row in registers and computes the maximum, the sum and the result. A block reads its row twice:
// first with a running maximum and a sum that is rescaled when the maximum rises, then for the result.
#include "tessera/ops/nn/cuda/row_groups.cuh"

namespace tessera::ops::cuda {
namespace {

// Maximum of elements and the sum of exp(element - maximum).
template <class T>
struct Running {
  T most;
  T sum;
  __device__ Running other(int by) const {
    return {__shfl_xor_sync(0xffffffffU, most, by), __shfl_xor_sync(0xffffffffU, sum, by)};
  }
  // Rescales the sum to a larger maximum. An empty sum remains 0: minus infinity minus itself is nan.
  __device__ T at(T larger_most) const { return sum == T(0) ? T(0) : sum * exp_of(most - larger_most); }
  __device__ void add(T x) {
    if (x > most) {
      sum = at(x);
      most = x;
    }
    // An element of minus infinity adds nothing; a nan makes the sum nan, as it should.
    if (x != minus_infinity<T>()) sum += exp_of(x - most);
  }
};
template <class T>
__device__ Running<T> merged(const Running<T>& a, const Running<T>& b) {
  const T most = larger(a.most, b.most);
  return {most, a.at(most) + b.at(most)};
}

// If the group holds the row and kIsLog is false, leaves the values as exp(value - maximum).
template <class Group, class T, int N, bool kIsLog>
__device__ Running<T> statistics(const DeviceRows& x, std::int64_t place, RowValues<Group, N, T>& row) {
  if constexpr (Group::kHoldsRow) {
    T most = minus_infinity<T>();
    for_chunks<Group, N>(x.length, [&](int chunk, std::int64_t i) {
      for (const T value : row.read(x, place, chunk, i, true)) most = larger(most, value);
    });
    most = max_of_all<Group>(most);
    T sum = 0;
    for_chunks<Group, N>(x.length, [&](int chunk, std::int64_t i) {
      for (T& value : row.read(x, place, chunk, i, false)) {
        const T power = exp_of(value - most);
        sum += power;
        if constexpr (!kIsLog) value = power;
      }
    });
    return {most, sum_of_all<Group>(sum)};
  } else {
    Running<T> running{minus_infinity<T>(), 0};
    for_chunks<Group, N>(x.length, [&](int chunk, std::int64_t i) {
      for (const T value : row.read(x, place, chunk, i, true)) running.add(value);
    });
    return Group::all(running, merged<T>);
  }
}

template <class Group, class T, int N, bool kIsLog>
__device__ void forward(const DeviceRows& x, const DeviceRows& y) {
  for (std::int64_t index = Group::first_row(); index < x.count; index += Group::row_step()) {
    const std::int64_t from = x.place(index);
    const std::int64_t to = y.place(index);
    RowValues<Group, N, T> row;
    const Running<T> of = statistics<Group, T, N, kIsLog>(x, from, row);
    const T by = kIsLog ? of.most + log_of(of.sum) : T(1) / of.sum;
    for_chunks<Group, N>(x.length, [&](int chunk, std::int64_t i) {
      const auto& values = row.read(x, from, chunk, i, false);
      T out[N];
#pragma unroll
      for (int k = 0; k < N; ++k) {
        out[k] = kIsLog ? values[k] - by : (Group::kHoldsRow ? values[k] : exp_of(values[k] - of.most)) * by;
      }
      store_row<N>(out, y, to, i);
    });
  }
}

// softmax: dx = y (grad - sum(grad y)). log_softmax: dx = grad - exp(y) sum(grad).
template <class Group, class T, int N, bool kIsLog>
__device__ void backward(const DeviceRows& grad, const DeviceRows& y, const DeviceRows& dx) {
  for (std::int64_t index = Group::first_row(); index < y.count; index += Group::row_step()) {
    const std::int64_t from_grad = grad.place(index);
    const std::int64_t from_y = y.place(index);
    const std::int64_t to = dx.place(index);
    RowValues<Group, N, T> grads;
    RowValues<Group, N, T> ys;
    T sum = 0;
    for_chunks<Group, N>(y.length, [&](int chunk, std::int64_t i) {
      const auto& g = grads.read(grad, from_grad, chunk, i, true);
      const auto& out = ys.read(y, from_y, chunk, i, true);
#pragma unroll
      for (int k = 0; k < N; ++k) sum += kIsLog ? g[k] : g[k] * out[k];
    });
    sum = sum_of_all<Group>(sum);
    for_chunks<Group, N>(y.length, [&](int chunk, std::int64_t i) {
      const auto& g = grads.read(grad, from_grad, chunk, i, false);
      const auto& out = ys.read(y, from_y, chunk, i, false);
      T d[N];
#pragma unroll
      for (int k = 0; k < N; ++k) d[k] = kIsLog ? g[k] - exp_of(out[k]) * sum : out[k] * (g[k] - sum);
      store_row<N>(d, dx, to, i);
    });
  }
}

template <class Group, class T, int N>
__device__ void softmax_rows(const DeviceRows& x, const DeviceRows& y) {
  forward<Group, T, N, false>(x, y);
}
template <class Group, class T, int N>
__device__ void log_softmax_rows(const DeviceRows& x, const DeviceRows& y) {
  forward<Group, T, N, true>(x, y);
}
template <class Group, class T, int N>
__device__ void softmax_backward_rows(const DeviceRows& grad, const DeviceRows& y, const DeviceRows& dx) {
  backward<Group, T, N, false>(grad, y, dx);
}
template <class Group, class T, int N>
__device__ void log_softmax_backward_rows(const DeviceRows& grad, const DeviceRows& y, const DeviceRows& dx) {
  backward<Group, T, N, true>(grad, y, dx);
}

}  // namespace

#define TESSERA_TWO_ROWS (const __grid_constant__ DeviceRows a, const __grid_constant__ DeviceRows b)
#define TESSERA_THREE_ROWS \
  (const __grid_constant__ DeviceRows a, const __grid_constant__ DeviceRows b, const __grid_constant__ DeviceRows c)
TESSERA_ROW_FORMS(softmax, TESSERA_TWO_ROWS, (a, b))
TESSERA_ROW_FORMS(log_softmax, TESSERA_TWO_ROWS, (a, b))
TESSERA_ROW_FORMS(softmax_backward, TESSERA_THREE_ROWS, (a, b, c))
TESSERA_ROW_FORMS(log_softmax_backward, TESSERA_THREE_ROWS, (a, b, c))

}  // namespace tessera::ops::cuda
