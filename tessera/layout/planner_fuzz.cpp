// Random plans, executed element by element by testing/plan_interpreter.h: each rank must end with the correct values.
// Covers even and uneven shapes, layouts with orders, blocks, explicit sizes and sub-axes, and all reductions.
//
//   planner_fuzz [--runs N] [--seed FIRST] [--seconds LIMIT]
#include "tessera/base/testing/fuzz.h"
#include "tessera/layout/planner.h"
#include "tessera/layout/testing/plan_interpreter.h"
#include "tessera/layout/testing/random_requests.h"

namespace tessera::layout::testing {
namespace {

std::string check_one(std::uint64_t seed) {
  static Planner planner;
  static Planner eager({.launch_us = 0, .copy_launch_us = 0});  // many short steps cost nothing
  const RequestKind kind{.max_axes = 3,
                         .max_dims = 3,
                         .is_small = true,
                         .uneven_percent = 40,
                         .special_percent = 40,
                         .partial_percent = 40};
  PlanRequest request = random_request(seed, kind);
  if (seed % 3 == 0) request.itemsize = 1 << 20;  // bandwidth dominates
  if (seed % 5 == 0) request.budget_nbytes = (request.shape.numel() + 20) * request.itemsize;
  for (Planner* each : {&planner, &eager}) {
    const auto plan = each->plan(request);
    const std::string problem = check_plan(*plan, seed);
    if (!problem.empty()) return pair_text(request) + "\n" + plan->text() + problem;
  }
  return {};
}

}  // namespace
}  // namespace tessera::layout::testing

int main(int argc, char** argv) {
  return tessera::fuzz::run(argc, argv, "plans executed element by element",
                            [](std::uint64_t seed) { return tessera::layout::testing::check_one(seed); });
}
