#include "tessera/ops/nn/detail/row_rule.h"

namespace tessera::ops::detail {
namespace {

layout::DimFactors one(int factor) {
  layout::DimFactors factors;
  factors.push_back(factor);
  return factors;
}

}  // namespace

RowRule::RowRule(const tensor::Call& call, int ndim, int dim, layout::FactorKind own, layout::FactorKind rows)
    : ndim_(ndim), dim_(dim) {
  rule_.name = call.op.name();
  for (int i = 0; i < ndim; ++i) {
    layout::Factor factor;
    factor.name = i == dim ? "c" : "r" + std::to_string(i);
    factor.kind = i == dim ? own : rows;
    rule_.factors.push_back(std::move(factor));
  }
}

layout::OperandFactors RowRule::whole() const {
  layout::OperandFactors factors;
  for (int i = 0; i < ndim_; ++i) factors.push_back(one(i));
  return factors;
}
layout::OperandFactors RowRule::rows() const {
  layout::OperandFactors factors;
  for (int i = 0; i < ndim_; ++i) {
    if (i != dim_) factors.push_back(one(i));
  }
  return factors;
}
layout::OperandFactors RowRule::row() const { return {one(dim_)}; }

void RowRule::add_input(layout::OperandFactors factors, layout::Linearity linearity) {
  rule_.inputs.push_back(std::move(factors));
  rule_.algebra.push_back({linearity});
}
void RowRule::add_input_whole(layout::Linearity linearity) { add_input(whole(), linearity); }
void RowRule::add_input_rows(layout::Linearity linearity) { add_input(rows(), linearity); }
void RowRule::add_input_row(layout::Linearity linearity) { add_input(row(), linearity); }
void RowRule::add_input_scalar(layout::Linearity linearity) { add_input({}, linearity); }
void RowRule::add_input_absent() { add_input({}, layout::Linearity::kNone); }

void check_same(const tensor::Call& call, std::size_t a, std::size_t b) {
  const Tensor& x = call.inputs[a];
  const Tensor& y = call.inputs[b];
  TESSERA_CHECK_CALL(call, x.shape() == y.shape() && x.dtype() == y.dtype(), call.op->inputs[b].name,
                     " must have the dtype and shape of ", call.op->inputs[a].name, ", ", x.dtype(), x.shape(),
                     ", got ", y.dtype(), y.shape());
}

tensor::Cost row_cost(const tensor::Call& call, double flops) {
  double nbytes = 0;
  for (const Tensor& input : call.inputs) {
    if (input) nbytes += static_cast<double>(input.numel()) * static_cast<double>(itemsize(input.dtype()));
  }
  for (const tensor::OutputInfo& output : tensor::infer(call)) {
    nbytes += static_cast<double>(output.shape.numel()) * static_cast<double>(itemsize(output.dtype));
  }
  return {flops * static_cast<double>(call.inputs[0].numel()), nbytes};
}

}  // namespace tessera::ops::detail
