// Finds the cheapest plan in a space of plans: a shortest path over the layouts that the steps of plan.h reach under
// the rules below, by the cost model. Costs decide how long a plan takes, never the values that it produces.
// - One reduction: all partial axes of the source that the target lacks are reduced in one step (sum and avg mix). If
//   no such axis exists, no step reduces. Axes that are partial in the same way in source and target stay partial. The
//   rule also holds for max, min and integers, although their values do not depend on the steps: a layout has no dtype,
//   and the bounds of the search rely on one reduction.
// - An axis becomes partial only as in the target, and is not reduced again: no detour through other partial axes.
// - No intermediate shard is larger than the larger of the source and target shards, or than the budget of the request.
// - Ties are broken by fewer steps, then by the order of kinds and of axes, so all ranks pick the same plan.
// So cost(a, c) <= cost(a, b) + cost(b, c) if b keeps the budget, has no split with blocks or explicit sizes that a and
// c lack, and is completely before or completely after the reduction.
//
// Plan::is_exact is true if no plan of this space is cheaper: with up to five axes (or sub-axes)
// that differ. Six are searched up to a number of steps. With more axes, those that both layouts use
// in the same way stay unchanged, and more than six that differ throw. docs/layout.md gives the
// reasons for the rules and the way to plans outside this space.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "tessera/base/export.h"
#include "tessera/layout/cost_model.h"
#include "tessera/layout/plan.h"

namespace tessera::layout {

/// Cache statistics of a planner.
struct PlannerCounts {
  std::uint64_t hits = 0;       ///< Requests answered from the cache.
  std::uint64_t misses = 0;     ///< Requests that were not in the cache.
  std::uint64_t evictions = 0;  ///< Plans dropped to make room.
  std::size_t entries = 0;      ///< Plans in the cache now.
};

/// Computes and caches redistribution plans. Evicts the least recently used plan first. Thread-safe.
class TESSERA_API Planner {
 public:
  /// Constructs a planner with these costs and a cache of at most `capacity` plans.
  explicit Planner(CostModel model = {}, std::size_t capacity = 4096);
  ~Planner();
  Planner(const Planner&) = delete;
  Planner& operator=(const Planner&) = delete;

  /// Returns the cheapest plan. Throws InvalidArgument if a layout is empty, the meshes differ, a layout does not fit
  /// the shape, or no plan fits the budget.
  std::shared_ptr<const Plan> plan(const PlanRequest& request);
  /// Returns the plan for the gradient: from the gradient layout of the target to that of the source. Sharded
  /// dimensions stay sharded, and partial axes become replicated. An axis that the plan gathers starts as a partial
  /// sum, which is then scattered.
  std::shared_ptr<const Plan> dual(const Plan& plan);

  /// Returns the cheapest single step from one layout to the other, or nothing if no single step exists. A plan need
  /// not use this step. Not cached.
  [[nodiscard]] std::optional<Step> step(const PlanRequest& request) const;

  /// Returns the cost model.
  [[nodiscard]] const CostModel& model() const;
  /// Returns the cache statistics since construction.
  [[nodiscard]] PlannerCounts counts() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Returns the layout of a reduced gradient: partial axes become replicated.
TESSERA_API Layout gradient_layout(const Layout& layout);

/// Returns a lower bound of the bytes that the busiest rank receives, for comparison with a plan. Without a reduction:
/// the new shard minus the old one, by intersection (if one list of splits is a prefix of the other; otherwise some
/// rank holds nothing of its new shard). With a reduction over n ranks, the minimum of
///   (n - 1) * |y| + |new shard - y|     over all y that split the old shard further by free axes and reduced ones,
///   2 (n - 1) / n * |x| + |new shard - x|     over all x that split it further by free axes (nothing is scattered).
/// If the target is a partial sum along axes that are not partial in the source, those axes may stay split before a
/// zero-fill, which costs no bytes. Exact if every split divides; otherwise an estimate, since chunks differ.
TESSERA_API std::int64_t min_nbytes(const PlanRequest& request);

}  // namespace tessera::layout
