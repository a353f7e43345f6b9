// Cross entropy of a linear map that never holds all logits (detail/linear_loss.h). If a rank has all classes, a loss
// with gradients computes them together with the loss, while it holds the logits. If classes are sharded, the loss
// first needs values of other ranks, and the gradient recomputes the logits.
#include <memory>

#include "tessera/ops/detail/dtype_checks.h"
#include "tessera/ops/detail/enqueue.h"
#include "tessera/ops/nn/cross_entropy.h"
#include "tessera/ops/nn/detail/linear_loss.h"
#include "tessera/ops/nn/detail/loss_chunks.h"
#include "tessera/ops/nn/detail/loss_cooperations.h"
#include "tessera/ops/nn/detail/row_rule.h"
#include "tessera/ops/pointwise/convert.h"
#include "tessera/ops/pointwise/pointwise.h"
#include "tessera/tensor/call.h"

namespace tessera::ops {
namespace {

using detail::LinearLoss;
using detail::Rows;
using tensor::Call;
using tensor::GradientCall;
using tensor::KernelCall;

Shape rows_shape(const Shape& shape) { return Shape(shape.values().first(shape.size() - 1)); }
bool is_reduced(const Call& call) { return call.as<CrossEntropyAttributes>().reduction != "none"; }
// Returns true if the rows that count are counted first.
bool is_counted(const CrossEntropyAttributes& how) { return how.reduction == "mean" && how.count == 0; }
bool is_counted(const Call& call) { return is_counted(call.as<CrossEntropyAttributes>()); }

void check_operands(const Call& call, std::size_t at) {
  const Tensor& x = call.inputs[at];
  const Tensor& weight = call.inputs[at + 1];
  detail::check_floating(call, call.inputs[at]);
  TESSERA_CHECK_CALL(call,
                     x.ndim() >= 1 && weight.ndim() == 2 && weight.dtype() == x.dtype() && weight.size(1) == x.size(-1),
                     "x and weight must have shapes [..., features] and [classes, features] and one dtype, got ",
                     x.dtype(), x.shape(), " and ", weight.dtype(), weight.shape());
  detail::check_cross_entropy(call, at + 2, rows_shape(x.shape()), weight.size(0));
}

void infer(const Call& call, std::span<tensor::OutputInfo> outputs) {
  check_operands(call, 0);
  detail::check_part_of_loss(call);
  const Tensor& x = call.inputs[0];
  const DType dtype = detail::statistics_dtype(x.dtype());
  outputs[0] = {is_reduced(call) ? Shape() : rows_shape(x.shape()), dtype};
  outputs[1] = {rows_shape(x.shape()), dtype};
}

void infer_with_gradients(const Call& call, std::span<tensor::OutputInfo> outputs) {
  check_operands(call, 0);
  TESSERA_CHECK_CALL(call, is_reduced(call) && call.as<CrossEntropyAttributes>().classes == 0,
                     "requires one loss over all classes; use reduction mean or sum, and no class map");
  outputs[0] = {Shape(), detail::statistics_dtype(call.inputs[0].dtype())};
  outputs[1] = {call.inputs[0].shape(), call.inputs[0].dtype()};
  outputs[2] = {call.inputs[1].shape(), call.inputs[0].dtype()};
}

void infer_backward(const Call& call, std::span<tensor::OutputInfo> outputs) {
  check_operands(call, 1);
  for (const std::size_t i : {0U, 4U, 5U}) {
    if (call.inputs[i]) detail::check_floating(call, call.inputs[i]);
  }
  const Tensor& x = call.inputs[1];
  const Shape rows = rows_shape(x.shape());
  const Shape loss = is_reduced(call) ? Shape() : rows;
  TESSERA_CHECK_CALL(call, call.inputs[0].shape() == loss, "gradient must have the shape of the loss, ", loss, ", got ",
                     call.inputs[0].shape());
  TESSERA_CHECK_CALL(call, call.inputs[4].shape() == rows && (!call.inputs[5] || call.inputs[5].shape() == rows),
                     "logsumexp and its gradient must have shape ", rows);
  outputs[0] = {x.shape(), x.dtype()};
  outputs[1] = {call.inputs[2].shape(), x.dtype()};
}

std::shared_ptr<LinearLoss> make_loss(const KernelCall& call, std::size_t at) {
  auto of = std::make_shared<LinearLoss>(call);
  const Tensor& x = call.inputs[at];
  const Tensor& weight = call.inputs[at + 1];
  of->x = detail::LossMatrix(x);
  of->targets = Rows(call.inputs[at + 2], -1);
  of->weight = {weight.data(), weight.strides()[0], weight.strides()[1], weight.dtype()};
  of->classes = weight.size(0);
  of->features = weight.size(1);
  return of;
}

void set_gradients(LinearLoss& of, const Tensor& dx, const Tensor& dweight) {
  of.dx = detail::LossMatrix(dx);
  of.dweight = detail::LossMatrix(dweight);
}

void kernel(const KernelCall& call) {
  const auto of = make_loss(call, 0);
  of->loss = Rows(call.outputs[0], -1);
  of->logsumexp = Rows(call.outputs[1], -1);
  detail::with_floating(call.inputs[0].dtype(), [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    detail::enqueue(call, [of] { detail::compute_loss<T>(*of); });
  });
}

void backward_kernel(const KernelCall& call) {
  const auto of = make_loss(call, 1);
  of->grad = Rows(call.inputs[0], -1);
  of->logsumexp = Rows(call.inputs[4], -1);
  of->grad_logsumexp = Rows(call.inputs[5], -1);
  set_gradients(*of, call.outputs[0], call.outputs[1]);
  detail::with_floating(call.inputs[1].dtype(), [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    detail::enqueue(call, [of] { detail::compute_gradients<T>(*of); });
  });
}

void gradients_kernel(const KernelCall& call) {
  const auto of = make_loss(call, 0);
  of->loss = Rows(call.outputs[0], -1);
  set_gradients(*of, call.outputs[1], call.outputs[2]);
  detail::with_floating(call.inputs[0].dtype(), [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    detail::enqueue(call, [of] { detail::compute_loss_and_gradients<T>(*of); });
  });
}

// [classes, features]; features cannot be sharded.
layout::OperandFactors weight_factors(layout::FactorRule& rule, int features, layout::FactorKind classes_kind) {
  const auto classes = static_cast<std::int32_t>(rule.factors.size());
  layout::Factor factor;
  factor.name = "k";
  factor.kind = classes_kind;
  rule.factors.push_back(factor);
  layout::OperandFactors of(2);
  of[0].push_back(classes);
  of[1].push_back(features);
  return of;
}

layout::FactorRule rule(const Call& call) {
  const int ndim = call.inputs[0].ndim();
  detail::RowRule rows(call, ndim, ndim - 1, layout::FactorKind::kReplicate,
                       detail::cross_entropy_rows_kind(call, true));
  rows.add_input_whole();
  rows.add_input_absent();
  rows.add_input_rows();
  if (is_reduced(call)) {
    rows.add_output_scalar();
  } else {
    rows.add_output_rows();
  }
  rows.add_output_rows();
  layout::FactorRule rule = rows.take();
  rule.inputs[1] = weight_factors(rule, ndim - 1, layout::FactorKind::kCooperate);
  return rule;
}

// A rank with a shard of the classes has a partial gradient of each row, and the complete gradient of its classes.
layout::FactorRule backward_rule(const Call& call) {
  const int ndim = call.inputs[1].ndim();
  detail::RowRule rows(call, ndim, ndim - 1, layout::FactorKind::kReplicate,
                       is_counted(call) ? layout::FactorKind::kReplicate : layout::FactorKind::kReduce);
  if (is_reduced(call)) {
    rows.add_input_scalar(layout::Linearity::kJoint);
  } else {
    rows.add_input_rows(layout::Linearity::kJoint);
  }
  rows.add_input_whole();
  rows.add_input_absent();
  rows.add_input_rows();
  rows.add_input_rows();
  if (call.inputs[5]) {
    rows.add_input_rows(layout::Linearity::kJoint);
  } else {
    rows.add_input_absent();
  }
  rows.add_output_whole();
  layout::FactorRule rule = rows.take();
  rule.inputs[2] = weight_factors(rule, ndim - 1, layout::FactorKind::kReduce);
  rule.outputs.push_back(rule.inputs[2]);
  return rule;
}

// Rows may be sharded if the divisor is known: the loss and the gradient of the weight are then sums over ranks.
layout::FactorRule rule_with_gradients(const Call& call) {
  const int ndim = call.inputs[0].ndim();
  detail::RowRule rows(call, ndim, ndim - 1, layout::FactorKind::kReplicate,
                       is_counted(call) ? layout::FactorKind::kReplicate : layout::FactorKind::kReduce);
  rows.add_input_whole();
  rows.add_input_absent();
  rows.add_input_rows();
  rows.add_output_scalar();
  rows.add_output_whole();
  layout::FactorRule rule = rows.take();
  rule.inputs[1] = weight_factors(rule, ndim - 1, layout::FactorKind::kReplicate);
  rule.outputs.push_back(rule.inputs[1]);
  return rule;
}

tensor::Attributes localize_backward(const tensor::LocalizeCall& call) {
  return detail::localized_classes(call, call.global.inputs[2].size(0), call.inputs[2].index[0]);
}

// Returns the bytes that a kernel holds for the logits of some rows, and for their gradients and those of the weight.
std::int64_t device_scratch_of(const Tensor& x, const Tensor& weight, bool has_gradients) {
  const DType computed = detail::loss_logits_dtype(x.dtype());
  const DType operand = detail::loss_operand_dtype(x.dtype());
  const auto nbytes = [](std::int64_t numel, DType dtype) {
    return numel * static_cast<std::int64_t>(itemsize(dtype));
  };
  const std::int64_t rows = x.size(-1) == 0 ? 0 : x.numel() / x.size(-1);
  const std::int64_t logits = detail::loss_chunk_rows(rows, weight.size(0)) * detail::loss_row_stride(weight.size(0));
  std::int64_t sum = nbytes(logits, computed);
  if (has_gradients && operand != computed) sum += nbytes(logits, operand);
  if (has_gradients && weight.dtype() != computed) sum += nbytes(weight.numel(), computed);
  return sum;
}

tensor::Cost cost_of(const Call& call, std::size_t at, double products) {
  tensor::Cost of = detail::row_cost(call, 0);
  of.flops =
      products * 2 * static_cast<double>(call.inputs[at].numel()) * static_cast<double>(call.inputs[at + 1].size(0));
  of.device_scratch = device_scratch_of(call.inputs[at], call.inputs[at + 1], products > 1);
  return of;
}
tensor::Cost cost(const Call& call) { return cost_of(call, 0, 1); }
tensor::Cost backward_cost(const Call& call) { return cost_of(call, 1, 3); }
tensor::Cost cost_with_gradients(const Call& call) { return cost_of(call, 0, 3); }

void gradient(GradientCall& call) {
  if (!call.grad() && !call.grad(1)) return;
  TESSERA_CHECK_AS(NotSupported, call.grad(), "linear_cross_entropy: a gradient of only logsumexp is not supported");
  CrossEntropyAttributes how = call.as<CrossEntropyAttributes>();
  Tensor grad = call.grad();
  detail::divide_mean(grad, call.input(2), how);
  LinearCrossEntropyGradients of = linear_cross_entropy_backward({grad, call.grad(1)}, call.input(0), call.input(1),
                                                                 call.input(2), call.output(1), how);
  if (call.needs(0)) call.set(0, std::move(of.x));
  if (call.needs(1)) call.set(1, std::move(of.weight));
}

// The gradients were computed with the loss, for a gradient of the loss of 1.
void gradient_with_gradients(GradientCall& call) {
  TESSERA_CHECK_AS(NotSupported, !call.grad(1) && !call.grad(2),
                   "linear_cross_entropy: second derivatives are not supported");
  if (!call.grad()) return;
  for (const int input : {0, 1}) {
    if (!call.needs(input)) continue;
    const Tensor& gradient = call.output(input + 1);
    const Tensor by = cast(call.grad(), gradient.dtype());
    const bool is_added = call.add_to_sum(input, [&](const Tensor& sum) {
      if (sum.has_layout() || gradient.has_layout()) return false;  // addcmul adds no partial sums
      addcmul_(sum, gradient, by);
      return true;
    });
    if (!is_added) call.set(input, mul(gradient, by));
  }
}

const tensor::Operator kLinearCrossEntropy = tensor::register_op({.name = "linear_cross_entropy",
                                                                  .inputs = "x, weight, targets",
                                                                  .outputs = "loss, logsumexp",
                                                                  .infer = infer,
                                                                  .host = kernel,
                                                                  .gradient = gradient,
                                                                  .saves = "x, weight, targets, logsumexp",
                                                                  .rule = rule,
                                                                  .cost = cost,
                                                                  .cooperation = &detail::kLinearCrossEntropyTogether,
                                                                  .traits = {.is_product = true}});
const tensor::Operator kLinearCrossEntropyBackward =
    tensor::register_op({.name = "linear_cross_entropy_backward",
                         .inputs = "grad, x, weight, targets, logsumexp, grad_logsumexp?",
                         .outputs = "dx, dweight",
                         .infer = infer_backward,
                         .host = backward_kernel,
                         .rule = backward_rule,
                         .localize = localize_backward,
                         .cost = backward_cost,
                         .traits = {.is_product = true}});
const tensor::Operator kLinearCrossEntropyWithGradients =
    tensor::register_op({.name = "linear_cross_entropy_with_gradients",
                         .inputs = "x, weight, targets",
                         .outputs = "loss, dx, dweight",
                         .infer = infer_with_gradients,
                         .host = gradients_kernel,
                         .gradient = gradient_with_gradients,
                         .saves = "dx, dweight",
                         .rule = rule_with_gradients,
                         .cost = cost_with_gradients,
                         .traits = {.is_product = true}});

bool has_all_classes(const Tensor& weight) { return !weight.layout() || weight.layout().shardings(0).empty(); }

// Returns true if the gradients are computed with the loss.
bool makes_gradients(const Tensor& x, const Tensor& weight, const CrossEntropyAttributes& how) {
  return tensor::is_grad_enabled() && x.is_tracked() && weight.is_tracked() && how.reduction != "none" &&
         how.classes == 0 && has_all_classes(weight) && !(is_counted(how) && x.layout());
}

}  // namespace

Tensor linear_cross_entropy(const Tensor& x, const Tensor& weight, const Tensor& targets,
                            const CrossEntropyAttributes& how) {
  const Tensor inputs[] = {x, weight, targets};
  if (makes_gradients(x, weight, how)) {
    Tensor outputs[3];
    tensor::call_into({kLinearCrossEntropyWithGradients, inputs, how, outputs});
    return outputs[0];
  }
  Tensor outputs[2];
  tensor::call_into({kLinearCrossEntropy, inputs, how, outputs});
  return outputs[0];
}

LinearCrossEntropyGradients linear_cross_entropy_backward(const CrossEntropyResult& grad, const Tensor& x,
                                                          const Tensor& weight, const Tensor& targets,
                                                          const Tensor& logsumexp, const CrossEntropyAttributes& how) {
  const Tensor inputs[] = {grad.loss, x, weight, targets, logsumexp, grad.logsumexp};
  Tensor outputs[2];
  tensor::call_into({kLinearCrossEntropyBackward, inputs, how, outputs});
  return {outputs[0], outputs[1]};
}

}  // namespace tessera::ops
