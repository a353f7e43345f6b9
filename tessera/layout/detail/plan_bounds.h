// What the rest of a plan costs at least: the bounds that keep the search small. Two arguments, both about what any
// steps can do and not about which ones are taken:
//
// - Union of a node. Call "slow" the atoms up to some bandwidth, and a node the ranks that differ along the others
//   alone. Steps over fast atoms only do not add to what a node holds together; the others run at the slow speed. So
//   the slow steps carry at least (what the node must hold - what of it it holds) / (ranks of a node) to some rank.
//   This holds for each bandwidth, and the bounds of all of them add up (slowest first, each by what its speed costs
//   more than the next).
// - Fold. What is settled is received once: (n - 1) / n of the part at that time, which is no smaller than with every
//   other atom cutting; and what the target has more than the n-th of that must be received as well.
//
// Where every piece is even the overlap of two lists is computed digit by digit; else by volumes, which errs on the low
// side. Atoms that may become partial by zero-fill count as fast throughout: a zero-fill moves nothing.
#pragma once

#include <vector>

#include "tessera/layout/detail/plan_space.h"

namespace tessera::layout::detail {

/// Least microseconds, and how many steps are paid for in it.
struct LeastCost {
  double us = 0;
  int steps = 0;
};

/// See the head of this file.
class PlanBounds {
 public:
  void build(const PlanSpace& space);

  /// To the target.
  [[nodiscard]] LeastCost to_target(const PlanState& state) const;
  /// From the source. `listed`: all atoms in the state's lists.
  [[nodiscard]] LeastCost from_source(const PlanState& state, Mask listed) const;
  /// The cheapest step there can be.
  [[nodiscard]] double least_step_us() const { return least_step_us_; }

 private:
  struct Level {
    Mask slow = 0;
    double us_per_byte = 0;  // more than the next faster level
    double least_latency_us = 0;
    double to_volume = 0;           // what a node holds of the target
    double node_ranks[2] = {1, 1};  // at the end; where that is before the fold
    bool has_fold = false;          // settled atoms are among the slow
  };

  void build_overlaps(const PlanSpace& space, const PlanState& end, std::vector<double>& overlaps) const;
  [[nodiscard]] double overlap(const std::vector<double>& overlaps, std::size_t level, const PlanState& state) const;
  [[nodiscard]] double received(const Level& level, double volume, double overlap, bool folds, bool is_pending) const;
  [[nodiscard]] LeastCost cost(const double* bytes_of_level, bool folds, bool has_same_finals, bool is_same) const;

  const PlanSpace* space_ = nullptr;
  double numel_ = 1;  // of the whole tensor, behind what stays
  std::vector<Level> levels_;
  std::vector<double> to_overlaps_;  // [(level * dims + dim) * lists + list]
  std::vector<double> from_overlaps_;
  double fold_volume_ = 0;    // received in the fold, by the least that can be folded
  double folded_volume_ = 0;  // what comes of it
  double fold_latency_us_ = 0;
  double least_step_us_ = 0;
};

}  // namespace tessera::layout::detail
