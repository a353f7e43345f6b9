// Plans: how long they take to find, and how good they are. The pairs are those of testdata/redistribution_pairs.txt.
#include <algorithm>
#include <chrono>
#include <memory>
#include <vector>

#include "tessera/base/testing/bench.h"
#include "tessera/layout/detail/make_plan.h"
#include "tessera/layout/planner.h"
#include "tessera/layout/testing/random_requests.h"

namespace tessera::layout {
namespace {

using testing::load_published_pairs;

std::vector<PlanRequest> pairs_of(int axes) {
  std::vector<PlanRequest> chosen;
  for (const PlanRequest& request : load_published_pairs()) {
    if (request.from.mesh().ndim() == axes && request.from != request.to) chosen.push_back(request);
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

// A sample is one pair, planned from nothing; samples go round all pairs.
TESSERA_BENCH(plan_cold) {
  const double musts[] = {20, 60, 500};
  for (int axes = 2; axes <= 4; ++axes) {
    const std::string name = "plan_cold_" + std::to_string(axes);
    if (!context.wants(name)) continue;
    const auto pairs = pairs_of(axes);
    const CostModel model;
    for (const PlanRequest& request : pairs) us_of(request, model);  // storage of this thread, layouts interned
    std::vector<double> times;
    for (const PlanRequest& request : pairs) times.push_back(us_of(request, model));
    std::size_t next = 0;
    // The median over all pairs, not over the first 200: each sample is the median of a fresh round.
    context.measure({.name = name,
                     .unit = "us",
                     .ours =
                         [&] {
                           std::vector<double> round;
                           for (std::size_t i = 0; i < 25; ++i)
                             round.push_back(us_of(pairs[(next += 7) % pairs.size()], model));
                           std::nth_element(round.begin(), round.begin() + 12, round.end());
                           return round[12];
                         },
                     .must = musts[axes - 2]});
  }
}

TESSERA_BENCH(plan_warm) {
  Planner planner;
  const auto pairs = pairs_of(3);
  std::vector<PlanRequest> some(pairs.begin(), pairs.begin() + 64);
  for (const PlanRequest& request : some) planner.plan(request);
  std::size_t next = 0;
  context.measure({.name = "plan_warm",
                   .unit = "us",
                   .ours = [&] { bench::do_not_optimize(planner.plan(some[next++ % 64]).get()); },
                   .must = 0.1});
}

}  // namespace
}  // namespace tessera::layout
