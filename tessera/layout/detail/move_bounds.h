// Lower bounds of the cost of redistributing one tensor to other layouts. A search examines thousands of targets, and
// few need a plan. The planner's space of states is built once for the source (once for each set of partial axes of the
// targets) and used in two stages:
//
// - least(): the cost of the best single step, which is exact, and a bound for all plans of two or more steps. If the
//   former is not above the latter, it is the cost of the plan. Hops sharpen the planner's bound on bytes: a rank whose
//   new shard intersects m old chunks receives them over hops h_1, h_2, ... of its steps with (1 + h_1)(1 + h_2)... >=
//   m, and each further step costs one more launch.
// - sharpen(): the cost of the best plan with at most one step that communicates, and slices before and after it, by
//   exhaustive search; and a bound for plans with two or more such steps.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "tessera/layout/detail/plan_bounds.h"
#include "tessera/layout/detail/plan_space.h"

namespace tessera::layout::detail {

/// Cost of a redistribution in microseconds.
struct MoveCost {
  double us = 0;
  bool is_exact = true;  ///< False: `us` is a lower bound.
  double known_us = 0;   ///< Cost of the best known plan if `us` is not exact. 0: none.
};

/// Bounds for redistributions from one layout.
class MoveBounds {
 public:
  /// Constructs bounds for a tensor of this shape with layout `from`. `atoms` and `model` must outlive this object.
  /// Without `from`, nothing is known.
  MoveBounds(const Atoms& atoms, std::optional<AtomLayout> from, const Shape& shape, std::int64_t itemsize,
             const CostModel& model);

  /// Returns a bound for a redistribution to `to`, which must differ from the source.
  [[nodiscard]] MoveCost least(const AtomLayout& to);
  /// Returns a better bound at a higher computation time.
  [[nodiscard]] MoveCost sharpen(const AtomLayout& to);

 private:
  // A state that slices reach from the source.
  struct Sliced {
    std::vector<std::uint16_t> lists;
    double numel = 0;
    double us = 0;
  };
  struct Ground {
    std::vector<std::optional<Reduction>> partials;  // of the targets
    PlanSpace space;
    PlanBounds bounds;
    std::vector<int> dims;             // dimensions of the tensor, by dimension of the space
    std::vector<std::int32_t> bit_of;  // by atom; -1: not in play
    std::unordered_map<std::uint64_t, std::uint16_t> by_word;
    double min_latency_us = 0;
    bool is_usable = false;
    std::vector<Sliced> sliced;  // cheapest first; computed on demand
  };

  Ground& ground_for(const std::vector<std::optional<Reduction>>& partials);
  [[nodiscard]] bool state_of(const Ground& ground, const AtomLayout& to, Mask& listed);
  [[nodiscard]] double pieces_met(const PlanSpace& space) const;
  [[nodiscard]] double hops_beyond(const Ground& ground, double min_step_us) const;
  [[nodiscard]] double several_us(const Ground& ground, const LeastCost& least) const;
  void find_sliced(Ground& ground) const;
  [[nodiscard]] double once_us(Ground& ground, const PlanState& to, double enough) const;

  const Atoms& atoms_;
  std::optional<AtomLayout> from_;
  Shape shape_;
  std::int64_t itemsize_;
  const CostModel& model_;
  std::vector<std::unique_ptr<Ground>> grounds_;
  std::vector<std::uint16_t> lists_;  // of the current state
};

}  // namespace tessera::layout::detail
