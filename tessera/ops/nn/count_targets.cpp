// count_targets: the divisor of a mean over rows.
#include <algorithm>

#include "tessera/ops/detail/enqueue.h"
#include "tessera/ops/nn/cross_entropy.h"
#include "tessera/ops/nn/detail/loss_cooperations.h"
#include "tessera/ops/nn/detail/row_rule.h"
#include "tessera/ops/nn/detail/rows.h"

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

void kernel(const tensor::KernelCall& call) {
  const auto& a = call.as<CountTargetsAttributes>();
  const detail::Rows targets(call.inputs[0], -1);
  const detail::Rows out(call.outputs[0], -1);
  detail::enqueue(call, [targets, out, ignore_index = a.ignore_index] {
    std::int64_t counted = 0;
    for (std::int64_t row = 0; row < targets.count(); ++row) {
      std::int64_t one[1];
      counted += *targets.read(row, one) != ignore_index ? 1 : 0;
    }
    double count[1] = {static_cast<double>(std::max<std::int64_t>(counted, 1))};
    *out.begin_write(0, count) = count[0];
    out.finish(0, count);
  });
}

layout::FactorRule rule(const Call& call) {
  const int ndim = call.inputs[0].ndim();
  detail::RowRule rule(call, ndim, -1, layout::FactorKind::kReplicate, layout::FactorKind::kCooperate);
  rule.add_input_whole();
  rule.add_output_scalar();
  return rule.take();
}

tensor::Cost cost(const Call& call) { return detail::row_cost(call, 1); }

const tensor::Operator kCountTargets = tensor::register_op({.name = "count_targets",
                                                            .inputs = "targets",
                                                            .infer = infer,
                                                            .host = kernel,
                                                            .rule = rule,
                                                            .cost = cost,
                                                            .cooperation = &detail::kCountTargetsTogether});

}  // namespace

Tensor count_targets(const Tensor& targets, std::int64_t ignore_index, DType dtype) {
  return tensor::call(kCountTargets, {targets}, CountTargetsAttributes{ignore_index, dtype});
}

}  // namespace tessera::ops
