// The rule, checks and costs of row-wise operators. Rows may be sharded. The dimension of the rows must be replicated,
// or the ranks cooperate along it.
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
  /// `own` is the kind of the dimension of a row, `rows` that of the other dimensions.
  RowRule(const tensor::Call& call, int ndim, int dim, layout::FactorKind own = layout::FactorKind::kReplicate,
          layout::FactorKind rows = layout::FactorKind::kPass);
  /// Adds an operand with all dimensions.
  void add_input_whole(layout::Linearity linearity = layout::Linearity::kNone);
  /// Adds an operand with one value per row.
  void add_input_rows(layout::Linearity linearity = layout::Linearity::kNone);
  /// Adds an operand with one value per element of a row.
  void add_input_row(layout::Linearity linearity = layout::Linearity::kNone);
  /// Adds a scalar.
  void add_input_scalar(layout::Linearity linearity = layout::Linearity::kNone);
  /// Adds an omitted optional operand.
  void add_input_absent();
  /// Adds a result with all dimensions.
  void add_output_whole() { rule_.outputs.push_back(whole()); }
  /// Adds a result with one value per row.
  void add_output_rows() { rule_.outputs.push_back(rows()); }
  /// Adds a result with one value per element of a row.
  void add_output_row() { rule_.outputs.push_back(row()); }
  /// Adds a scalar result.
  void add_output_scalar() { rule_.outputs.emplace_back(); }
  /// Returns the rule.
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

/// Throws InvalidArgument if two inputs differ in shape or dtype.
void check_same(const tensor::Call& call, std::size_t a, std::size_t b);
/// Returns the cost: `flops` per element of the first input, and one access to each tensor.
tensor::Cost row_cost(const tensor::Call& call, double flops);

}  // namespace tessera::ops::detail
