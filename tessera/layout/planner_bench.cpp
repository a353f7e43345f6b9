// Time to find plans, and their quality, on the pairs of testdata/redistribution_pairs.txt. planner_published_fuzz
// verifies that all 2,000 are optimal; this bench counts them up to 3 axes.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <string>
#include <vector>

#include "tessera/base/testing/bench.h"
#include "tessera/layout/detail/make_plan.h"
#include "tessera/layout/planner.h"
#include "tessera/layout/testing/exhaustive_planner.h"
#include "tessera/layout/testing/greedy_planner.h"
#include "tessera/layout/testing/random_requests.h"

namespace tessera::layout {
namespace {

using testing::load_published_pairs;

std::vector<PlanRequest> pairs_of(int axes) {
  std::vector<PlanRequest> chosen;
  for (const PlanRequest& request : load_published_pairs()) {
    if (request.from.mesh().ndim() == axes) chosen.push_back(request);
  }
  return chosen;
}

double us_of(const PlanRequest& request, const CostModel& model) {
  const auto start = std::chrono::steady_clock::now();
  const Plan plan = detail::make_plan(request, model);
  const auto end = std::chrono::steady_clock::now();
  bench::do_not_optimize(plan.us);
  return std::chrono::duration<double, std::micro>(end - start).count();
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

// A sample is the median over all pairs with this number of axes, each planned without a cache.
TESSERA_BENCH(plan_cold) {
  const double musts[] = {20, 60, 500};
  const CostModel model;
  for (int axes = 2; axes <= 4; ++axes) {
    const std::string name = "plan_cold_" + std::to_string(axes);
    if (!context.wants(name)) continue;
    const auto pairs = pairs_of(axes);
    context.measure({.name = name,
                     .unit = "us",
                     .ours =
                         [&] {
                           std::vector<double> times;
                           for (const PlanRequest& request : pairs) times.push_back(us_of(request, model));
                           return median(std::move(times));
                         },
                     .must = musts[axes - 2]});
  }
}

TESSERA_BENCH(plan_warm) {
  Planner planner;
  auto pairs = pairs_of(3);
  pairs.resize(64);
  for (const PlanRequest& request : pairs) planner.plan(request);
  std::size_t next = 0;
  context.measure({.name = "plan_warm",
                   .unit = "us",
                   .ours = [&] { bench::do_not_optimize(planner.plan(pairs[next++ % 64]).get()); },
                   .must = 0.1});
}

// Share of pairs that cost no more than an exhaustive search finds.
TESSERA_BENCH(plan_optimal) {
  if (!context.wants("plan_quality_optimal")) return;
  const CostModel model;
  double optimal = 0;
  double total = 0;
  for (const PlanRequest& request : load_published_pairs()) {
    if (request.from.mesh().ndim() > 3) continue;
    const auto least = testing::exhaustive_cost(request, model);
    const double us = detail::make_plan(request, model).us;
    ++total;
    if (least && std::abs(us - *least) <= 1e-5 + 1e-9 * *least) ++optimal;
  }
  context.measure({.name = "plan_quality_optimal",
                   .unit = "of " + std::to_string(static_cast<int>(total)),
                   .ours = [&] { return optimal; },
                   .must = total,
                   .better = bench::Better::kHigher});
}

// Only bytes count: the worst ratio to the lower bound.
TESSERA_BENCH(plan_bytes) {
  if (!context.wants("plan_quality_bytes")) return;
  CostModel model{.launch_us = 0, .copy_gigabytes_per_s = 1e9, .copy_launch_us = 0};
  for (LinkCost& link : model.links) link = {0, 1};
  double worst = 1;
  for (const PlanRequest& request : load_published_pairs()) {
    const auto least = static_cast<double>(min_nbytes(request));
    if (least > 0) worst = std::max(worst, static_cast<double>(detail::make_plan(request, model).nbytes) / least);
  }
  context.measure({.name = "plan_quality_bytes", .unit = "x", .ours = [&] { return worst; }, .must = 1.05});
}

// The worst ratio to a greedy planner with unlimited memory.
TESSERA_BENCH(plan_greedy) {
  if (!context.wants("plan_quality_greedy")) return;
  const CostModel model;
  double worst = 0;
  for (PlanRequest request : load_published_pairs()) {
    const testing::GreedyPlan greedy = testing::greedy_plan(request, model);
    request.budget_nbytes = greedy.largest_part_nbytes;
    worst = std::max(worst, detail::make_plan(request, model).us / greedy.us);
  }
  context.measure({.name = "plan_quality_greedy", .unit = "x", .ours = [&] { return worst; }, .must = 1 + 1e-6});
}

// The placements of the published pairs of 3 axes on 8 ranks and on 100,000. No computation is per rank, but a larger
// mesh has more candidates, depending on the tensor. A sample is the median over pairs.
TESSERA_BENCH(ranks_100k) {
  const auto requests_on = [](const char* mesh, int max_dims, std::int64_t size) {
    std::vector<PlanRequest> requests;
    const Mesh parsed = Mesh::parse(mesh);
    for (const PlanRequest& pair : pairs_of(3)) {
      const std::string from = pair.from.placements_text();
      const std::string to = pair.to.placements_text();
      if (pair.shape.ndim() > max_dims || (from + to).find_first_of("*=") != std::string::npos) continue;
      const std::vector<std::int64_t> dims(pair.shape.size(), size);
      requests.push_back({.from = Layout::parse(parsed, from),
                          .to = Layout::parse(parsed, to),
                          .shape = Shape(std::span<const std::int64_t>(dims))});
    }
    return requests;
  };
  const CostModel model;
  const auto round = [&](const std::vector<PlanRequest>& requests) {
    std::vector<double> times;
    for (const PlanRequest& request : requests) times.push_back(us_of(request, model));
    return median(std::move(times));
  };
  const auto measure = [&](const char* name, int max_dims, std::int64_t size) {
    const auto large = requests_on("x=20@network,y=50@network,z=100", max_dims, size);
    const auto small = requests_on("x=2@network,y=2@network,z=2", max_dims, size);
    context.measure({.name = name,
                     .unit = "us",
                     .ours = [&] { return round(large); },
                     .reference_name = "8 ranks",
                     .reference = [&] { return round(small); },
                     .must_ratio = 0.5});
  };
  measure("ranks_100k_plan", 2, 1000000);
  measure("ranks_100k_plan_200k", 2, 200000);
  measure("ranks_100k_plan_3d", 3, 4000);
}

}  // namespace
}  // namespace tessera::layout
