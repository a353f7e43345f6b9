// count_targets: the divisor of a mean over rows.
#include "tessera/ops/nn/cross_entropy.h"
#include "tessera/ops/nn/detail/loss_cooperations.h"
#include "tessera/ops/nn/detail/row_rule.h"
#include "tessera/ops/reduce/detail/reduce_loops.h"

namespace tessera::ops {
namespace {

using tensor::Call;

void infer(const Call& call, std::span<tensor::OutputInfo> outputs) {
  const auto& a = call.as<CountTargetsAttributes>();
  const DType dtype = call.inputs[0].dtype();
  TESSERA_CHECK_CALL(call, dtype == DType::kI64 || dtype == DType::kI32,
                     "targets must be class indices in i64 or i32, got ", dtype);
  TESSERA_CHECK_CALL(call, a.dtype == DType::kF32 || a.dtype == DType::kF64, "dtype must be f32 or f64, got ", a.dtype);
  outputs[0] = {Shape(), a.dtype};
}

layout::FactorRule rule(const Call& call) {
  const int ndim = call.inputs[0].ndim();
  detail::RowRule rule(call, ndim, -1, layout::FactorKind::kReplicate, layout::FactorKind::kCooperate);
  rule.add_input_whole();
  rule.add_output_scalar();
  return rule.take();
}

tensor::Cost cost(const Call& call) { return detail::row_cost(call, 1); }

const tensor::Operator kCountTargets =
    tensor::register_op({.name = "count_targets",
                         .inputs = "targets",
                         .infer = infer,
                         .host = detail::reduce_on_host<detail::count_targets_reduction>,
                         .rule = rule,
                         .cost = cost,
                         .cooperation = &detail::kCountTargetsTogether});

}  // namespace

detail::ReduceSpec detail::count_targets_reduction(const Call& call) {
  ReduceSpec of;  // over all dimensions
  of.loop.compute = Compute::kI64;
  of.loop.map = Map::kDiffers;
  of.loop.finish = Finish::kAtLeastOne;
  of.loop.parameter = static_cast<double>(call.as<CountTargetsAttributes>().ignore_index);
  return of;
}

Tensor count_targets(const Tensor& targets, std::int64_t ignore_index, DType dtype) {
  return tensor::call(kCountTargets, {targets}, CountTargetsAttributes{ignore_index, dtype});
}

}  // namespace tessera::ops
