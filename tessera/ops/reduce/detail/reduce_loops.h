// The reduction of each operator: its fold, map and finish. The kernels of all devices take them from here.
#pragma once

#include <utility>

#include "tessera/ops/reduce/detail/reduce_dims.h"

namespace tessera::ops::detail {

/// A reduction without operands, and the dimensions that it reduces.
struct ReduceSpec {
  tensor::IntList dims;
  ReduceLoop loop;
};
/// A function that returns the reduction of a call.
using ReductionOf = ReduceSpec (*)(const tensor::Call& call);

ReduceSpec sum_reduction(const tensor::Call& call);
ReduceSpec mean_reduction(const tensor::Call& call);
ReduceSpec prod_reduction(const tensor::Call& call);
ReduceSpec amax_reduction(const tensor::Call& call);
ReduceSpec amin_reduction(const tensor::Call& call);
ReduceSpec any_reduction(const tensor::Call& call);
ReduceSpec all_reduction(const tensor::Call& call);
ReduceSpec var_reduction(const tensor::Call& call);
ReduceSpec norm_reduction(const tensor::Call& call);
ReduceSpec logsumexp_reduction(const tensor::Call& call);
ReduceSpec count_targets_reduction(const tensor::Call& call);

/// The kernel of `deviation` on every device: it calls mean and sub.
void deviation_by_operators(const tensor::KernelCall& call);

/// The host kernel of a reduction.
template <ReductionOf kOf>
void reduce_on_host(const tensor::KernelCall& call) {
  ReduceSpec of = kOf(call);
  enqueue_reduction(call, of.dims, std::move(of.loop));
}

}  // namespace tessera::ops::detail
