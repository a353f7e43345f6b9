// What all reductions share: which dimensions, the shape that is left, the rule.
#pragma once

#include <vector>

#include "tessera/ops/reduce/detail/reduction.h"
#include "tessera/ops/reduce/reduce.h"
#include "tessera/tensor/call.h"

namespace tessera::ops::detail {

/// A mark for each dimension of `ndim`; refuses one named twice. An empty list marks all.
std::vector<bool> reduced_dims(const tensor::Call& call, const tensor::IntList& dims);
/// The same where dims were checked before.
std::vector<bool> reduced_dims(int ndim, const tensor::IntList& dims);
/// What is left of a shape.
Shape reduced_shape(const Shape& shape, const std::vector<bool>& is_reduced, bool keepdim);
/// How many elements each result is made of.
std::int64_t reduced_count(const Shape& shape, const std::vector<bool>& is_reduced);

/// Kept dimensions pass, reduced ones are of this kind.
layout::FactorRule reduce_rule(const tensor::Call& call, const tensor::IntList& dims, bool keepdim,
                               layout::FactorKind kind, layout::Reduction reduction, layout::Algebra algebra);

/// Enqueues it over the dimensions.
void enqueue_reduction(const tensor::KernelCall& call, const tensor::IntList& dims, Reduction reduction);

/// A result (or its gradient) with the reduced dimensions as 1 again, to be broadcast against the input.
Tensor with_reduced_dims(const Tensor& result, const Shape& input, const tensor::IntList& dims, bool keepdim);

/// One flop an element.
tensor::Cost reduce_cost(const tensor::Call& call);

}  // namespace tessera::ops::detail
