// Compares the planner with an exhaustive search on the published pairs. A run is one pair; a campaign covers all.
//
//   planner_published_fuzz [--runs N] [--seed FIRST] [--seconds LIMIT]
#include <fmt/format.h>

#include <cmath>

#include "tessera/base/testing/fuzz.h"
#include "tessera/layout/planner.h"
#include "tessera/layout/testing/exhaustive_planner.h"
#include "tessera/layout/testing/random_requests.h"

namespace tessera::layout::testing {
namespace {

std::string check_one(std::uint64_t seed) {
  static const auto pairs = load_published_pairs();
  const PlanRequest& request = pairs[seed * 769 % pairs.size()];  // a stride that visits each pair once
  const CostModel model;
  Planner planner(model);
  const auto plan = planner.plan(request);
  const auto optimum = exhaustive_cost(request, model);
  if (optimum && std::abs(plan->us - *optimum) <= 1e-5 + 1e-9 * *optimum) return {};
  return fmt::format("{}\n{} us, the optimum is {}\n{}", pair_text(request), plan->us, optimum.value_or(-1),
                     plan->text());
}

}  // namespace
}  // namespace tessera::layout::testing

int main(int argc, char** argv) {
  return tessera::fuzz::run(argc, argv, "published pairs against an exhaustive search",
                            [](std::uint64_t seed) { return tessera::layout::testing::check_one(seed); });
}
