#include "tessera/ops/nn/cross_entropy.h"

#include "tessera/ops/detail/dtype_checks.h"
#include "tessera/ops/detail/enqueue.h"
#include "tessera/ops/nn/detail/cross_entropy_rows.h"
#include "tessera/ops/nn/detail/loss_cooperations.h"
#include "tessera/ops/nn/detail/row_rule.h"
#include "tessera/tensor/call.h"

namespace tessera::ops {
namespace {

using detail::CrossEntropyRows;
using detail::Rows;
using tensor::Call;
using tensor::GradientCall;
using tensor::KernelCall;

Shape rows_shape(const Shape& shape) { return Shape(shape.values().first(shape.size() - 1)); }

Shape loss_shape(const Call& call, const Shape& logits) {
  return call.as<CrossEntropyAttributes>().reduction == "none" ? rows_shape(logits) : Shape();
}

void check_logits(const Call& call, std::size_t at) {
  detail::check_floating(call, call.inputs[at]);
  TESSERA_CHECK_CALL(call, call.inputs[at].ndim() >= 1, "logits must have a dimension of classes, got ",
                     describe(call.inputs[at]));
}

void infer(const Call& call, std::span<tensor::OutputInfo> outputs) {
  check_logits(call, 0);
  const Tensor& logits = call.inputs[0];
  detail::check_cross_entropy(call, 1, rows_shape(logits.shape()), logits.size(-1));
  detail::check_part_of_loss(call);
  const DType dtype = detail::statistics_dtype(logits.dtype());
  outputs[0] = {loss_shape(call, logits.shape()), dtype};
  outputs[1] = {rows_shape(logits.shape()), dtype};
}

void infer_backward(const Call& call, std::span<tensor::OutputInfo> outputs) {
  check_logits(call, 1);
  const Tensor& logits = call.inputs[1];
  detail::check_cross_entropy(call, 2, rows_shape(logits.shape()), logits.size(-1));
  for (const std::size_t i : {0U, 3U, 4U}) {
    if (call.inputs[i]) detail::check_floating(call, call.inputs[i]);
  }
  TESSERA_CHECK_CALL(call, call.inputs[0].shape() == loss_shape(call, logits.shape()),
                     "gradient must have the shape of the loss, ", loss_shape(call, logits.shape()), ", got ",
                     call.inputs[0].shape());
  TESSERA_CHECK_CALL(call, call.inputs[3].shape() == rows_shape(logits.shape()), "logsumexp must have shape ",
                     rows_shape(logits.shape()), ", got ", call.inputs[3].shape());
  TESSERA_CHECK_CALL(call, !call.inputs[4] || call.inputs[4].shape() == rows_shape(logits.shape()),
                     "gradient of logsumexp must have shape ", rows_shape(logits.shape()), ", got ",
                     call.inputs[4].shape());
  outputs[0] = {logits.shape(), logits.dtype()};
}

struct Forward {
  CrossEntropyRows how;
  Rows logits, targets, loss, logsumexp;
};

template <class T>
void put(const Rows& to, std::int64_t row, T value) {
  T one[1] = {value};
  *to.begin_write(row, one) = value;
  to.finish(row, one);
}

template <class T>
void run_forward(const Forward& of) {
  const std::int64_t classes = of.logits.length();
  std::vector<double> losses(static_cast<std::size_t>(of.logits.count()));
  detail::for_row_pieces<T>(of.logits.count(), classes, 1, [&](std::int64_t begin, std::int64_t end, T* scratch) {
    for (std::int64_t row = begin; row < end; ++row) {
      T logsumexp = 0;
      const std::int64_t target = of.how.target(of.targets, row, classes);
      const double loss = of.how.loss(of.logits.read(row, scratch), classes, target, logsumexp);
      losses[static_cast<std::size_t>(row)] = loss;
      put(of.logsumexp, row, logsumexp);
      if (!of.how.is_reduced) put(of.loss, row, static_cast<T>(loss));
    }
  });
  if (of.how.is_reduced) put(of.loss, 0, static_cast<T>(of.how.total(losses, of.targets)));
}

struct Backward {
  CrossEntropyRows how;
  Rows grad, logits, targets, logsumexp, grad_logsumexp, dx;
};

template <class T>
void run_backward(const Backward& of) {
  const std::int64_t classes = of.logits.length();
  const T share = static_cast<T>(1 / of.how.divisor(of.targets));
  detail::for_row_pieces<T>(of.logits.count(), classes, 2, [&](std::int64_t begin, std::int64_t end, T* scratch) {
    for (std::int64_t row = begin; row < end; ++row) {
      T one[3];
      const std::int64_t target = of.how.target(of.targets, row, classes);
      const T by_all = of.grad_logsumexp.has_rows() ? *of.grad_logsumexp.read(row, one + 2) : T(0);
      const T by = *of.grad.read(of.how.is_reduced ? 0 : row, one) * share;
      T* dx = of.dx.begin_write(row, scratch + classes);
      of.how.gradient(of.logits.read(row, scratch), classes, target, *of.logsumexp.read(row, one + 1), by, by_all, dx);
      of.dx.finish(row, scratch + classes);
    }
  });
}

void kernel(const KernelCall& call) {
  const Tensor& logits = call.inputs[0];
  const auto of = std::make_shared<const Forward>(Forward{CrossEntropyRows(call), Rows(logits, logits.ndim() - 1),
                                                          Rows(call.inputs[1], -1), Rows(call.outputs[0], -1),
                                                          Rows(call.outputs[1], -1)});
  detail::with_floating(logits.dtype(), [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    detail::enqueue(call, [of] { run_forward<T>(*of); });
  });
}

void backward_kernel(const KernelCall& call) {
  const Tensor& logits = call.inputs[1];
  const auto of = std::make_shared<const Backward>(Backward{
      CrossEntropyRows(call), Rows(call.inputs[0], -1), Rows(logits, logits.ndim() - 1), Rows(call.inputs[2], -1),
      Rows(call.inputs[3], -1), Rows(call.inputs[4], -1), Rows(call.outputs[0], logits.ndim() - 1)});
  detail::with_floating(logits.dtype(), [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    detail::enqueue(call, [of] { run_backward<T>(*of); });
  });
}

layout::FactorRule rule(const Call& call) {
  const int ndim = call.inputs[0].ndim();
  detail::RowRule rule(call, ndim, ndim - 1, layout::FactorKind::kCooperate,
                       detail::cross_entropy_rows_kind(call, true));
  rule.add_input_whole();
  rule.add_input_rows();
  if (call.as<CrossEntropyAttributes>().reduction == "none") {
    rule.add_output_rows();
  } else {
    rule.add_output_scalar();
  }
  rule.add_output_rows();
  return rule.take();
}

// Each rank knows its classes and the logsumexp over all classes.
layout::FactorRule backward_rule(const Call& call) {
  const int ndim = call.inputs[1].ndim();
  detail::RowRule rule(call, ndim, ndim - 1, layout::FactorKind::kPass, detail::cross_entropy_rows_kind(call, false));
  if (call.as<CrossEntropyAttributes>().reduction == "none") {
    rule.add_input_rows(layout::Linearity::kJoint);
  } else {
    rule.add_input_scalar(layout::Linearity::kJoint);
  }
  rule.add_input_whole();
  rule.add_input_rows();
  rule.add_input_rows();
  if (call.inputs[4]) {
    rule.add_input_rows(layout::Linearity::kJoint);
  } else {
    rule.add_input_absent();
  }
  rule.add_output_whole();
  return rule.take();
}

tensor::Attributes localize_backward(const tensor::LocalizeCall& call) {
  return detail::localized_classes(call, call.global.inputs[1].size(-1), call.inputs[1].index.back());
}

tensor::Cost cost(const Call& call) { return detail::row_cost(call, 4); }
tensor::Cost backward_cost(const Call& call) {
  tensor::Cost of = detail::row_cost(call, 0);
  of.flops = 4 * static_cast<double>(call.inputs[1].numel());
  return of;
}

void gradient(GradientCall& call) {
  if (!call.needs(0) || (!call.grad() && !call.grad(1))) return;
  TESSERA_CHECK_AS(NotSupported, call.grad(),
                   "cross_entropy: a gradient of only logsumexp is not supported; use logsumexp()");
  CrossEntropyAttributes how = call.as<CrossEntropyAttributes>();
  Tensor grad = call.grad();
  detail::divide_mean(grad, call.input(1), how);
  call.set(0, cross_entropy_backward({grad, call.grad(1)}, call.input(0), call.input(1), call.output(1), how));
}

const tensor::Operator kCrossEntropy = tensor::register_op({.name = "cross_entropy",
                                                            .inputs = "logits, targets",
                                                            .outputs = "loss, logsumexp",
                                                            .infer = infer,
                                                            .host = kernel,
                                                            .gradient = gradient,
                                                            .saves = "logits, targets, logsumexp",
                                                            .rule = rule,
                                                            .cost = cost,
                                                            .cooperation = &detail::kCrossEntropyTogether});
const tensor::Operator kCrossEntropyBackward =
    tensor::register_op({.name = "cross_entropy_backward",
                         .inputs = "grad, logits, targets, logsumexp, grad_logsumexp?",
                         .outputs = "dx",
                         .infer = infer_backward,
                         .host = backward_kernel,
                         .rule = backward_rule,
                         .localize = localize_backward,
                         .cost = backward_cost});

}  // namespace

CrossEntropyResult cross_entropy_with_logsumexp(const Tensor& logits, const Tensor& targets,
                                                const CrossEntropyAttributes& how) {
  const Tensor inputs[] = {logits, targets};
  Tensor outputs[2];
  tensor::call_into({kCrossEntropy, inputs, how, outputs});
  return {outputs[0], outputs[1]};
}

Tensor cross_entropy(const Tensor& logits, const Tensor& targets, const CrossEntropyAttributes& how) {
  return cross_entropy_with_logsumexp(logits, targets, how).loss;
}

Tensor cross_entropy_backward(const CrossEntropyResult& grad, const Tensor& logits, const Tensor& targets,
                              const Tensor& logsumexp, const CrossEntropyAttributes& how) {
  return tensor::call(kCrossEntropyBackward, {grad.loss, logits, targets, logsumexp, grad.logsumexp}, how);
}

}  // namespace tessera::ops
