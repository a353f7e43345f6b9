#include "tessera/ops/nn/softmax.h"

#include <hwy/cache_control.h>

#include <cmath>

#include "tessera/ops/detail/dtype_checks.h"
#include "tessera/ops/detail/enqueue.h"
#include "tessera/ops/nn/detail/row_cooperations.h"
#include "tessera/ops/nn/detail/row_kernels.h"
#include "tessera/ops/nn/detail/row_rule.h"
#include "tessera/ops/nn/detail/rows.h"
#include "tessera/tensor/call.h"

namespace tessera::ops {
namespace {

using detail::Rows;
using tensor::Call;
using tensor::GradientCall;
using tensor::KernelCall;

int dim_of(const Call& call) {
  return tensor::normalized_dim(call, call.as<SoftmaxAttributes>().dim, call.inputs[0].ndim());
}

void infer(const Call& call, std::span<tensor::OutputInfo> outputs) {
  const Tensor& x = call.inputs[0];
  dim_of(call);
  detail::check_floating(call, call.inputs[0]);
  outputs[0] = {x.shape(), x.dtype()};
}

void infer_backward(const Call& call, std::span<tensor::OutputInfo> outputs) {
  infer(call, outputs);
  detail::check_same(call, 0, 1);
}

// Computes y = softmax(x), or its logarithm.
template <class T, bool kIsLog>
void run_forward(const Rows& x, const Rows& y) {
  const auto& kernels = detail::row_kernels<T>();
  const std::int64_t n = x.length();
  detail::for_row_pieces<T>(x.count(), n, 2, [&](std::int64_t begin, std::int64_t end, T* scratch) {
    for (std::int64_t row = begin; row < end; ++row) {
      const T* in = x.read(row, scratch);
      T* out = y.begin_write(row, scratch + n);
      const T most = kernels.max(in, n);
      if constexpr (kIsLog) {
        kernels.shift(in, -(most + std::log(kernels.sum_exp(in, most, n))), out, n);
      } else {
        const T sum = kernels.exp_sum(in, most, out, n);
        kernels.scale(out, T(1) / sum, out, n);
      }
      y.finish(row, scratch + n);
    }
  });
}

template <class T, bool kIsLog>
void run_backward(const Rows& grad, const Rows& y, const Rows& dx) {
  const auto& kernels = detail::row_kernels<T>();
  const std::int64_t n = y.length();
  // A result larger than the caches is written past them, which saves reading it first.
  constexpr std::int64_t kStreamedBytes = std::int64_t{32} << 20;
  const bool is_streamed = y.count() * n * static_cast<std::int64_t>(sizeof(T)) >= kStreamedBytes;
  const auto gradient = kIsLog        ? kernels.log_softmax_gradient
                        : is_streamed ? kernels.softmax_gradient_streamed
                                      : kernels.softmax_gradient;
  detail::for_row_pieces<T>(y.count(), n, 3, [&](std::int64_t begin, std::int64_t end, T* scratch) {
    for (std::int64_t row = begin; row < end; ++row) {
      const T* g = grad.read(row, scratch);
      const T* out = y.read(row, scratch + n);
      T* to = dx.begin_write(row, scratch + 2 * n);
      gradient(g, out, to, n);
      dx.finish(row, scratch + 2 * n);
    }
    if (is_streamed) hwy::FlushStream();
  });
}

template <bool kIsLog>
void kernel(const KernelCall& call) {
  if (call.outputs[0].numel() == 0) return;
  const int dim = dim_of(call);
  detail::with_floating(call.inputs[0].dtype(), [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    detail::enqueue(call,
                    [x = Rows(call.inputs[0], dim), y = Rows(call.outputs[0], dim)] { run_forward<T, kIsLog>(x, y); });
  });
}

template <bool kIsLog>
void backward_kernel(const KernelCall& call) {
  if (call.outputs[0].numel() == 0) return;
  const int dim = dim_of(call);
  detail::with_floating(call.inputs[0].dtype(), [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    detail::enqueue(call, [grad = Rows(call.inputs[0], dim), y = Rows(call.inputs[1], dim),
                           dx = Rows(call.outputs[0], dim)] { run_backward<T, kIsLog>(grad, y, dx); });
  });
}

layout::FactorRule rule(const Call& call) {
  detail::RowRule rule(call, call.inputs[0].ndim(), dim_of(call), layout::FactorKind::kCooperate);
  rule.add_input_whole();
  rule.add_output_whole();
  return rule.take();
}

// Linear in the gradient, but not in the result of the forward pass.
layout::FactorRule backward_rule(const Call& call) {
  detail::RowRule rule(call, call.inputs[0].ndim(), dim_of(call), layout::FactorKind::kCooperate);
  rule.add_input_whole(layout::Linearity::kMulti);
  rule.add_input_whole();
  rule.add_output_whole();
  return rule.take();
}

template <int kPasses>
tensor::Cost cost(const Call& call) {
  return detail::row_cost(call, kPasses);
}

void softmax_gradient(GradientCall& call) {
  if (call.needs(0)) call.set(0, softmax_backward(call.grad(), call.output(), call.as<SoftmaxAttributes>().dim));
}
void log_softmax_gradient(GradientCall& call) {
  if (call.needs(0)) call.set(0, log_softmax_backward(call.grad(), call.output(), call.as<SoftmaxAttributes>().dim));
}

const tensor::Operator kSoftmax = tensor::register_op({.name = "softmax",
                                                       .inputs = "x",
                                                       .infer = infer,
                                                       .host = kernel<false>,
                                                       .gradient = softmax_gradient,
                                                       .saves = "out",
                                                       .rule = rule,
                                                       .cost = cost<5>,
                                                       .cooperation = &detail::kSoftmaxTogether});
const tensor::Operator kLogSoftmax = tensor::register_op({.name = "log_softmax",
                                                          .inputs = "x",
                                                          .infer = infer,
                                                          .host = kernel<true>,
                                                          .gradient = log_softmax_gradient,
                                                          .saves = "out",
                                                          .rule = rule,
                                                          .cost = cost<5>,
                                                          .cooperation = &detail::kLogSoftmaxTogether});
const tensor::Operator kSoftmaxBackward = tensor::register_op({.name = "softmax_backward",
                                                               .inputs = "grad, out",
                                                               .outputs = "dx",
                                                               .infer = infer_backward,
                                                               .host = backward_kernel<false>,
                                                               .rule = backward_rule,
                                                               .cost = cost<4>,
                                                               .cooperation = &detail::kSoftmaxBackwardTogether});
const tensor::Operator kLogSoftmaxBackward = tensor::register_op({.name = "log_softmax_backward",
                                                                  .inputs = "grad, out",
                                                                  .outputs = "dx",
                                                                  .infer = infer_backward,
                                                                  .host = backward_kernel<true>,
                                                                  .rule = backward_rule,
                                                                  .cost = cost<5>,
                                                                  .cooperation = &detail::kLogSoftmaxBackwardTogether});

}  // namespace

Tensor softmax(const Tensor& x, std::int64_t dim) { return tensor::call(kSoftmax, {x}, SoftmaxAttributes{dim}); }
Tensor log_softmax(const Tensor& x, std::int64_t dim) { return tensor::call(kLogSoftmax, {x}, SoftmaxAttributes{dim}); }
Tensor softmax_backward(const Tensor& grad, const Tensor& out, std::int64_t dim) {
  return tensor::call(kSoftmaxBackward, {grad, out}, SoftmaxAttributes{dim});
}
Tensor log_softmax_backward(const Tensor& grad, const Tensor& out, std::int64_t dim) {
  return tensor::call(kLogSoftmaxBackward, {grad, out}, SoftmaxAttributes{dim});
}

}  // namespace tessera::ops
