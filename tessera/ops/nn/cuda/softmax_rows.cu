// softmax and log_softmax along rows, and their gradients. The maximum and the sum of a row are found in one pass: the
// sum is rescaled when the maximum rises.
#include "tessera/ops/nn/cuda/running_softmax.cuh"

namespace tessera::ops::cuda {
namespace {

template <class Form, bool kIsHeld, bool kIsLog>
__device__ void forward(const RowThreads& threads, const DeviceRows& x, const DeviceRows& y) {
  using T = typename Form::T;
  GroupOf<Form> group(threads);
  group.for_rows(x.count, [&](std::int64_t row, bool is_valid) {
    const RowCursor<Form> from[] = {{x, row}};
    const RowCursor<Form> to(y, row);
    const RowReader<Form, 1, kIsHeld> in(group, is_valid ? x.length : 0, from);
    auto of = Running<T>::none();
    in.each([&](const auto& values, auto, int) { of.add(values[0]); });
    of = group.all(of, merged<T>);
    const T by = kIsLog ? of.most + log_of(of.sum) : T(1) / of.sum;
    in.each([&](const auto& values, auto i, int) {
      T out[Form::N];
#pragma unroll
      for (int k = 0; k < Form::N; ++k) {
        out[k] = kIsLog ? values[0][k] - by : exp_of(values[0][k] - of.most) * by;
      }
      to.write(out, i);
    });
  });
}

// softmax: dx = y (grad - sum(grad y)). log_softmax: dx = grad - exp(y) sum(grad).
template <class Form, bool kIsHeld, bool kIsLog>
__device__ void backward(const RowThreads& threads, const DeviceRows& grad, const DeviceRows& y, const DeviceRows& dx) {
  using T = typename Form::T;
  GroupOf<Form> group(threads);
  group.for_rows(y.count, [&](std::int64_t row, bool is_valid) {
    const RowCursor<Form> from[] = {{grad, row}, {y, row}};
    const RowCursor<Form> to(dx, row);
    const RowReader<Form, 2, kIsHeld> in(group, is_valid ? y.length : 0, from);
    T sum = 0;
    in.each([&](const auto& values, auto, int) {
#pragma unroll
      for (int k = 0; k < Form::N; ++k) sum += kIsLog ? values[0][k] : values[0][k] * values[1][k];
    });
    sum = group.sum(sum);
    in.each([&](const auto& values, auto i, int) {
      T d[Form::N];
#pragma unroll
      for (int k = 0; k < Form::N; ++k) {
        d[k] = kIsLog ? values[0][k] - exp_of(values[1][k]) * sum : values[1][k] * (values[0][k] - sum);
      }
      to.write(d, i);
    });
  });
}

template <class Form, bool kIsHeld>
__device__ void softmax_rows(const RowThreads& threads, const DeviceRows& x, const DeviceRows& y) {
  forward<Form, kIsHeld, false>(threads, x, y);
}
template <class Form, bool kIsHeld>
__device__ void log_softmax_rows(const RowThreads& threads, const DeviceRows& x, const DeviceRows& y) {
  forward<Form, kIsHeld, true>(threads, x, y);
}
template <class Form, bool kIsHeld>
__device__ void softmax_backward_rows(const RowThreads& threads, const DeviceRows& grad, const DeviceRows& y,
                                      const DeviceRows& dx) {
  backward<Form, kIsHeld, false>(threads, grad, y, dx);
}
template <class Form, bool kIsHeld>
__device__ void log_softmax_backward_rows(const RowThreads& threads, const DeviceRows& grad, const DeviceRows& y,
                                          const DeviceRows& dx) {
  backward<Form, kIsHeld, true>(threads, grad, y, dx);
}

}  // namespace

#define TESSERA_TWO_ROWS (RowThreads threads, TESSERA_ROWS a, TESSERA_ROWS b)
#define TESSERA_THREE_ROWS (RowThreads threads, TESSERA_ROWS a, TESSERA_ROWS b, TESSERA_ROWS c)
TESSERA_ROW_FORMS(softmax, TESSERA_HELD_BLOCKS(2), TESSERA_TWO_ROWS, (threads, a, b))
TESSERA_ROW_FORMS(log_softmax, TESSERA_HELD_BLOCKS(2), TESSERA_TWO_ROWS, (threads, a, b))
TESSERA_ROW_FORMS(softmax_backward, TESSERA_HELD_BLOCKS(1), TESSERA_THREE_ROWS, (threads, a, b, c))
TESSERA_ROW_FORMS(log_softmax_backward, TESSERA_HELD_BLOCKS(1), TESSERA_THREE_ROWS, (threads, a, b, c))

}  // namespace tessera::ops::cuda
