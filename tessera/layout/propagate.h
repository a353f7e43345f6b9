// From the layouts of an operator's inputs to those of its outputs, by its factor rule. Nothing moves: when the inputs
// do not fit together as they are, the answer is the cheapest ways to make them fit, priced; taking one is the caller's
// decision.
//
// The search goes axis by axis (sub-axis by sub-axis, where inputs use parts of axes): each cuts one factor, or none,
// or carries partial values of a kind that some input has along it. Axes that cut one factor do so in any order; a list
// with blocks or given sizes is taken as some input has it. Up to four axes in use it is exact, equal to trying all of
// that, without doing so; beyond, a few candidates whose best plan communicates more than once may be priced too high
// to be chosen. Equal prices: fewer inputs moved, then the text of the layouts, so that every rank finds the same.
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
  Shape shape;                ///< global
  Layout layout;              ///< all of one mesh
  std::int64_t itemsize = 4;  ///< bytes of an element
};

/// Layouts of inputs that fit together, and what it takes to get there.
struct TESSERA_API Fix {
  std::vector<Layout> inputs;                      ///< of each input
  std::vector<Layout> outputs;                     ///< of each output then
  std::vector<std::shared_ptr<const Plan>> moves;  ///< of each input; null: it stays
  std::int64_t nbytes = 0;                         ///< received by the busiest rank, all moves
  double us = 0;                                   ///< by the planner's cost model

  /// "move input 1 to {Replicate()}: all-gather over tp, 4 MiB, 21 us".
  [[nodiscard]] std::string text() const;
};

/// What became of a call's layouts.
struct TESSERA_API Propagation {
  std::vector<Layout> outputs;  ///< of each output; none: the inputs do not fit together
  std::string conflict;         ///< why not: the axis, the factor, the inputs
  std::vector<Fix> fixes;       ///< the cheapest first; empty when they fit, or when no fix was asked for

  /// Whether nothing has to move.
  [[nodiscard]] bool is_match() const { return conflict.empty(); }
};

/// The outputs' layouts where inputs fit together; a conflict in words where they do not, and no fixes. `outputs`: the
/// shapes of the results.
TESSERA_API Propagation propagate(const FactorRule& rule, std::span<const Operand> inputs,
                                  std::span<const Shape> outputs);
/// Likewise, with up to `most` of the cheapest fixes where they do not fit. Each fix gives other layouts for the
/// inputs.
TESSERA_API Propagation propagate_or_fix(const FactorRule& rule, std::span<const Operand> inputs,
                                         std::span<const Shape> outputs, Planner& planner, int most = 3);

/// One way to run a call, and what speaks against it.
struct Candidate {
  std::vector<Layout> inputs;   ///< of each input
  std::vector<Layout> outputs;  ///< of each output; none where the rule does not allow it
  double us = 0;                ///< to bring the inputs there
  std::int64_t nbytes = 0;      ///< received by the busiest rank for it
  std::string dropped;          ///< why it is not the answer; empty: it is
};
/// Every way for each axis to take part, priced, with the reason why each was dropped: for people. At most `most`, the
/// cheapest first.
TESSERA_API std::vector<Candidate> explain(const FactorRule& rule, std::span<const Operand> inputs,
                                           std::span<const Shape> outputs, Planner& planner, std::size_t most = 100);

}  // namespace tessera::layout
