// Cross entropy behind a linear map. Logits live in one buffer of a few rows: made by a product, used row by row, and
// overwritten by the next rows. The gradient makes them again, turns them into their own gradients in place and
// multiplies those on: with x into the weight's, with the weight into x's.
#include <algorithm>
#include <memory>

#include "tessera/ops/detail/dtype_checks.h"
#include "tessera/ops/detail/enqueue.h"
#include "tessera/ops/detail/rows_per_piece.h"
#include "tessera/ops/matrix/detail/gemm.h"
#include "tessera/ops/nn/cross_entropy.h"
#include "tessera/ops/nn/detail/cross_entropy_rows.h"
#include "tessera/ops/nn/detail/loss_cooperations.h"
#include "tessera/ops/nn/detail/row_rule.h"
#include "tessera/tensor/call.h"

namespace tessera::ops {
namespace {

using detail::CrossEntropyRows;
using detail::GemmOperand;
using detail::Rows;
using tensor::Call;
using tensor::GradientCall;
using tensor::KernelCall;

Shape rows_shape(const Shape& shape) { return Shape(shape.values().first(shape.size() - 1)); }
bool is_reduced(const Call& call) { return call.as<CrossEntropyAttributes>().reduction != "none"; }

void check_operands(const Call& call, std::size_t at) {
  const Tensor& x = call.inputs[at];
  const Tensor& weight = call.inputs[at + 1];
  detail::check_floating(call, call.inputs[at]);
  TESSERA_CHECK_CALL(call,
                     x.ndim() >= 1 && weight.ndim() == 2 && weight.dtype() == x.dtype() && weight.size(1) == x.size(-1),
                     "takes x [..., features] and weight [classes, features] of one dtype, not ", x.dtype(), x.shape(),
                     " and ", weight.dtype(), weight.shape());
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

void infer_backward(const Call& call, std::span<tensor::OutputInfo> outputs) {
  check_operands(call, 1);
  for (const std::size_t i : {0U, 4U, 5U}) {
    if (call.inputs[i]) detail::check_floating(call, call.inputs[i]);
  }
  const Tensor& x = call.inputs[1];
  const Shape rows = rows_shape(x.shape());
  const Shape loss = is_reduced(call) ? Shape() : rows;
  TESSERA_CHECK_CALL(call, call.inputs[0].shape() == loss, "the gradient is ", call.inputs[0].shape(), ", not ", loss,
                     " as the loss");
  TESSERA_CHECK_CALL(call, call.inputs[4].shape() == rows && (!call.inputs[5] || call.inputs[5].shape() == rows),
                     "logsumexp and its gradient are not ", rows);
  outputs[0] = {x.shape(), x.dtype()};
  outputs[1] = {call.inputs[2].shape(), x.dtype()};
}

struct Loss {
  explicit Loss(const Call& call) : how(call) {}

  CrossEntropyRows how;
  Rows x, targets, loss, logsumexp;
  Rows grad, grad_logsumexp, dx;  // backward
  Rows dweight;                   // backward
  GemmOperand weight;
  std::int64_t classes = 0;
  std::int64_t features = 0;

  // Enough rows to keep a product busy, few enough that their logits are small.
  [[nodiscard]] std::int64_t chunk() const {
    return std::clamp<std::int64_t>((std::int64_t{1} << 22) / std::max<std::int64_t>(classes, 1), 64, 1024);
  }
};

template <class T>
GemmOperand dense(T* data, std::int64_t width) {
  return {reinterpret_cast<std::byte*>(data), width, 1, ::tessera::dtype_of<T>()};
}

GemmOperand transposed(GemmOperand of) {
  std::swap(of.row, of.col);
  return of;
}

void multiply(const detail::GemmSizes& sizes, const GemmOperand& a, const GemmOperand& b, const GemmOperand& c,
              bool is_added = false) {
  detail::Gemm gemm;
  gemm.sizes = sizes;
  gemm.a = a;
  gemm.b = b;
  gemm.c = c;
  gemm.is_added = is_added;
  if (sizes.m > 0 && sizes.n > 0) detail::run_gemm(gemm);
}

// Calls body(first, count, x, logits) for each chunk: x dense, and its logits.
template <class T, class F>
void for_chunks(const Loss& of, const F& body) {
  const std::int64_t rows = of.x.count();
  const std::int64_t chunk = std::min(of.chunk(), std::max<std::int64_t>(rows, 1));
  std::vector<T> x(static_cast<std::size_t>(chunk * of.features));
  std::vector<T> logits(static_cast<std::size_t>(chunk * of.classes));
  for (std::int64_t first = 0; first < rows; first += chunk) {
    const std::int64_t count = std::min(chunk, rows - first);
    for (std::int64_t i = 0; i < count; ++i) {
      T* to = x.data() + i * of.features;
      const T* from = of.x.read(first + i, to);
      if (from != to) std::copy_n(from, of.features, to);
    }
    multiply({count, of.classes, of.features}, dense(x.data(), of.features), transposed(of.weight),
             dense(logits.data(), of.classes));
    body(first, count, x.data(), logits.data());
  }
}

template <class T>
void put(const Rows& to, std::int64_t row, T value) {
  T one[1] = {value};
  *to.begin_write(row, one) = value;
  to.finish(row, one);
}

template <class T>
void run_forward(const Loss& of) {
  std::vector<double> losses(static_cast<std::size_t>(of.x.count()));
  for_chunks<T>(of, [&](std::int64_t first, std::int64_t count, T*, T* logits) {
    detail::parallel_for(count, detail::rows_per_piece(of.classes), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        T logsumexp = 0;
        const std::int64_t target = of.how.target(of.targets, first + i, of.classes);
        const double loss = of.how.loss(logits + i * of.classes, of.classes, target, logsumexp);
        losses[static_cast<std::size_t>(first + i)] = loss;
        put(of.logsumexp, first + i, logsumexp);
        if (!of.how.is_reduced) put(of.loss, first + i, static_cast<T>(loss));
      }
    });
  });
  if (of.how.is_reduced) put(of.loss, 0, static_cast<T>(of.how.total(losses, of.targets)));
}

template <class T>
void run_backward(const Loss& of) {
  const T share = static_cast<T>(1 / of.how.divisor(of.targets));
  std::vector<T> sums(static_cast<std::size_t>(of.classes * of.features));
  std::vector<T> dx(static_cast<std::size_t>(of.chunk() * of.features));
  for_chunks<T>(of, [&](std::int64_t first, std::int64_t count, T* x, T* logits) {
    detail::parallel_for(count, detail::rows_per_piece(of.classes), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        T one[3];
        const std::int64_t row = first + i;
        const T by = *of.grad.read(of.how.is_reduced ? 0 : row, one) * share;
        const T by_all = of.grad_logsumexp.has_rows() ? *of.grad_logsumexp.read(row, one + 2) : T(0);
        T* at = logits + i * of.classes;
        of.how.gradient<T>(at, of.classes, of.how.target(of.targets, row, of.classes), *of.logsumexp.read(row, one + 1),
                           by, by_all, at);
      }
    });
    const GemmOperand gradients = dense(logits, of.classes);
    multiply({count, of.features, of.classes}, gradients, of.weight, dense(dx.data(), of.features));
    multiply({of.classes, of.features, count}, transposed(gradients), dense(x, of.features),
             dense(sums.data(), of.features), true);
    for (std::int64_t i = 0; i < count; ++i) {
      T* from = dx.data() + i * of.features;
      T* to = of.dx.begin_write(first + i, from);
      if (to != from) std::copy_n(from, of.features, to);
      of.dx.finish(first + i, from);
    }
  });
  for (std::int64_t i = 0; i < of.dweight.count() && of.features > 0; ++i) {
    T* from = sums.data() + i * of.features;
    T* to = of.dweight.begin_write(i, from);
    if (to != from) std::copy_n(from, of.features, to);
    of.dweight.finish(i, from);
  }
}

std::shared_ptr<Loss> make_loss(const KernelCall& call, std::size_t at) {
  auto of = std::make_shared<Loss>(call);
  const Tensor& x = call.inputs[at];
  const Tensor& weight = call.inputs[at + 1];
  of->x = Rows(x, x.ndim() - 1);
  of->targets = Rows(call.inputs[at + 2], -1);
  of->weight = {weight.data(), weight.strides()[0], weight.strides()[1], weight.dtype()};
  of->classes = weight.size(0);
  of->features = weight.size(1);
  return of;
}

void kernel(const KernelCall& call) {
  const auto of = make_loss(call, 0);
  of->loss = Rows(call.outputs[0], -1);
  of->logsumexp = Rows(call.outputs[1], -1);
  detail::with_floating(call.inputs[0].dtype(), [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    detail::enqueue(call, [of] { run_forward<T>(*of); });
  });
}

void backward_kernel(const KernelCall& call) {
  const auto of = make_loss(call, 1);
  of->grad = Rows(call.inputs[0], -1);
  of->logsumexp = Rows(call.inputs[4], -1);
  of->grad_logsumexp = Rows(call.inputs[5], -1);
  of->dx = Rows(call.outputs[0], call.outputs[0].ndim() - 1);
  of->dweight = Rows(call.outputs[1], 1);
  detail::with_floating(call.inputs[1].dtype(), [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    detail::enqueue(call, [of] { run_backward<T>(*of); });
  });
}

// [classes, features], of which features may not be cut.
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

// A rank that has some of the classes has a part of each row's gradient, and all of its classes'.
layout::FactorRule backward_rule(const Call& call) {
  const int ndim = call.inputs[1].ndim();
  const auto& how = call.as<CrossEntropyAttributes>();
  const bool is_counted = how.reduction == "mean" && how.count == 0;
  detail::RowRule rows(call, ndim, ndim - 1, layout::FactorKind::kReplicate,
                       is_counted ? layout::FactorKind::kReplicate : layout::FactorKind::kReduce);
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

tensor::Attributes localize_backward(const tensor::LocalizeCall& call) {
  return detail::localized_classes(call, call.global.inputs[2].size(0), call.inputs[2].index[0]);
}

tensor::Cost cost_of(const Call& call, std::size_t at, double products) {
  tensor::Cost of = detail::row_cost(call, 0);
  of.flops =
      products * 2 * static_cast<double>(call.inputs[at].numel()) * static_cast<double>(call.inputs[at + 1].size(0));
  return of;
}
tensor::Cost cost(const Call& call) { return cost_of(call, 0, 1); }
tensor::Cost backward_cost(const Call& call) { return cost_of(call, 1, 3); }

void gradient(GradientCall& call) {
  if (!call.grad() && !call.grad(1)) return;
  TESSERA_CHECK_AS(NotSupported, call.grad(), "linear_cross_entropy: a gradient of its logsumexp alone");
  CrossEntropyAttributes how = call.as<CrossEntropyAttributes>();
  Tensor grad = call.grad();
  detail::divide_mean(grad, call.input(2), how);
  LinearCrossEntropyGradients of = linear_cross_entropy_backward({grad, call.grad(1)}, call.input(0), call.input(1),
                                                                 call.input(2), call.output(1), how);
  if (call.needs(0)) call.set(0, std::move(of.x));
  if (call.needs(1)) call.set(1, std::move(of.weight));
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
                                                                  .cooperation = &detail::kLinearCrossEntropyTogether});
const tensor::Operator kLinearCrossEntropyBackward =
    tensor::register_op({.name = "linear_cross_entropy_backward",
                         .inputs = "grad, x, weight, targets, logsumexp, grad_logsumexp?",
                         .outputs = "dx, dweight",
                         .infer = infer_backward,
                         .host = backward_kernel,
                         .rule = backward_rule,
                         .localize = localize_backward,
                         .cost = backward_cost});

}  // namespace

Tensor linear_cross_entropy(const Tensor& x, const Tensor& weight, const Tensor& targets,
                            const CrossEntropyAttributes& how) {
  const Tensor inputs[] = {x, weight, targets};
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
