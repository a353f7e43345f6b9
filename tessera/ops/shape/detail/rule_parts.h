// Helpers that build factor rules dimension by dimension.
#pragma once

#include <string>

#include "tessera/layout/factor_rule.h"

namespace tessera::ops::detail {

/// Copies values without reading them: all partial values pass.
inline constexpr layout::Algebra kMoves = {layout::Linearity::kJoint, layout::Monotony::kUp};

/// Adds a factor and returns its index.
inline std::int32_t add_factor(layout::FactorRule& rule, layout::FactorKind kind, std::int64_t size = 0,
                               Reduction reduction = Reduction::kSum) {
  layout::Factor factor;
  factor.name = "d" + std::to_string(rule.factors.size());
  factor.kind = kind;
  factor.reduction = reduction;
  factor.size = size;
  rule.factors.push_back(factor);
  return static_cast<std::int32_t>(rule.factors.size() - 1);
}

/// Returns a rule without factors.
inline layout::FactorRule empty_rule(std::string name, std::size_t inputs, std::size_t outputs,
                                     layout::Algebra algebra = {}) {
  layout::FactorRule rule;
  rule.name = std::move(name);
  rule.inputs.resize(inputs);
  rule.outputs.resize(outputs);
  rule.algebra.assign(inputs, algebra);
  return rule;
}

/// Adds a dimension of `size` that cannot be sharded, as one factor of the operand.
inline void keep_whole(layout::FactorRule& rule, layout::OperandFactors& operand, std::int64_t size) {
  operand.push_back({add_factor(rule, layout::FactorKind::kReplicate, size)});
}

/// Adds a dimension that an input and an output share.
inline void pass_dim(layout::FactorRule& rule, std::size_t input = 0, std::size_t output = 0) {
  const std::int32_t factor = add_factor(rule, layout::FactorKind::kPass);
  rule.inputs[input].push_back({factor});
  rule.outputs[output].push_back({factor});
}

}  // namespace tessera::ops::detail
