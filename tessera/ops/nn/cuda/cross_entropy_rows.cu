// Losses of rows of logits and their gradients (nn/detail/cross_entropy_rows.h). The loss reads each logit once, the
// gradient reads and writes each once. Sums over rows are computed by one block in a fixed order.
//
// Rows may begin at any address: the first vector may begin before the row, and the last end after it.
//
// A target that is out of range cannot throw here: the loss of its row and the gradients of its logits are nan.
#include "tessera/ops/nn/cuda/cross_entropy_call.h"
#include "tessera/ops/nn/cuda/running_softmax.cuh"

namespace tessera::ops::cuda {
namespace {

// The target of a row: -1 if the row does not count, -2 if it is out of range.
__device__ std::int64_t target_of(const LossParameters& how, const DeviceRows& targets, std::int64_t row) {
  const auto target = load<std::int64_t>(targets.data, targets.dtype, targets.place(row));
  if (target == how.ignore_index) return -1;
  return target >= 0 && target < how.targets_end ? target : -2;
}

// The position of a target among the logits; -1 if this rank does not hold it.
__device__ std::int64_t place_of(const LossParameters& how, std::int64_t target) {
  if (!how.is_part || target < 0) return target < 0 ? -1 : target;
  if (target < how.offset) return -1;
  std::int64_t rest = target - how.offset;
  std::int64_t at = 0;
  for (int l = 0; l < how.nlevels; ++l) {
    const std::int64_t place = rest / how.strides[l];
    if (place >= how.counts[l]) return -1;
    rest -= place * how.strides[l];
    at = at * how.counts[l] + place;
  }
  return rest < how.block ? at * how.block + rest : -1;
}

__device__ double nan_of() { return __longlong_as_double(0x7ff8000000000000LL); }

template <class T>
__device__ T value_of(const DeviceRows& rows, std::int64_t row) {
  return load<T>(rows.data, rows.dtype, rows.place(row));
}
template <class T>
__device__ void put(T value, const DeviceRows& rows, std::int64_t row) {
  store(value, rows.data, rows.dtype, rows.place(row));
}

// Statistics of a row, and the sum of its logits.
template <class T>
struct RowTotals {
  Running<T> of;
  T sum;
  template <int N>
  __device__ void add(const T (&x)[N], bool is_summed) {
    of.add(x);
    if (!is_summed) return;
#pragma unroll
    for (int k = 0; k < N; ++k) sum += x[k];
  }
  __device__ RowTotals other(int by) const { return {of.other(by), __shfl_xor_sync(0xffffffffU, sum, by)}; }
};

template <class Form, bool>
__device__ void cross_entropy_rows(const RowThreads& threads, const LossForward& call) {
  using T = typename Form::T;
  GroupOf<Form> group(threads);
  const LossParameters& how = call.how;
  const bool is_smooth = how.smoothing > 0;
  group.for_rows(call.logits.count, [&](std::int64_t index, bool is_valid) {
    const RowCursor<Form> from[] = {{call.logits, index}};
    const std::int64_t length = is_valid ? call.logits.length : 0;
    const RowReader<Form, 1, false> in(group, length, from, from[0].before());
    RowTotals<T> totals = {Running<T>::none(), 0};
    in.each([&](const auto& values, std::int64_t i, int) {
      if constexpr (Form::N > 1) {
        if (i < 0 || i + Form::N > length) {
#pragma unroll
          for (int k = 0; k < Form::N; ++k) {
            const T one[] = {values[0][k]};
            if (i + k >= 0 && i + k < length) totals.add(one, is_smooth);
          }
          return;
        }
      }
      totals.add(values[0], is_smooth);
    });
    totals = group.all(totals, [](const RowTotals<T>& a, const RowTotals<T>& b) {
      return RowTotals<T>{merged(a.of, b.of), a.sum + b.sum};
    });
    if (!is_valid || group.index != 0) return;
    const std::int64_t row = how.first + index;
    const T logsumexp = totals.of.most == minus_infinity<T>() ? totals.of.most : totals.of.most + log_of(totals.of.sum);
    put(logsumexp, call.logsumexp, row);
    const std::int64_t target = target_of(how, call.targets, row);
    double loss = target == -2 ? nan_of() : 0;
    if (target >= 0) {
      const std::int64_t at = place_of(how, target);
      double wanted = at < 0 ? 0 : load<T>(from[0].at, from[0].dtype, at * from[0].step);
      if (is_smooth) wanted = (1 - how.smoothing) * wanted + how.share * totals.sum;
      loss = how.is_part ? -wanted : static_cast<double>(logsumexp) - wanted;
    }
    if (call.losses != nullptr) {
      call.losses[row] = loss;
    } else {
      put(static_cast<T>(loss), call.loss, row);
    }
  });
}

// dx = by (softmax - target probabilities) + by_all softmax.
template <class Form, bool>
__device__ void cross_entropy_backward_rows(const RowThreads& threads, const LossBackward& call) {
  using T = typename Form::T;
  GroupOf<Form> group(threads);
  const LossParameters& how = call.how;
  const T divided = static_cast<T>(1 / (how.count > 0 ? how.count : *call.divisor));
  group.for_rows(call.logits.count, [&](std::int64_t index, bool is_valid) {
    const RowCursor<Form> from[] = {{call.logits, index}};
    const RowCursor<Form> to(call.dx, index);
    const std::int64_t length = is_valid ? call.logits.length : 0;
    const RowReader<Form, 1, false> in(group, length, from, from[0].before());
    const std::int64_t row = how.first + index;
    const std::int64_t target = target_of(how, call.targets, row);
    T by = divided;
    if (call.grad.data != nullptr) by *= value_of<T>(call.grad, call.is_reduced ? 0 : row);
    if (target == -1) by = 0;
    if (target == -2) by = static_cast<T>(nan_of());
    const T all = by + (call.grad_logsumexp.data != nullptr ? value_of<T>(call.grad_logsumexp, row) : T(0));
    const T logsumexp = value_of<T>(call.logsumexp, row);
    const T every = by * static_cast<T>(how.share);
    const T at_target = by * static_cast<T>(1 - how.smoothing);
    const std::int64_t at = place_of(how, target);
    in.each([&](const auto& values, std::int64_t i, int) {
      T d[Form::N];
#pragma unroll
      for (int k = 0; k < Form::N; ++k) d[k] = all * exp_of(values[0][k] - logsumexp) - every;
      if (at >= i && at < i + Form::N) {
#pragma unroll
        for (int k = 0; k < Form::N; ++k) d[k] -= i + k == at ? at_target : T(0);
      }
      to.write_inside(d, i, length);
    });
  });
}

// Adds the values of all threads of a block of 1024, always in the same order. Thread 0 receives the sum.
template <class T>
__device__ T sum_of_block(T value) {
  __shared__ T cells[1024];
  cells[threadIdx.x] = value;
  __syncthreads();
  for (unsigned by = 512; by > 0; by /= 2) {
    if (threadIdx.x < by) cells[threadIdx.x] += cells[threadIdx.x + by];
    __syncthreads();
  }
  value = cells[0];
  __syncthreads();
  return value;
}

// The number of targets that count, at least 1.
__device__ double counted(const DeviceRows& targets, std::int64_t ignore_index) {
  std::int64_t count = 0;
#pragma unroll 8
  for (std::int64_t row = threadIdx.x; row < targets.count; row += blockDim.x) {
    count += load<std::int64_t>(targets.data, targets.dtype, targets.place(row)) != ignore_index ? 1 : 0;
  }
  count = sum_of_block(count);
  return static_cast<double>(count > 1 ? count : 1);
}

template <class T>
__device__ void copy_rows(const DeviceRows& from, std::int64_t from_first, const DeviceRows& to, std::int64_t to_first,
                          std::int64_t count) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t row = blockIdx.y; row < count; row += gridDim.y) {
    const std::int64_t to_row = to.place(to_first + row);
    const std::int64_t from_row = from.data == nullptr ? 0 : from.place(from_first + row);
    for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < to.length;
         i += stride) {
      const T value = from.data == nullptr ? T(0) : load<T>(from.data, from.dtype, from_row + i * from.step);
      store(value, to.data, to.dtype, to_row + i * to.step);
    }
  }
}

}  // namespace

#define TESSERA_FORWARD (RowThreads threads, const __grid_constant__ LossForward call)
#define TESSERA_BACKWARD (RowThreads threads, const __grid_constant__ LossBackward call)
TESSERA_ONE_PASS_ROW_FORMS(cross_entropy, TESSERA_FORWARD, (threads, call))
TESSERA_ONE_PASS_ROW_FORMS(cross_entropy_backward, TESSERA_BACKWARD, (threads, call))

/// Writes the number of targets that count. `to` has one element.
extern "C" __global__ void __launch_bounds__(1024)
    count_targets(TESSERA_ROWS targets, std::int64_t ignore_index, TESSERA_ROWS to) {
  const double count = counted(targets, ignore_index);
  if (threadIdx.x == 0) store(count, to.data, to.dtype, 0);
}

/// Writes the sum of the losses, divided by `count`; if it is 0, by the number of targets that count.
extern "C" __global__ void __launch_bounds__(1024)
    total_loss(const double* losses, TESSERA_ROWS targets, std::int64_t ignore_index, double count, TESSERA_ROWS to) {
  double sum = 0;
#pragma unroll 8
  for (std::int64_t row = threadIdx.x; row < targets.count; row += blockDim.x) sum += losses[row];
  sum = sum_of_block(sum);
  const double divisor = count > 0 ? count : counted(targets, ignore_index);
  if (threadIdx.x == 0) store(sum / divisor, to.data, to.dtype, 0);
}

/// Copies rows of any floating dtypes; if `from` is absent, writes zeros.
#define TESSERA_COPY_KERNEL(name, T)                                                                                 \
  extern "C" __global__ void __launch_bounds__(256)                                                                  \
      name(TESSERA_ROWS from, std::int64_t from_first, TESSERA_ROWS to, std::int64_t to_first, std::int64_t count) { \
    copy_rows<T>(from, from_first, to, to_first, count);                                                             \
  }
TESSERA_COPY_KERNEL(copy_rows_f32, float)
TESSERA_COPY_KERNEL(copy_rows_f64, double)

}  // namespace tessera::ops::cuda
