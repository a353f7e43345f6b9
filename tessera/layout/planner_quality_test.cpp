// Properties of all plans, on random pairs and on those of testdata/redistribution_pairs.txt.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>

#include "tessera/layout/arithmetic.h"
#include "tessera/layout/planner.h"
#include "tessera/layout/testing/exhaustive_planner.h"
#include "tessera/layout/testing/greedy_planner.h"
#include "tessera/layout/testing/random_requests.h"

namespace tessera::layout::testing {
namespace {

constexpr double kNoise = 1e-5;

// Only bytes count, and all links are equal.
CostModel only_bytes() {
  CostModel model{.launch_us = 0, .copy_gigabytes_per_s = 1e9, .copy_launch_us = 0};
  for (LinkCost& link : model.links) link = {0, 1};
  return model;
}

// The inequality holds for plans with one reduction: the stop must keep axes that are partial at both ends, add no
// partial axis, and be completely before or completely after the reduction.
bool keeps_folds_whole(const Layout& from, const Layout& stop, const Layout& to) {
  const auto has = [](const Layout& layout, const PartialAxis& partial) {
    return std::ranges::count(layout.partials(), partial) > 0;
  };
  int settled = 0;
  int pending = 0;
  for (const PartialAxis& partial : from.partials()) {
    if (has(to, partial)) {
      if (!has(stop, partial)) return false;
    } else {
      ++(has(stop, partial) ? pending : settled);
    }
  }
  for (const PartialAxis& partial : stop.partials()) {
    if (!has(from, partial) && !has(to, partial)) return false;
  }
  return settled == 0 || pending == 0;
}

// Returns true if every possible split divides: the lower bound of bytes is then exact.
bool is_even(const PlanRequest& request) {
  for (const std::int64_t size : request.shape) {
    if (size % request.from.mesh().size() != 0) return false;
  }
  for (const Layout& layout : {request.from, request.to}) {
    if (layout.placements_text().find("blocks") != std::string::npos) return false;
    if (layout.placements_text().find("sizes") != std::string::npos) return false;
  }
  return true;
}

TEST(PlanQuality, IsOptimalOnRandomPairs) {
  for (std::uint64_t seed = 0; seed < 600; ++seed) {
    PlanRequest request = random_request(seed, {.max_axes = 3,
                                                .max_dims = 3,
                                                .is_small = seed % 2 == 0,
                                                .uneven_percent = 30,
                                                .special_percent = 30,
                                                .partial_percent = 40});
    request.itemsize = std::int64_t{1} << (seed % 3 * 10);
    const CostModel model = seed % 5 == 0 ? only_bytes() : CostModel();
    const auto plan = Planner(model).plan(request);
    const auto optimum = exhaustive_cost(request, model);
    ASSERT_TRUE(optimum.has_value());
    ASSERT_NEAR(plan->us, *optimum, kNoise + 1e-9 * *optimum) << "seed " << seed << ": " << pair_text(request) << "\n"
                                                              << plan->text();
  }
}

TEST(PlanQuality, IsNeverDearerThanAGreedyPlan) {
  const CostModel model;
  Planner planner(model);
  int better = 0;
  for (PlanRequest request : load_published_pairs()) {
    const GreedyPlan greedy = greedy_plan(request, model);
    request.budget_nbytes = greedy.largest_part_nbytes;  // the greedy planner keeps no budget
    const auto plan = planner.plan(request);
    ASSERT_LE(plan->us, greedy.us * (1 + 1e-9) + kNoise) << pair_text(request) << "\n" << plan->text();
    if (plan->us < greedy.us * 0.99) ++better;
  }
  EXPECT_GT(better, 500);
}

TEST(PlanQuality, MovesNoMoreBytesThanItMust) {
  Planner planner(only_bytes());
  for (const PlanRequest& request : load_published_pairs()) {
    const std::int64_t least = min_nbytes(request);
    const auto plan = planner.plan(request);
    ASSERT_LE(plan->nbytes, static_cast<double>(least) * 1.05 + 64) << pair_text(request) << "\n" << plan->text();
    if (is_even(request)) {
      ASSERT_GE(plan->nbytes, least) << pair_text(request) << "\n" << plan->text();
    }
  }
}

TEST(PlanQuality, StaysWithinTheBudget) {
  Planner planner;
  for (const PlanRequest& request : load_published_pairs()) {
    const std::int64_t ends =
        std::max(largest_local_numel(request.from, request.shape), largest_local_numel(request.to, request.shape)) *
        request.itemsize;
    const auto plan = planner.plan(request);
    for (const Step& step : plan->steps) {
      const std::int64_t before = largest_local_numel(step.before, request.shape) * request.itemsize;
      const std::int64_t after = largest_local_numel(step.after, request.shape) * request.itemsize;
      ASSERT_LE(after, ends) << plan->text();
      ASSERT_GE(step.peak_nbytes, std::max(before, after)) << plan->text();
      ASSERT_LE(step.peak_nbytes, before + after + std::max(before, after)) << plan->text();
      ASSERT_GT(step.us, 0);
    }
  }
}

// A detour costs no less, if the stop needs no split that source and target lack and keeps the budget.
TEST(PlanQuality, KeepsTheTriangleInequality) {
  Planner planner;
  int checked = 0;
  for (std::uint64_t seed = 0; checked < 3000; ++seed) {
    const RequestKind kind{.max_axes = 3,
                           .max_dims = 3,
                           .is_small = seed % 2 == 0,
                           .uneven_percent = 20,
                           .special_percent = 0,
                           .partial_percent = 30};
    PlanRequest whole = random_request(seed, kind);
    std::mt19937_64 random(seed);
    const Layout stop = random_layout(random, whole.from.mesh(), whole.shape, kind);
    if (!keeps_folds_whole(whole.from, stop, whole.to)) continue;
    ++checked;
    whole.itemsize = std::int64_t{1} << (seed % 3 * 10);
    whole.budget_nbytes =
        std::max({largest_local_numel(whole.from, whole.shape), std::int64_t{1}, largest_local_numel(stop, whole.shape),
                  largest_local_numel(whole.to, whole.shape)}) *
        whole.itemsize;
    PlanRequest first = whole;
    first.to = stop;
    PlanRequest second = whole;
    second.from = stop;
    const double round = planner.plan(first)->us + planner.plan(second)->us;
    ASSERT_LE(planner.plan(whole)->us, round * (1 + 1e-9) + kNoise)
        << pair_text(whole) << " through " << stop.placements_text() << "\n"
        << planner.plan(whole)->text() << "or\n"
        << planner.plan(first)->text() << planner.plan(second)->text();
  }
}

bool reduces(const Step& step) { return step.kind == StepKind::kReduceScatter || step.kind == StepKind::kAllReduce; }

// Returns the violation of the rules of planner.h for partial axes; empty if none.
std::string wrong_with_partials(const Plan& plan) {
  const auto has = [](const Layout& layout, const PartialAxis& partial) {
    return std::ranges::count(layout.partials(), partial) > 0;
  };
  const Layout& from = plan.request.from;
  const Layout& to = plan.request.to;
  const bool folds =
      std::ranges::any_of(from.partials(), [&](const PartialAxis& partial) { return !has(to, partial); });
  if (std::ranges::count_if(plan.steps, reduces) != (folds ? 1 : 0)) return "another number of folds";
  for (const Step& step : plan.steps) {
    for (const PartialAxis& partial : step.after.partials()) {
      if (!has(from, partial) && !has(to, partial)) return "a detour through " + step.after.placements_text();
    }
  }
  return {};
}

// Costs that favor every excluded plan: links that differ by a factor of 1000, in
// either order, and only latency or only bandwidth.
std::vector<CostModel> extreme_models() {
  std::vector<CostModel> models = {CostModel(), only_bytes()};
  for (const double factor : {1e-3, 1e3}) {
    CostModel model;
    double scale = 1;
    for (LinkCost& link : model.links) {
      link = {10 * scale, 10 / scale};
      scale *= factor;
    }
    models.push_back(model);
  }
  CostModel latency;
  for (LinkCost& link : latency.links) link = {100, 1e6};
  models.push_back(latency);
  return models;
}

// Costs choose how data moves, never the order of additions.
TEST(PlanQuality, FoldsOnceAndTakesNoDetourWhateverThePrices) {
  for (const CostModel& model : extreme_models()) {
    Planner planner(model);
    for (std::uint64_t seed = 0; seed < 300; ++seed) {
      const PlanRequest request = random_request(
          seed, {.max_axes = 3, .max_dims = 3, .is_small = seed % 2 == 0, .uneven_percent = 30, .partial_percent = 60});
      bool is_plain = true;  // sums only, over full axes: the check compares axes one by one
      for (const Layout& end : {request.from, request.to}) {
        for (const PartialAxis& partial : end.partials()) {
          is_plain &= partial.reduction == Reduction::kSum && partial.by.size == end.mesh().axis(partial.by.axis).size;
        }
      }
      if (!is_plain) continue;
      const auto plan = planner.plan(request);
      ASSERT_EQ(wrong_with_partials(*plan), "") << pair_text(request) << "\n" << plan->text();
    }
  }
}

// The cost of the rule, and the alternative of docs/layout.md: two redistributions with one plan each.
TEST(PlanQuality, ReducesByLevelsOnlyIfAskedTo) {
  const Mesh mesh = Mesh::parse("node=8@network,gpu=8@nvlink");
  Planner planner;
  const auto us = [&](const char* from, const char* to) {
    const auto plan =
        planner.plan({.from = Layout::parse(mesh, from), .to = Layout::parse(mesh, to), .shape = {4096, 4096}});
    EXPECT_TRUE(plan->is_exact);
    EXPECT_EQ(wrong_with_partials(*plan), "") << plan->text();
    return plan->us;
  };
  const double once = us("P,P", "R,R");
  const double by_levels = us("P,P", "P,S0") + us("P,S0", "R,R");
  EXPECT_LT(by_levels, once);
}

TEST(PlanQuality, IsTheSameWhateverWasPlannedBefore) {
  const auto pairs = load_published_pairs();
  Planner forward;
  Planner backward;
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < 400; ++i) texts.push_back(forward.plan(pairs[i * 5])->text());
  for (std::size_t i = 400; i-- > 0;) EXPECT_EQ(backward.plan(pairs[i * 5])->text(), texts[i]);
}

}  // namespace
}  // namespace tessera::layout::testing
