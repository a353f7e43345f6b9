// Derives the layouts of the outputs of an operator from those of its inputs, by the factor rule. No data moves: if the
// inputs are incompatible, the result lists the cheapest redistributions that fix this, with their costs. The caller
// decides whether to apply one.
//
// The search goes axis by axis (sub-axis by sub-axis if inputs use sub-axes). Each axis shards one factor or none, or
// carries partial values of a reduction that some input has along it. Axes that shard one factor may do so in any
// order; lists with blocks or explicit sizes are used only as an input has them. With up to four used axes, the search
// is exact. Beyond that, the search may overestimate a few candidates whose best plan communicates more than once. Ties
// are broken by fewer redistributed inputs, then by the text of the layouts, so all ranks find the same result.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/base/shape.h"
#include "tessera/layout/factor_rule.h"
#include "tessera/layout/layout.h"
#include "tessera/layout/planner.h"

namespace tessera::layout {

/// An input of a call.
struct Operand {
  Shape shape;                ///< Global shape.
  Layout layout;              ///< All inputs must have the same mesh.
  std::int64_t itemsize = 4;  ///< Bytes per element.
};

/// Compatible layouts of the inputs, and the redistributions to reach them.
struct TESSERA_API Fix {
  std::vector<Layout> inputs;                      ///< Layout of each input.
  std::vector<Layout> outputs;                     ///< Resulting layout of each output.
  std::vector<std::shared_ptr<const Plan>> moves;  ///< Plan for each input. Null: no redistribution.
  std::int64_t nbytes = 0;                         ///< Bytes that the busiest rank receives in all plans.
  double us = 0;                                   ///< Total cost by the cost model of the planner.

  /// Returns the fix as text: "redistribute input 1 to {Replicate()}: all-gather over tp, 4 MiB, 21 us".
  [[nodiscard]] std::string text() const;
};

/// Result of a propagation.
struct TESSERA_API Propagation {
  std::vector<Layout> outputs;  ///< Layout of each output. Empty if the inputs are incompatible.
  std::string conflict;         ///< Reason for incompatibility: the axis, the factor, the inputs.
  std::vector<Fix> fixes;       ///< Cheapest first. Empty if the inputs are compatible or no fixes were requested.

  /// Returns true if the inputs are compatible.
  [[nodiscard]] bool is_match() const { return conflict.empty(); }
};

/// Returns the layouts of the outputs if the inputs are compatible, otherwise the conflict as text and no fixes.
/// `outputs` are the shapes of the results.
TESSERA_API Propagation propagate(const FactorRule& rule, std::span<const Operand> inputs,
                                  std::span<const Shape> outputs);
/// Same as propagate(), but if the inputs are incompatible, it also returns up to `most` of the cheapest fixes. The
/// fixes differ in the layouts of the inputs.
TESSERA_API Propagation propagate_or_fix(const FactorRule& rule, std::span<const Operand> inputs,
                                         std::span<const Shape> outputs, Planner& planner, int most = 3);

/// One way to run a call, and the reason why it was not chosen.
struct Candidate {
  std::vector<Layout> inputs;   ///< Layout of each input.
  std::vector<Layout> outputs;  ///< Layout of each output. Empty if the rule does not allow the inputs.
  double us = 0;                ///< Cost of redistributing the inputs.
  std::int64_t nbytes = 0;      ///< Bytes that the busiest rank receives for that.
  std::string dropped;          ///< Reason for the rejection. Empty if it was chosen.
};
/// Returns at most `most` candidates, the cheapest first: each way in which the axes may take part, its cost, and the
/// human-readable reason for its rejection.
TESSERA_API std::vector<Candidate> explain(const FactorRule& rule, std::span<const Operand> inputs,
                                           std::span<const Shape> outputs, Planner& planner, std::size_t most = 100);

}  // namespace tessera::layout
