// Lower bounds of the cost of the rest of a plan, which keep the search small. Two arguments hold for all steps:
//
// - Union of a node. Call the atoms up to some bandwidth "slow"; a node is a set of ranks that differ only along the
//   other atoms. Steps over fast atoms only do not add to the elements that a node holds in total; the others run at
//   the slow speed. So the slow steps transfer at least (elements that the node needs - elements of these that it
//   holds) / (ranks of a node) to some rank. This holds for each bandwidth, and the bounds add up (slowest first, each
//   by the difference of its cost to the next).
// - Reduction. Reduced elements are received once: (n - 1) / n of the shard at that time, which is not smaller than
//   with every other atom splitting it. The elements of the target beyond 1/n of that must be received as well.
//
// If all chunks are even, the overlap of two lists is computed digit by digit; otherwise by volumes, which gives a
// lower value. Atoms that may become partial by zero-fill always count as fast: a zero-fill transfers nothing.
#pragma once

#include <vector>

#include "tessera/layout/detail/plan_space.h"

namespace tessera::layout::detail {

/// Minimum microseconds, and the number of steps whose launch it includes.
struct LeastCost {
  double us = 0;
  int steps = 0;
};

/// Lower bounds for one space.
class PlanBounds {
 public:
  void build(const PlanSpace& space);

  /// Returns the minimum cost from a state to the target.
  [[nodiscard]] LeastCost to_target(const PlanState& state) const;
  /// Returns the minimum cost from the source to a state. `listed` has all atoms in the lists of the state.
  [[nodiscard]] LeastCost from_source(const PlanState& state, Mask listed) const;
  /// Returns the cost of the cheapest possible step.
  [[nodiscard]] double min_step_us() const { return min_step_us_; }

 private:
  struct BoundLevel {
    Mask slow = 0;
    double us_per_byte = 0;  // in excess of the next faster level
    double min_latency_us = 0;
    double to_volume = 0;           // elements of the target that a node holds
    double node_ranks[2] = {1, 1};  // at the end; at the end if that is before the reduction
    bool has_fold = false;          // reduced atoms are among the slow ones
  };

  void build_overlaps(const PlanSpace& space, const PlanState& end, std::vector<double>& overlaps) const;
  [[nodiscard]] double overlap(const std::vector<double>& overlaps, std::size_t level, const PlanState& state) const;
  [[nodiscard]] double received(const BoundLevel& level, double volume, double overlap, bool folds,
                                bool is_pending) const;
  [[nodiscard]] LeastCost cost(const double* bytes_of_level, bool folds, bool has_same_finals, bool is_same) const;

  const PlanSpace* space_ = nullptr;
  double numel_ = 1;  // of the global tensor, after the splits that stay
  std::vector<BoundLevel> levels_;
  std::vector<double> to_overlaps_;  // [(level * dims + dim) * lists + list]
  std::vector<double> from_overlaps_;
  double fold_volume_ = 0;    // received in the smallest possible reduction
  double folded_volume_ = 0;  // size of its result
  double fold_latency_us_ = 0;
  double min_step_us_ = 0;
};

}  // namespace tessera::layout::detail
