#include <gtest/gtest.h>

#include "tessera/layout/planner.h"
#include "tessera/layout/testing/exhaustive_planner.h"
#include "tessera/layout/testing/random_requests.h"

namespace tessera::layout::testing {
namespace {

TEST(PlannerOracle, RandomSmall) {
  for (std::uint64_t seed = 0; seed < 1500; ++seed) {
    PlanRequest request = random_request(seed, {.most_axes = 3, .most_dims = 3, .is_small = seed % 2 == 0, .uneven_percent = 30, .special_percent = 30, .partial_percent = 40});
    if (seed % 3 == 0) request.itemsize = 1 << 20;
    if (seed % 3 == 1) request.itemsize = 1 << 10;
    CostModel model;
    Planner planner(model);
    const auto plan = planner.plan(request);
    const auto cost = exhaustive_cost(request, model);
    ASSERT_TRUE(cost.has_value());
    ASSERT_NEAR(plan->us, *cost, 1e-5 + 1e-9 * *cost) << seed << " " << pair_text(request) << " itemsize " << request.itemsize << "\n" << plan->text();
  }
}

}  // namespace
}  // namespace tessera::layout::testing
