// Common code of all reductions: dimensions, result shape, rule.
#pragma once

#include <vector>

#include "tessera/ops/reduce/detail/reduction.h"
#include "tessera/ops/reduce/reduce.h"
#include "tessera/tensor/call.h"

namespace tessera::ops::detail {

/// Returns a flag for each dimension. Throws InvalidArgument if `dims` lists one twice. An empty list selects all
/// dimensions.
std::vector<bool> reduced_dims(const tensor::Call& call, const tensor::IntList& dims);
/// Returns the flags for `dims` that were checked before.
std::vector<bool> reduced_dims(int ndim, const tensor::IntList& dims);
/// Returns the shape without the reduced dimensions, or with size 1 for them.
Shape reduced_shape(const Shape& shape, const std::vector<bool>& is_reduced, bool keepdim);
/// Returns the number of elements per result.
std::int64_t reduced_count(const Shape& shape, const std::vector<bool>& is_reduced);

/// Returns a rule in which kept dimensions pass and reduced ones have `kind`.
layout::FactorRule reduce_rule(const tensor::Call& call, const tensor::IntList& dims, bool keepdim,
                               layout::FactorKind kind, Reduction reduction, layout::Algebra algebra);

/// Enqueues the reduction over the dimensions.
void enqueue_reduction(const tensor::KernelCall& call, const tensor::IntList& dims, ReduceLoop reduction);

/// Returns a result (or its gradient) with the reduced dimensions restored as 1, to broadcast with the input.
Tensor with_reduced_dims(const Tensor& result, const Shape& input, const tensor::IntList& dims, bool keepdim);

/// Returns a cost of one flop per element.
tensor::Cost reduce_cost(const tensor::Call& call);

}  // namespace tessera::ops::detail
