#include "tessera/ops/reduce/detail/reduce_dims.h"

#include <algorithm>

#include "tessera/ops/detail/enqueue.h"
#include "tessera/ops/shape/detail/byte_count.h"
#include "tessera/ops/shape/detail/rule_parts.h"
#include "tessera/ops/shape/shape.h"

namespace tessera::ops::detail {

using tensor::IntList;

std::vector<bool> reduced_dims(const tensor::Call& call, const IntList& dims) {
  const int ndim = call.inputs[0].ndim();
  std::vector<bool> marks(static_cast<std::size_t>(ndim), dims.empty());
  bool is_scalar_reduced = false;  // for a tensor without dimensions, which counts as one dimension
  for (const std::int64_t dim : dims) {
    const auto d = static_cast<std::size_t>(tensor::normalized_dim(call, dim, ndim));
    TESSERA_CHECK_CALL(call, (ndim > 0 ? !marks[d] : !is_scalar_reduced), "dimensions must be distinct, got ", d,
                       " twice");
    if (ndim > 0) marks[d] = true;
    is_scalar_reduced = true;
  }
  return marks;
}

std::vector<bool> reduced_dims(int ndim, const IntList& dims) {
  std::vector<bool> marks(static_cast<std::size_t>(ndim), dims.empty());
  if (ndim == 0) return marks;
  for (const std::int64_t dim : dims) marks[static_cast<std::size_t>(dim < 0 ? dim + ndim : dim)] = true;
  return marks;
}

Shape reduced_shape(const Shape& shape, const std::vector<bool>& is_reduced, bool keepdim) {
  IntList sizes;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (!is_reduced[d]) sizes.push_back(shape[d]);
    if (is_reduced[d] && keepdim) sizes.push_back(1);
  }
  return Shape(std::span<const std::int64_t>(sizes));
}

std::int64_t reduced_count(const Shape& shape, const std::vector<bool>& is_reduced) {
  std::int64_t count = 1;
  for (std::size_t d = 0; d < shape.size(); ++d) count *= is_reduced[d] ? shape[d] : 1;
  return count;
}

layout::FactorRule reduce_rule(const tensor::Call& call, const IntList& dims, bool keepdim, layout::FactorKind kind,
                               Reduction reduction, layout::Algebra algebra) {
  const auto is_reduced = reduced_dims(call, dims);
  layout::FactorRule rule = empty_rule(call.op.name(), 1, 1, algebra);
  for (const bool reduced : is_reduced) {
    if (!reduced) {
      pass_dim(rule);
      continue;
    }
    rule.inputs[0].push_back({add_factor(rule, kind, 0, reduction)});
    if (keepdim) rule.outputs[0].emplace_back();
  }
  return rule;
}

void enqueue_reduction(const tensor::KernelCall& call, const IntList& dims, ReduceLoop reduction) {
  reduction.set_operands(call.outputs[0], call.inputs[0], reduced_dims(call, dims));
  enqueue(call, [reduction = std::move(reduction)] { reduction.run(); });
}

Tensor with_reduced_dims(const Tensor& result, const Shape& input, const IntList& dims, bool keepdim) {
  if (keepdim || input.size() == 0) return result;
  if (result.has_layout() && std::ranges::any_of(result.shape(), [](std::int64_t size) { return size <= 1; })) {
    const std::vector<bool> is_reduced = reduced_dims(input.ndim(), dims);
    Tensor raised = result;
    for (std::size_t d = 0; d < is_reduced.size(); ++d) {
      if (is_reduced[d]) raised = unsqueeze(raised, static_cast<std::int64_t>(d));
    }
    return raised;
  }
  return reshape(result, reduced_shape(input, reduced_dims(input.ndim(), dims), true).values());
}

tensor::Cost reduce_cost(const tensor::Call& call) {
  return {.flops = static_cast<double>(call.inputs[0].numel()), .nbytes = bytes_of(call.inputs[0])};
}

}  // namespace tessera::ops::detail
