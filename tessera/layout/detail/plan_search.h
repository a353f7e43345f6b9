// Shortest path over the states of a PlanSpace. Every state within the budget is examined once and kept only if bounds
// on both sides allow a path through it that costs no more than the best known path. Then A* runs over the kept states,
// where a step may join any two. The bounds are admissible but not consistent, so a state is expanded again if a better
// path to it is found. The search ends when no open state can lead to a better path.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tessera/layout/detail/plan_bounds.h"
#include "tessera/layout/detail/plan_space.h"
#include "tessera/layout/detail/step_cost.h"

namespace tessera::layout::detail {

/// A step of the path and the state after it. Valid until the next run.
struct PathStep {
  StepCost cost;
  PlanState after;
};

/// Search that reuses its storage between runs.
class PlanSearch {
 public:
  /// Returns the cheapest path from the source to the target of the space. Ties are broken by fewer steps, then by the
  /// order of kinds and axes. Empty if source and target are the same state.
  const std::vector<PathStep>& run(const PlanSpace& space);
  /// Returns true if the last run was exhaustive. A run ends early after kMaxCosted steps, which more than five atoms
  /// in play may need. The limit is a count, not a time, so that all ranks end at the same point.
  [[nodiscard]] bool is_exact() const { return is_exact_; }
  static constexpr std::size_t kMaxCosted = 8'000'000;

 private:
  struct PlanNode {
    PlanState state;
    double min_to = 0;    // minimum microseconds to the target
    double min_from = 0;  // minimum microseconds from the source
    double us = 0;        // of the best path so far
    std::int32_t steps = 0;
    std::int32_t before = -1;
    StepKind kind = StepKind::kAllGather;  // of its last step
    Mask axes = 0;
    bool is_reached = false;
  };
  // A state to expand, as it was when queued; stale once a better path to it is known.
  struct OpenState {
    double min_us = 0;  // of a complete path through it
    double us = 0;
    std::int32_t steps = 0;
    std::uint32_t node = 0;
  };

  double direct_us();
  void enumerate(Status status, Mask free);
  void place_dim(int dim, Status status, Mask free, Mask listed, double numel);
  void keep(Status status, Mask listed, double numel);
  void sharpen();
  void open(std::size_t index);
  bool pop_next(std::size_t& index);
  void relax_from(std::size_t index);
  [[nodiscard]] double ceiling() const { return best_us_ * (1 + 1e-12) + 16 * kCostGrain; }

  const PlanSpace* space_ = nullptr;
  PlanBounds bounds_;
  double best_us_ = 0;
  std::vector<std::uint16_t> current_;     // lists of the current state
  std::vector<std::uint16_t> list_store_;  // lists of all nodes
  std::vector<PlanNode> nodes_;
  std::vector<OpenState> open_;  // a heap, the cheapest first
  std::size_t target_ = 0;
  std::size_t costed_ = 0;
  bool is_exact_ = true;
  std::vector<PathStep> path_;
};

}  // namespace tessera::layout::detail
