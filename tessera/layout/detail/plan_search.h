// The shortest path over the states of a PlanSpace: every state within the budget is looked at once and kept only if
// bounds on both sides let it lie on a path that is no dearer than the best one known; then A* over those that are
// left, where every two states may be joined by a step. The bounds never say too much, but need not agree with each
// other from state to state, so a state may be looked at again when a better way to it turns up; the search ends when
// no open state can lead to anything better.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tessera/layout/detail/plan_bounds.h"
#include "tessera/layout/detail/plan_space.h"
#include "tessera/layout/detail/step_price.h"

namespace tessera::layout::detail {

/// A step of the path and the state it leads to, which lives as long as the search is not run again.
struct PathStep {
  StepPrice price;
  PlanState after;
};

/// See the head of this file. Its storage is kept from run to run.
class PlanSearch {
 public:
  /// The cheapest path from the space's source to its target; fewer steps, then the order of kinds and axes, decide
  /// between equals. Empty: they are the same state.
  const std::vector<PathStep>& run(const PlanSpace& space);
  /// Whether the last run looked at everything that could be cheaper. It ends early after kMostPriced steps, which more
  /// than five atoms in play may need: by a count and not by a clock, so that every rank ends alike.
  [[nodiscard]] bool is_exact() const { return is_exact_; }
  static constexpr std::size_t kMostPriced = 8'000'000;

 private:
  struct Node {
    PlanState state;
    double least_to = 0;    // microseconds to the target, at least
    double least_from = 0;  // from the source
    double us = 0;          // of the best path so far
    std::int32_t steps = 0;
    std::int32_t before = -1;
    StepKind kind = StepKind::kAllGather;  // of its last step
    Mask axes = 0;
    bool is_reached = false;
  };
  // A state to go on from, as it was when it was put here; stale once a better way to it is known.
  struct Open {
    double least_us = 0;  // of a whole path through it
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
  [[nodiscard]] double ceiling() const { return best_us_ * (1 + 1e-12) + 16 * kPriceGrain; }

  const PlanSpace* space_ = nullptr;
  PlanBounds bounds_;
  double best_us_ = 0;
  std::vector<std::uint16_t> current_;     // lists of the state being made
  std::vector<std::uint16_t> list_store_;  // lists of all nodes
  std::vector<Node> nodes_;
  std::vector<Open> open_;  // a heap, the least first
  std::size_t target_ = 0;
  std::size_t priced_ = 0;
  bool is_exact_ = true;
  std::vector<PathStep> path_;
};

}  // namespace tessera::layout::detail
