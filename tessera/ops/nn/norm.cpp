#include "tessera/ops/nn/norm.h"

#include <algorithm>

#include "tessera/ops/detail/dtype_checks.h"
#include "tessera/ops/detail/enqueue.h"
#include "tessera/ops/detail/rows_per_piece.h"
#include "tessera/ops/nn/detail/row_cooperations.h"
#include "tessera/ops/nn/detail/row_kernels.h"
#include "tessera/ops/nn/detail/row_rule.h"
#include "tessera/ops/nn/detail/rows.h"
#include "tessera/ops/pointwise/convert.h"
#include "tessera/ops/pointwise/pointwise.h"
#include "tessera/ops/shape/shape.h"
#include "tessera/tensor/call.h"

namespace tessera::ops {
namespace {

using detail::Rows;
using tensor::Call;
using tensor::GradientCall;
using tensor::KernelCall;

Shape rows_shape(const Shape& shape) { return Shape(shape.values().first(shape.size() - 1)); }

void check_parameter(const Call& call, std::size_t input, const Tensor& x) {
  const Tensor& parameter = call.inputs[input];
  if (!parameter) return;
  TESSERA_CHECK_CALL(call, parameter.shape() == Shape({x.size(-1)}) && parameter.dtype() == x.dtype(),
                     call.op->inputs[input].name, " must be ", x.dtype(), Shape({x.size(-1)}), ", got ",
                     parameter.dtype(), parameter.shape());
}

void check_rows(const Call& call, std::size_t x) {
  detail::check_floating(call, call.inputs[x]);
  TESSERA_CHECK_CALL(call, call.inputs[x].ndim() >= 1, call.op->inputs[x].name,
                     " must have at least 1 dimension, got 0");
}

void check_statistics(const Call& call, std::size_t input, const Tensor& x) {
  detail::check_floating(call, call.inputs[input]);
  TESSERA_CHECK_CALL(call, call.inputs[input].shape() == rows_shape(x.shape()), call.op->inputs[input].name,
                     " must have shape ", rows_shape(x.shape()), ", got ", call.inputs[input].shape());
}

void infer_layer_norm(const Call& call, std::span<tensor::OutputInfo> outputs) {
  check_rows(call, 0);
  const Tensor& x = call.inputs[0];
  check_parameter(call, 1, x);
  check_parameter(call, 2, x);
  outputs[0] = {x.shape(), x.dtype()};
  outputs[1] = outputs[2] = {rows_shape(x.shape()), detail::statistics_dtype(x.dtype())};
}

void infer_rms_norm(const Call& call, std::span<tensor::OutputInfo> outputs) {
  check_rows(call, 0);
  const Tensor& x = call.inputs[0];
  check_parameter(call, 1, x);
  outputs[0] = {x.shape(), x.dtype()};
  outputs[1] = {rows_shape(x.shape()), detail::statistics_dtype(x.dtype())};
}

void infer_backward(const Call& call, std::span<tensor::OutputInfo> outputs) {
  check_rows(call, 0);
  detail::check_same(call, 0, 1);
  const Tensor& x = call.inputs[1];
  check_parameter(call, 2, x);
  for (std::size_t i = 3; i < call.inputs.size(); ++i) check_statistics(call, i, x);
  outputs[0] = {x.shape(), x.dtype()};
  for (std::size_t i = 1; i < outputs.size(); ++i) outputs[i] = {Shape({x.size(-1)}), x.dtype()};
}

// One value per row.
int no_dim() { return -1; }

// Loads a parameter as contiguous T, once per call; null if it is omitted.
template <class T>
const T* parameter(const Rows& of, std::vector<T>& scratch) {
  if (!of.has_rows()) return nullptr;
  scratch.resize(static_cast<std::size_t>(of.length()));
  return of.read(0, scratch.data());
}

struct Forward {
  Rows x, weight, bias, y, mean, rstd;
  double eps;
};

template <class T>
void run_layer_norm(const Forward& of) {
  const auto& kernels = detail::row_kernels<T>();
  const std::int64_t n = of.x.length();
  std::vector<T> weight_scratch;
  std::vector<T> bias_scratch;
  const detail::NormParameters<T> with = {parameter(of.weight, weight_scratch), parameter(of.bias, bias_scratch)};
  detail::for_row_pieces<T>(of.x.count(), n, 2, [&](std::int64_t begin, std::int64_t end, T* scratch) {
    for (std::int64_t row = begin; row < end; ++row) {
      const T* x = of.x.read(row, scratch);
      T* y = of.y.begin_write(row, scratch + n);
      const detail::NormStatistics<T> statistics = kernels.layer_norm(x, with, of.eps, y, n);
      of.y.finish(row, scratch + n);
      T one[1];
      *of.mean.begin_write(row, one) = statistics.mean;
      of.mean.finish(row, one);
      *of.rstd.begin_write(row, one) = statistics.rstd;
      of.rstd.finish(row, one);
    }
  });
}

template <class T>
void run_rms_norm(const Forward& of) {
  const auto& kernels = detail::row_kernels<T>();
  const std::int64_t n = of.x.length();
  std::vector<T> weight_scratch;
  const T* weight = parameter(of.weight, weight_scratch);
  detail::for_row_pieces<T>(of.x.count(), n, 2, [&](std::int64_t begin, std::int64_t end, T* scratch) {
    for (std::int64_t row = begin; row < end; ++row) {
      const T* x = of.x.read(row, scratch);
      T* y = of.y.begin_write(row, scratch + n);
      T one[1];
      *of.rstd.begin_write(row, one) = kernels.rms_norm(x, weight, of.eps, y, n);
      of.rstd.finish(row, one);
      of.y.finish(row, scratch + n);
    }
  });
}

struct Backward {
  Rows grad, x, weight, mean, rstd, dx, dweight, dbias;
};

// Splits the rows into at most 64 chunks. Each has separate sums for the parameters, which are added in order.
template <class T>
void run_backward(const Backward& of) {
  const auto& kernels = detail::row_kernels<T>();
  const std::int64_t n = of.x.length();
  const std::int64_t rows = of.x.count();
  const bool has_mean = of.mean.has_rows();
  std::vector<T> weight_scratch;
  const T* weight = parameter(of.weight, weight_scratch);
  const std::int64_t grain = std::max(detail::rows_per_piece(n), (rows + 63) / 64);
  const std::int64_t pieces = (rows + grain - 1) / grain;
  std::vector<T> sums(static_cast<std::size_t>(std::max<std::int64_t>(pieces, 1) * 2 * n));
  detail::parallel_for(rows, grain, [&](std::int64_t begin, std::int64_t end) {
    std::vector<T> scratch(static_cast<std::size_t>(3 * n));
    T* dweight = sums.data() + begin / grain * 2 * n;
    for (std::int64_t row = begin; row < end; ++row) {
      const T* grad = of.grad.read(row, scratch.data());
      const T* x = of.x.read(row, scratch.data() + n);
      T* dx = of.dx.begin_write(row, scratch.data() + 2 * n);
      T one[1];
      const T rstd = *of.rstd.read(row, one);
      if (has_mean) {
        const T mean = *of.mean.read(row, one);
        kernels.layer_norm_gradient({grad, x, dx, dweight, dweight + n}, weight, {mean, rstd}, n);
      } else {
        kernels.rms_norm_gradient({grad, x, dx, dweight, nullptr}, weight, rstd, n);
      }
      of.dx.finish(row, scratch.data() + 2 * n);
    }
  });
  for (std::int64_t piece = 1; piece < pieces; ++piece) {
    kernels.add_scaled(sums.data() + piece * 2 * n, T(1), sums.data(), 2 * n);
  }
  for (const bool is_bias : {false, true}) {
    const Rows& to = is_bias ? of.dbias : of.dweight;
    if (!to.has_rows() || n == 0) continue;
    T* from = sums.data() + (is_bias ? n : 0);
    T* at = to.begin_write(0, from);
    if (at != from) std::copy_n(from, n, at);
    to.finish(0, from);
  }
}

template <bool kIsLayerNorm>
void kernel(const KernelCall& call) {
  const Tensor& x = call.inputs[0];
  const int last = x.ndim() - 1;
  Forward of = {Rows(x, last),
                Rows(call.inputs[1], 0),
                Rows(kIsLayerNorm ? call.inputs[2] : Tensor(), 0),
                Rows(call.outputs[0], last),
                Rows(kIsLayerNorm ? call.outputs[1] : Tensor(), no_dim()),
                Rows(call.outputs[kIsLayerNorm ? 2 : 1], no_dim()),
                call.as<NormalizationAttributes>().eps};
  detail::with_floating(x.dtype(), [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    detail::enqueue(call, [of = std::move(of)] {
      if constexpr (kIsLayerNorm) {
        run_layer_norm<T>(of);
      } else {
        run_rms_norm<T>(of);
      }
    });
  });
}

template <bool kIsLayerNorm>
void backward_kernel(const KernelCall& call) {
  const Tensor& x = call.inputs[1];
  const int last = x.ndim() - 1;
  Backward of = {Rows(call.inputs[0], last),
                 Rows(x, last),
                 Rows(call.inputs[2], 0),
                 Rows(kIsLayerNorm ? call.inputs[3] : Tensor(), no_dim()),
                 Rows(call.inputs[kIsLayerNorm ? 4 : 3], no_dim()),
                 Rows(call.outputs[0], last),
                 Rows(call.outputs[1], 0),
                 Rows(kIsLayerNorm ? call.outputs[2] : Tensor(), 0)};
  detail::with_floating(x.dtype(), [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    detail::enqueue(call, [of = std::move(of)] { run_backward<T>(of); });
  });
}

template <bool kIsLayerNorm>
layout::FactorRule rule(const Call& call) {
  const int ndim = call.inputs[0].ndim();
  detail::RowRule rule(call, ndim, ndim - 1, layout::FactorKind::kCooperate);
  rule.add_input_whole();
  for (std::size_t i = 1; i < call.inputs.size(); ++i) {
    if (call.inputs[i]) {
      rule.add_input_row();
    } else {
      rule.add_input_absent();
    }
  }
  rule.add_output_whole();
  rule.add_output_rows();
  if (kIsLayerNorm) rule.add_output_rows();
  return rule.take();
}

// The gradients of the parameters are sums over rows; all gradients are linear in the incoming gradient.
template <bool kIsLayerNorm>
layout::FactorRule backward_rule(const Call& call) {
  const int ndim = call.inputs[0].ndim();
  detail::RowRule rule(call, ndim, ndim - 1, layout::FactorKind::kCooperate, layout::FactorKind::kReduce);
  rule.add_input_whole(layout::Linearity::kMulti);
  rule.add_input_whole();
  if (call.inputs[2]) {
    rule.add_input_row();
  } else {
    rule.add_input_absent();
  }
  rule.add_input_rows();
  if (kIsLayerNorm) rule.add_input_rows();
  rule.add_output_whole();
  rule.add_output_row();
  if (kIsLayerNorm) rule.add_output_row();
  return rule.take();
}

template <int kFlops>
tensor::Cost cost(const Call& call) {
  return detail::row_cost(call, kFlops);
}

// Adds the contribution of the gradients of the statistics to x: the gradient of mean is 1 / n everywhere, that of rstd
// is -rstd^3 (x - mean) / n.
void add_statistics(GradientCall& call, Tensor& dx, const Tensor& mean, const Tensor& mean_grad, const Tensor& rstd,
                    const Tensor& rstd_grad) {
  const Tensor& x = call.input(0);
  const double share = 1 / static_cast<double>(std::max<std::int64_t>(x.size(-1), 1));
  const auto add_term = [&](const Tensor& term) {
    const Tensor typed = term.dtype() == x.dtype() ? term : cast(term, x.dtype());
    dx = dx ? add(dx, typed) : expand(typed, x.shape().values());
  };
  if (mean_grad) add_term(mul(unsqueeze(mean_grad, -1), share));
  if (!rstd_grad) return;
  const Tensor by = mul(mul(rstd_grad, mul(rstd, mul(rstd, rstd))), -share);
  add_term(mul(mean ? sub(x, unsqueeze(mean, -1)) : x, unsqueeze(by, -1)));
}

void layer_norm_gradient(GradientCall& call) {
  NormGradients of;
  if (call.grad()) {
    of = layer_norm_backward(call.grad(), call.input(0), call.input(1), call.output(1), call.output(2));
  }
  if (call.needs(0)) add_statistics(call, of.x, call.output(1), call.grad(1), call.output(2), call.grad(2));
  if (call.needs(0) && of.x) call.set(0, std::move(of.x));
  if (call.needs(1) && of.weight) call.set(1, std::move(of.weight));
  if (call.needs(2) && of.bias) call.set(2, std::move(of.bias));
}

void rms_norm_gradient(GradientCall& call) {
  NormGradients of;
  if (call.grad()) of = rms_norm_backward(call.grad(), call.input(0), call.input(1), call.output(1));
  if (call.needs(0)) add_statistics(call, of.x, {}, {}, call.output(1), call.grad(1));
  if (call.needs(0) && of.x) call.set(0, std::move(of.x));
  if (call.needs(1) && of.weight) call.set(1, std::move(of.weight));
}

const tensor::Operator kLayerNorm = tensor::register_op({.name = "layer_norm",
                                                         .inputs = "x, weight?, bias?",
                                                         .outputs = "out, mean, rstd",
                                                         .infer = infer_layer_norm,
                                                         .host = kernel<true>,
                                                         .gradient = layer_norm_gradient,
                                                         .saves = "x, weight, mean, rstd",
                                                         .rule = rule<true>,
                                                         .cost = cost<8>,
                                                         .cooperation = &detail::kLayerNormTogether});
const tensor::Operator kRmsNorm = tensor::register_op({.name = "rms_norm",
                                                       .inputs = "x, weight?",
                                                       .outputs = "out, rstd",
                                                       .infer = infer_rms_norm,
                                                       .host = kernel<false>,
                                                       .gradient = rms_norm_gradient,
                                                       .saves = "x, weight, rstd",
                                                       .rule = rule<false>,
                                                       .cost = cost<4>,
                                                       .cooperation = &detail::kRmsNormTogether});
const tensor::Operator kLayerNormBackward = tensor::register_op({.name = "layer_norm_backward",
                                                                 .inputs = "grad, x, weight?, mean, rstd",
                                                                 .outputs = "dx, dweight, dbias",
                                                                 .infer = infer_backward,
                                                                 .host = backward_kernel<true>,
                                                                 .rule = backward_rule<true>,
                                                                 .cost = cost<14>,
                                                                 .cooperation = &detail::kLayerNormBackwardTogether});
const tensor::Operator kRmsNormBackward = tensor::register_op({.name = "rms_norm_backward",
                                                               .inputs = "grad, x, weight?, rstd",
                                                               .outputs = "dx, dweight",
                                                               .infer = infer_backward,
                                                               .host = backward_kernel<false>,
                                                               .rule = backward_rule<false>,
                                                               .cost = cost<10>,
                                                               .cooperation = &detail::kRmsNormBackwardTogether});

}  // namespace

Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps) {
  const Tensor inputs[] = {x, weight, bias};
  Tensor outputs[3];
  tensor::call_into({kLayerNorm, inputs, NormalizationAttributes{eps}, outputs});
  return outputs[0];
}

Tensor rms_norm(const Tensor& x, const Tensor& weight, double eps) {
  const Tensor inputs[] = {x, weight};
  Tensor outputs[2];
  tensor::call_into({kRmsNorm, inputs, NormalizationAttributes{eps}, outputs});
  return outputs[0];
}

NormGradients layer_norm_backward(const Tensor& grad, const Tensor& x, const Tensor& weight, const Tensor& mean,
                                  const Tensor& rstd) {
  const Tensor inputs[] = {grad, x, weight, mean, rstd};
  Tensor outputs[3];
  tensor::call_into({kLayerNormBackward, inputs, {}, outputs});
  return {outputs[0], outputs[1], outputs[2]};
}

NormGradients rms_norm_backward(const Tensor& grad, const Tensor& x, const Tensor& weight, const Tensor& rstd) {
  const Tensor inputs[] = {grad, x, weight, rstd};
  Tensor outputs[2];
  tensor::call_into({kRmsNormBackward, inputs, {}, outputs});
  return {outputs[0], outputs[1], {}};
}

}  // namespace tessera::ops
