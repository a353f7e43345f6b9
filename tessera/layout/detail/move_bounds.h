// What it costs at least to bring one tensor from the layout it has to another: thousands of targets are looked at, and
// few of them are worth a plan. The planner's own space of states is built once for the source (once for every way in
// which targets are partial) and asked, in two stages:
//
// - least(): the price of the best single step, which is exact, and a bound on everything that takes two or more. Where
//   the first is not above the second, it is the price of the plan. The planner's bound on bytes is sharpened by hops:
//   a rank whose new part meets m old pieces hears of them over hops h_1, h_2, ... of its steps with (1 + h_1)(1 +
//   h_2)... >= m, and every further step is a launch more.
// - sharpen(): the price of the best plan with at most one step that communicates, with slices before and behind it, by
//   trying all of them; and a bound on plans with two or more such steps.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "tessera/layout/detail/plan_bounds.h"
#include "tessera/layout/detail/plan_space.h"

namespace tessera::layout::detail {

/// Microseconds of a move.
struct MoveCost {
  double us = 0;
  bool is_exact = true;  ///< else: at least this many
  double known_us = 0;   ///< of the best plan that was seen, where it is not exact; 0: none
};

/// See the head of this file.
class MoveBounds {
 public:
  /// From this layout of a tensor of this shape. `atoms` and `model` outlive it. No layout: nothing is known of it.
  MoveBounds(const Atoms& atoms, std::optional<AtomLayout> from, const Shape& shape, std::int64_t itemsize,
             const CostModel& model);

  /// To a layout that is not the same.
  [[nodiscard]] MoveCost least(const AtomLayout& to);
  /// Likewise, for more work.
  [[nodiscard]] MoveCost sharpen(const AtomLayout& to);

 private:
  // A state that slices lead to from the source.
  struct Sliced {
    std::vector<std::uint16_t> lists;
    double numel = 0;
    double us = 0;
  };
  struct Ground {
    std::vector<std::optional<Reduction>> partials;  // of the targets
    PlanSpace space;
    PlanBounds bounds;
    std::vector<int> dims;             // of the tensor, by dimension of the space
    std::vector<std::int32_t> bit_of;  // by atom; -1: not in play
    std::unordered_map<std::uint64_t, std::uint16_t> by_word;
    double least_latency_us = 0;
    bool is_usable = false;
    std::vector<Sliced> sliced;  // the cheapest first; made when they are needed
  };

  Ground& ground_for(const std::vector<std::optional<Reduction>>& partials);
  [[nodiscard]] bool state_of(const Ground& ground, const AtomLayout& to, Mask& listed);
  [[nodiscard]] double pieces_met(const PlanSpace& space) const;
  [[nodiscard]] double hops_beyond(const Ground& ground, double least_step_us) const;
  [[nodiscard]] double several_us(const Ground& ground, const LeastCost& least) const;
  void find_sliced(Ground& ground) const;
  [[nodiscard]] double once_us(Ground& ground, const PlanState& to, double enough) const;

  const Atoms& atoms_;
  std::optional<AtomLayout> from_;
  Shape shape_;
  std::int64_t itemsize_;
  const CostModel& model_;
  std::vector<std::unique_ptr<Ground>> grounds_;
  std::vector<std::uint16_t> lists_;  // of the state at hand
};

}  // namespace tessera::layout::detail
