// What row-wise operators share: their rule (rows pass, the row's own dimension may not be cut, or only together),
// checks and costs.
#pragma once

#include <cstdint>
#include <string>

#include "tessera/layout/factor_rule.h"
#include "tessera/tensor/call.h"

namespace tessera::ops::detail {

/// Builds the rule of an operator on rows along `dim` of tensors of `ndim` dimensions: factors r0, r1, ... of the other
/// dimensions and c of the row.
class RowRule {
 public:
  /// `own`: what cutting a row's own dimension means; `rows`: what cutting the rows does.
  RowRule(const tensor::Call& call, int ndim, int dim, layout::FactorKind own = layout::FactorKind::kReplicate,
          layout::FactorKind rows = layout::FactorKind::kPass);
  /// An operand of all dimensions.
  void add_input_whole(layout::Linearity linearity = layout::Linearity::kNone);
  /// One value a row.
  void add_input_rows(layout::Linearity linearity = layout::Linearity::kNone);
  /// One value for each element of a row.
  void add_input_row(layout::Linearity linearity = layout::Linearity::kNone);
  /// A scalar.
  void add_input_scalar(layout::Linearity linearity = layout::Linearity::kNone);
  /// An optional operand that is not there.
  void add_input_absent();
  /// See the inputs.
  void add_output_whole() { rule_.outputs.push_back(whole()); }
  /// See the inputs.
  void add_output_rows() { rule_.outputs.push_back(rows()); }
  /// See the inputs.
  void add_output_row() { rule_.outputs.push_back(row()); }
  /// See the inputs.
  void add_output_scalar() { rule_.outputs.emplace_back(); }
  /// The rule.
  layout::FactorRule take() { return std::move(rule_); }

 private:
  [[nodiscard]] layout::OperandFactors whole() const;
  [[nodiscard]] layout::OperandFactors rows() const;
  [[nodiscard]] layout::OperandFactors row() const;
  void add_input(layout::OperandFactors factors, layout::Linearity linearity);

  layout::FactorRule rule_;
  int ndim_;
  int dim_;
};

/// Refuses inputs of different shapes or dtypes.
void check_same(const tensor::Call& call, std::size_t a, std::size_t b);
/// `flops` for each element of the first input; every tensor is read or written once.
tensor::Cost row_cost(const tensor::Call& call, double flops);

}  // namespace tessera::ops::detail
