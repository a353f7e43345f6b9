// gather and scatter: copy single elements from or to indices, line by line.
#include <cstring>

#include "tessera/ops/detail/enqueue.h"
#include "tessera/ops/detail/rows_per_piece.h"
#include "tessera/ops/index/detail/lines.h"
#include "tessera/ops/index/index.h"
#include "tessera/ops/parallel.h"
#include "tessera/ops/shape/arrange.h"
#include "tessera/ops/shape/detail/copy_elements.h"

namespace tessera::ops {
namespace {

using layout::FactorKind;
using layout::FactorRule;
using tensor::Call;
using tensor::GradientCall;
using tensor::KernelCall;
using tensor::OutputInfo;

// gather

std::size_t gather_dim(const Call& call) {
  return detail::line_dim(call, call.inputs[0], call.inputs[1], call.as<IndexAttributes>().dim);
}

void infer_gather(const Call& call, std::span<OutputInfo> outputs) {
  gather_dim(call);
  outputs[0] = {call.inputs[1].shape(), call.inputs[0].dtype()};
}

void gather_kernel(const KernelCall& call) {
  const Tensor& x = call.inputs[0];
  const Tensor& index = call.inputs[1];
  const Tensor& out = call.outputs[0];
  const std::size_t dim = gather_dim(call);
  const detail::Lines<3> lines(index.shape(), dim, {&out, &index, &x});
  const detail::IndexReader reader(index, x.shape()[dim], "gather", static_cast<std::int64_t>(dim));
  std::byte* to = out.data();
  const std::byte* from = x.data();
  const std::size_t nbytes = itemsize(x.dtype());
  detail::enqueue(call, [=] {
    detail::with_word(nbytes, [&](auto word) {
      using Word = decltype(word);
      detail::parallel_for(
          lines.loop.numel(), detail::rows_per_piece(lines.length), [&](std::int64_t begin, std::int64_t end) {
            lines.for_each(begin, end, [&](const auto& at) {
              auto* result = reinterpret_cast<Word*>(to) + at[0];
              const auto* source = reinterpret_cast<const Word*>(from) + at[2];
              for (std::int64_t i = 0; i < lines.length; ++i) {
                result[i * lines.step[0]] = source[reader.at(at[1] + i * lines.step[1]) * lines.step[2]];
              }
            });
          });
    });
  });
}

void gather_gradient(GradientCall& call) {
  if (!call.needs(0)) return;
  const Shape& shape = call.input_shape(0);
  const std::int64_t dim = call.as<IndexAttributes>().dim;
  const int at = static_cast<int>(dim < 0 ? dim + shape.ndim() : dim);
  Tensor grad = scatter_sum(call.grad(), at, call.input(1), shape.dim(at));
  for (int d = 0; d < shape.ndim(); ++d) {  // nothing was read beyond the size of the index
    if (d != at && shape.dim(d) != grad.size(d)) grad = unslice(grad, d, shape.dim(d), 0);
  }
  call.set(0, grad);
}

FactorRule rule_of_gather(const Call& call) {
  const std::size_t dim = gather_dim(call);
  FactorRule rule = detail::empty_rule("gather", 2, 1);
  rule.algebra[0] = detail::kMoves;
  const Shape& x = call.inputs[0].shape();
  const detail::LineRule lines{x, call.inputs[1].shape(), dim, FactorKind::kReplicate, 0, FactorKind::kPass};
  lines.add(rule, {&rule.inputs[0]}, {&rule.inputs[1], &rule.outputs[0]});
  return rule;
}

// scatter

std::size_t scatter_dim(const Call& call) {
  return detail::line_dim(call, call.inputs[0], call.inputs[1], call.as<ScatterAttributes>().dim);
}

void infer_scatter(const Call& call, std::span<OutputInfo> outputs) {
  const Tensor& x = call.inputs[0];
  const Tensor& source = call.inputs[2];
  scatter_dim(call);
  TESSERA_CHECK_CALL(call, !source || source.shape() == call.inputs[1].shape(), "source must have the shape of index, ",
                     call.inputs[1].shape(), ", got ", source ? source.shape() : Shape());
  TESSERA_CHECK_CALL(call, !source || source.dtype() == x.dtype(), "source must have the dtype of x, ", x.dtype(),
                     ", got ", source ? source.dtype() : x.dtype(), "; cast one of them");
  outputs[0] = {x.shape(), x.dtype()};
}

void scatter_kernel(const KernelCall& call) {
  const Tensor& x = call.inputs[0];
  const Tensor& index = call.inputs[1];
  const Tensor& source = call.inputs[2];
  const Tensor& out = call.outputs[0];
  const std::size_t dim = scatter_dim(call);
  const auto copy = detail::whole_copy(out, x);
  const detail::Lines<3> lines(index.shape(), dim, {&out, &index, source ? &source : &index});
  const detail::IndexReader reader(index, x.shape()[dim], "scatter", static_cast<std::int64_t>(dim));
  const auto value = detail::element_of(call.as<ScatterAttributes>().value, x.dtype());
  std::byte* to = out.data();
  const std::byte* from = source ? source.data() : nullptr;
  const std::size_t nbytes = itemsize(x.dtype());
  detail::enqueue(call, [=] {
    copy.run();
    detail::with_word(nbytes, [&](auto word) {
      using Word = decltype(word);
      std::memcpy(&word, value.data(), sizeof word);
      detail::parallel_for(
          lines.loop.numel(), detail::rows_per_piece(lines.length), [&](std::int64_t begin, std::int64_t end) {
            lines.for_each(begin, end, [&](const auto& at) {
              auto* result = reinterpret_cast<Word*>(to) + at[0];
              const auto* written = reinterpret_cast<const Word*>(from) + (from == nullptr ? 0 : at[2]);
              for (std::int64_t i = 0; i < lines.length; ++i) {
                result[reader.at(at[1] + i * lines.step[1]) * lines.step[0]] =
                    from == nullptr ? word : written[i * lines.step[2]];
              }
            });
          });
    });
  });
}

void scatter_gradient(GradientCall& call) {
  const std::int64_t dim = call.as<ScatterAttributes>().dim;
  if (call.needs(0)) call.set(0, scatter(call.grad(), dim, call.input(1), 0));
  if (call.needs(2)) call.set(2, gather(call.grad(), dim, call.input(1)));
}

// A value other than 0 would be written to each partial value and thus counted several times.
FactorRule rule_of_scatter(const Call& call) {
  const std::size_t dim = scatter_dim(call);
  const bool has_source = static_cast<bool>(call.inputs[2]);
  FactorRule rule = detail::empty_rule("scatter", 3, 1);
  rule.algebra[0] = detail::kMoves;
  if (has_source) rule.algebra[2] = detail::kMoves;
  if (!has_source && call.as<ScatterAttributes>().value.as_bool()) rule.algebra[0].linearity = layout::Linearity::kNone;
  const Shape& x = call.inputs[0].shape();
  const detail::LineRule lines{x, call.inputs[1].shape(), dim, FactorKind::kReplicate, 0, FactorKind::kReplicate};
  if (has_source) {
    lines.add(rule, {&rule.inputs[0], &rule.outputs[0]}, {&rule.inputs[1], &rule.inputs[2]});
  } else {
    lines.add(rule, {&rule.inputs[0], &rule.outputs[0]}, {&rule.inputs[1]});
  }
  return rule;
}

const tensor::Operator kGather = tensor::register_op({.name = "gather",
                                                      .inputs = "x, index",
                                                      .infer = infer_gather,
                                                      .host = gather_kernel,
                                                      .gradient = gather_gradient,
                                                      .saves = "index",
                                                      .rule = rule_of_gather,
                                                      .cost = detail::moved_cost});
const tensor::Operator kScatter = tensor::register_op({.name = "scatter",
                                                       .inputs = "x, index, source?",
                                                       .infer = infer_scatter,
                                                       .host = scatter_kernel,
                                                       .gradient = scatter_gradient,
                                                       .saves = "index",
                                                       .rule = rule_of_scatter,
                                                       .cost = detail::moved_cost});

}  // namespace

Tensor gather(const Tensor& x, std::int64_t dim, const Tensor& index) {
  return tensor::call(kGather, {x, index}, IndexAttributes{dim});
}
Tensor scatter(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& source) {
  TESSERA_CHECK(source, "scatter: source must be a tensor");
  return tensor::call(kScatter, {x, index, source}, ScatterAttributes{dim, 0});
}
Tensor scatter(const Tensor& x, std::int64_t dim, const Tensor& index, const Scalar& value) {
  return tensor::call(kScatter, {x, index, Tensor()}, ScatterAttributes{dim, value});
}

}  // namespace tessera::ops
