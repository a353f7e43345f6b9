// Compares bounds on redistributions with the planner: never above the cost
// of the plan, and equal to it if marked exact.
#include "tessera/layout/detail/move_bounds.h"

#include <gtest/gtest.h>

#include <random>

#include "tessera/layout/planner.h"
#include "tessera/layout/testing/random_calls.h"

namespace tessera::layout::detail {
namespace {

using layout::testing::CallOptions;
using layout::testing::Random;

TEST(MoveBounds, AreNeverAboveThePlan) {
  Random random(7);
  CallOptions options;
  options.max_ranks = 64;
  std::size_t exact = 0;
  std::size_t sharp = 0;
  const int runs = 6000;
  for (int run = 0; run < runs; ++run) {
    options.plain = run % 4 != 0;
    options.max_axes = run % 16 == 0 ? 4 : 3;
    const Mesh mesh = layout::testing::random_mesh(random, options);
    const Shape shape{std::int64_t{1} << (random() % 6), 1 + static_cast<std::int64_t>(random() % 13)};
    const Layout from = layout::testing::random_layout(random, mesh, shape, options);
    const Layout to = layout::testing::random_layout(random, mesh, shape, options);
    if (from == to) continue;
    const Layout both[] = {from, to};
    std::string why;
    const auto atoms = atoms_of(both, why);
    if (!atoms) continue;
    const auto source = to_atoms(*atoms, from, shape, why);
    const auto target = to_atoms(*atoms, to, shape, why);
    if (!source || !target || *source == *target) continue;
    CostModel model;
    if (random() % 3 == 0) model.launch_us = 0.5;
    if (random() % 3 == 0) model.links[1].latency_us = 20;
    if (random() % 3 == 0) model.copy_launch_us = 9;
    const std::int64_t itemsize = std::int64_t{1} << (random() % 20);
    const double us = Planner(model).plan({from, to, shape, itemsize, 0})->us;
    MoveBounds bounds(*atoms, source, shape, itemsize, model);
    for (const MoveCost& cost : {bounds.least(*target), bounds.sharpen(*target)}) {
      ASSERT_LE(cost.us, us) << "run " << run << ": " << from.text() << " -> " << to.text();
      if (cost.is_exact) {
        ASSERT_EQ(cost.us, us) << "run " << run << ": " << from.text() << " -> " << to.text();
      }
    }
    exact += bounds.least(*target).is_exact ? 1 : 0;
    sharp += bounds.sharpen(*target).is_exact ? 1 : 0;
  }
  EXPECT_GT(exact, runs / 10U);
  EXPECT_GT(sharp, exact);
}

TEST(MoveBounds, SayNothingOfALayoutThatHasNoForm) {
  const Mesh mesh = Mesh::parse("p=2");
  const Layout layouts[] = {Layout::parse(mesh, "S0")};
  std::string why;
  const auto atoms = atoms_of(layouts, why);
  const CostModel model;
  MoveBounds bounds(*atoms, std::nullopt, {4}, 4, model);
  const MoveCost cost = bounds.sharpen({{AtomDim{}}, {std::nullopt}});
  EXPECT_FALSE(cost.is_exact);
  EXPECT_EQ(cost.us, model.copy_launch_us);
}

}  // namespace
}  // namespace tessera::layout::detail
