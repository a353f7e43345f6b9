// Finds the cheapest plan in a space of plans, exactly: a shortest path over the layouts that the steps of plan.h reach
// under these rules, at the cost model's prices. Prices decide how long a plan takes, never the values that it gives.
// - One fold: all partial axes of the source that the target has not are reduced in one step (sum and avg mix). If
// there
//   are none, no step reduces. Axes that are partial in the same way at both ends stay so throughout. The rule also
//   holds for max, min and integers, whose values do not depend on the steps: a layout has no dtype, and the bounds of
//   the search count on one fold.
// - An axis becomes partial only as the target has it, and is not reduced again: no detour through other partial axes.
// - No part in between is larger than the larger of the parts at the ends, or than the budget of the request.
// - Equal prices: fewer steps, then the order of kinds and of axes, so that every rank picks the same plan.
// So cost(a, c) <= cost(a, b) + cost(b, c) if b keeps the budget, has no cut with blocks or given sizes that a and c
// lack, and is wholly before or wholly after the fold.
//
// Plan::is_exact is true if no plan of this space is cheaper: up to five axes (or sub-axes) that differ. Six are
// searched up to a count of steps; of more, those that both layouts use in the same way stay, and more than six that
// differ throw. docs/layout.md gives the reasons for the rules, and the way to plans outside of this space.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "tessera/base/export.h"
#include "tessera/layout/cost_model.h"
#include "tessera/layout/plan.h"

namespace tessera::layout {

/// How often plans were found in the cache.
struct PlannerCounts {
  std::uint64_t hits = 0;       ///< found
  std::uint64_t misses = 0;     ///< made
  std::uint64_t evictions = 0;  ///< dropped for others
  std::size_t entries = 0;      ///< kept now
};

/// See the head of this file. Thread-safe. Keeps the plans it made, the least recently used go first.
class TESSERA_API Planner {
 public:
  /// With these prices; keeps at most `capacity` plans.
  explicit Planner(CostModel model = {}, std::size_t capacity = 4096);
  ~Planner();
  Planner(const Planner&) = delete;
  Planner& operator=(const Planner&) = delete;

  /// The cheapest plan. Layouts of different meshes, a shape that one of them does not fit, a budget that no plan keeps
  /// to are errors that say so.
  std::shared_ptr<const Plan> plan(const PlanRequest& request);
  /// The plan for the gradient: from the target's gradient layout to the source's. Cut stays cut; partial becomes
  /// replicated; what the plan gathered comes back as a partial sum, which is then scattered.
  std::shared_ptr<const Plan> dual(const Plan& plan);

  /// The cheapest single step from one layout to the other, priced, whether or not a plan would take it; none: no
  /// single step leads there. Not cached.
  [[nodiscard]] std::optional<Step> step(const PlanRequest& request) const;

  /// The prices.
  [[nodiscard]] const CostModel& model() const;
  /// Of the cache, so far.
  [[nodiscard]] PlannerCounts counts() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The layout of a gradient that needs no more reduction: partial axes are replicated.
TESSERA_API Layout gradient_layout(const Layout& layout);

/// Bytes that the busiest rank must receive at least; a plan's bytes are held against it. Without a fold: its new part
/// less what it has of it, by intersecting the two (where one list of cuts begins with the other; else some rank has
/// nothing of it). With a fold over n ranks, the least of
///   (n - 1) * |y| + |new part - y|     over all y that cut the source's part further by free axes and those settled,
///   2 (n - 1) / n * |x| + |new part - x|     over all x that cut it further by free axes (nothing is scattered).
/// A target that is a partial sum of what the source has not partial may be reached with those axes cutting: zero-fill
/// costs no bytes. Exact where every cut divides; elsewhere an estimate, since pieces differ.
TESSERA_API std::int64_t least_nbytes(const PlanRequest& request);

}  // namespace tessera::layout
