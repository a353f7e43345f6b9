#include "tessera/layout/planner.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/base/testing/expect_error.h"
#include "tessera/layout/arithmetic.h"
#include "tessera/layout/testing/plan_interpreter.h"
#include "tessera/layout/testing/random_requests.h"

namespace tessera::layout {
namespace {

PlanRequest request(const Mesh& mesh, const std::string& from, const std::string& to, const Shape& shape) {
  return {.from = Layout::parse(mesh, from), .to = Layout::parse(mesh, to), .shape = shape};
}

// Returns kinds and axes: "all-gather x; slice y".
std::string brief(const Plan& plan) {
  std::string text;
  for (const Step& step : plan.steps) {
    text += (text.empty() ? "" : "; ") + std::string(to_string(step.kind)) + " ";
    for (std::size_t i = 0; i < step.axes.size(); ++i)
      text += (i > 0 ? "," : "") + step.before.mesh().axis(step.axes[i].axis).name;
  }
  return text;
}

std::string plan_of(const std::string& mesh, const Shape& shape, const std::string& from, const std::string& to) {
  Planner planner;
  return brief(*planner.plan(request(Mesh::parse(mesh), from, to, shape)));
}

TEST(Planner, TakesOneStepWhereOneIsEnough) {
  const Shape shape{4096, 4096};
  EXPECT_EQ(plan_of("x=4", shape, "S0", "R"), "all-gather x");
  EXPECT_EQ(plan_of("x=4", shape, "R", "S0"), "slice x");
  EXPECT_EQ(plan_of("x=4", shape, "P", "R"), "all-reduce x");
  EXPECT_EQ(plan_of("x=4", shape, "P", "S0"), "reduce-scatter x");
  EXPECT_EQ(plan_of("x=4", shape, "S0", "S1"), "all-to-all x");
  EXPECT_EQ(plan_of("x=4", shape, "R", "P"), "partition x");
  EXPECT_EQ(plan_of("x=4", shape, "S0", "P"), "zero-fill x");
  EXPECT_EQ(plan_of("x=4", shape, "S0", "S0"), "");
}

TEST(Planner, MergesAxes) {
  const Shape shape{4096, 4096};
  EXPECT_EQ(plan_of("x=4,y=2", shape, "S0,S0", "R,R"), "all-gather x,y");
  EXPECT_EQ(plan_of("x=4,y=2", shape, "R,R", "S1,S1"), "slice x,y");
  EXPECT_EQ(plan_of("x=4,y=2", shape, "P,P", "R,R"), "all-reduce x,y");
  EXPECT_EQ(plan_of("x=4,y=2", shape, "P,P", "S0,S0"), "reduce-scatter x,y");
  EXPECT_EQ(plan_of("x=4,y=2", shape, "S0,S0", "S1,S1"), "all-to-all x,y");
  EXPECT_EQ(plan_of("x=4,y=2", shape, "P,P(avg)", "R,R"), "all-reduce x,y");
}

TEST(Planner, ChangesOwnersWithoutCutting) {
  const Shape shape{4096, 4096};
  EXPECT_EQ(plan_of("x=4,y=4", shape, "S0,R", "R,S0"), "permute x,y");
  EXPECT_EQ(plan_of("x=4,y=2", shape, "S0,S0", "{Shard(0, order=1), Shard(0, order=0)}"), "permute x,y");
  // For a size that does not divide, [x, y] and [y, x] of different sizes give different chunks.
  EXPECT_EQ(plan_of("x=4,y=2", {4095, 4096}, "S0,S0", "{Shard(0, order=1), Shard(0, order=0)}"), "box exchange x,y");
}

// Two partial axes are reduced in one step, for any targets.
TEST(Planner, FoldsOnce) {
  Planner planner;
  const Mesh mesh = Mesh::parse("x=4,y=2");
  for (const char* to : {"R,S0", "S0,R", "S1,S0", "R,R"}) {
    const auto plan = planner.plan(request(mesh, "P,P", to, {4096, 4096}));
    int folds = 0;
    for (const Step& step : plan->steps) {
      if (step.kind != StepKind::kAllReduce && step.kind != StepKind::kReduceScatter) continue;
      ++folds;
      EXPECT_EQ(step.axes.size(), 2U) << plan->text();
    }
    EXPECT_EQ(folds, 1) << plan->text();
  }
  EXPECT_EQ(plan_of("x=4,y=2", {4096, 4096}, "P,P", "R,S0"), "reduce-scatter y,x; all-gather x");
}

TEST(Planner, LeavesAloneWhatStaysPartial) {
  EXPECT_EQ(plan_of("x=4,y=2", {4096, 4096}, "P,S0", "P,R"), "all-gather y");
  EXPECT_EQ(plan_of("x=4,y=2", {4096, 4096}, "P,P", "P,R"), "all-reduce y");
}

// Slow links carry little: a gather over both starts with the slow axis, while shards are small.
TEST(Planner, GathersOverTheSlowAxisFirst) {
  EXPECT_EQ(plan_of("dp=4@network,tp=8", {8192, 8192}, "S1,S0", "R,R"), "all-gather dp; all-gather tp");
  EXPECT_EQ(plan_of("tp=8,dp=4@network", {8192, 8192}, "S0,S1", "R,R"), "all-gather dp; all-gather tp");
}

TEST(Planner, KeepsStridedCutsWhereTheyStand) {
  const Mesh mesh = Mesh::parse("x=4,y=2");
  Planner planner;
  for (const auto& [from, to] :
       {std::pair("{Shard(0, blocks=2), Replicate()}", "R,R"), std::pair("R,R", "{Shard(0, blocks=2), Replicate()}"),
        std::pair("{Shard(0, blocks=2), Shard(1)}", "S0,S1"), std::pair("S1,S0", "{Shard(0, blocks=2), Shard(1)}"),
        std::pair("{Shard(0, blocks=2), Replicate()}", "{Shard(0, blocks=4), Replicate()}")}) {
    const auto plan = planner.plan(request(mesh, from, to, {32, 8}));
    EXPECT_EQ(testing::check_plan(*plan, 1), "") << plan->text();
  }
  EXPECT_EQ(plan_of("x=4,y=2", {4096, 64}, "{Shard(0, blocks=2), Replicate()}", "R,R"), "all-gather x");
}

TEST(Planner, MovesGivenSizes) {
  const Mesh mesh = Mesh::parse("x=2,y=2");
  Planner planner;
  for (const auto& [from, to] :
       {std::pair("{Shard(0, sizes=3/5), Replicate()}", "R,R"), std::pair("R,R", "{Shard(0, sizes=8/0), Shard(0)}"),
        std::pair("{Shard(0, sizes=3/5), Shard(0)}", "S0,S0"),
        std::pair("{Shard(0, sizes=3/5), Replicate()}", "{Replicate(), Shard(0, sizes=3/5)}")}) {
    const auto plan = planner.plan(request(mesh, from, to, {8, 4}));
    EXPECT_EQ(testing::check_plan(*plan, 2), "") << plan->text();
  }
  EXPECT_EQ(brief(*planner.plan(
                request(mesh, "{Shard(0, sizes=3/5), Replicate()}", "{Replicate(), Shard(0, sizes=3/5)}", {8, 4}))),
            "permute x,y");
}

TEST(Planner, KeepsToTheBudget) {
  Planner planner;
  const Mesh mesh = Mesh::parse("x=4,y=4");
  PlanRequest asked = request(mesh, "S0,S0", "{Shard(1), Shard(0)}", {64, 64});
  const auto plan = planner.plan(asked);
  for (const Step& step : plan->steps)
    EXPECT_LE(largest_local_numel(step.after, asked.shape) * 4, 64 * 64 * 4 / 16) << plan->text();
  asked.budget_nbytes = 100;
  expect_error<InvalidArgument>([&] { planner.plan(asked); }, {"1 KiB, got 100 B"});
  asked.budget_nbytes = 1024;
  EXPECT_EQ(planner.plan(asked)->text(), plan->text());
}

TEST(Planner, RefusesWhatHasNoCommonGround) {
  Planner planner;
  const Mesh mesh = Mesh::parse("x=12");
  const Layout two = Layout::create(mesh, LayoutParts{{{{{{0, 1, 2}, 1}}}}, {}});
  const Layout three = Layout::create(mesh, LayoutParts{{{{{{0, 1, 3}, 1}}}}, {}});
  expect_error<InvalidArgument>([&] { planner.plan({.from = two, .to = three, .shape = {24}}); }, {"x"});
  expect_error<InvalidArgument>(
      [&] {
        planner.plan({.from = Layout::replicated(mesh), .to = Layout::replicated(Mesh::parse("y=3")), .shape = {24}});
      },
      {"x=12", "y=3"});
  expect_error<InvalidArgument>([&] { planner.plan({.from = two, .to = Layout(), .shape = {24}}); }, {"target"});
  expect_error<InvalidArgument>([&] { planner.plan(request(mesh, "S1", "R", {24})); });
}

TEST(Planner, SplitsAnAxisWhereTheOtherEndUsesAPartOfIt) {
  Planner planner;
  const Mesh mesh = Mesh::parse("x=8");
  const auto plan = planner.plan(request(mesh, "S0", "{2:Shard(0)*4:Replicate()}", {64, 64}));
  EXPECT_EQ(brief(*plan), "all-gather x");
  ASSERT_EQ(plan->steps[0].axes.size(), 1U);
  EXPECT_EQ(plan->steps[0].axes[0], (SubAxis{0, 2, 4}));
  EXPECT_EQ(plan->steps[0].after, plan->request.to);
}

TEST(Planner, PrintsPlans) {
  Planner planner;
  const auto plan = planner.plan(request(Mesh::parse("x=4,y=2"), "S0,R", "R,S0", {4096, 1024}));
  EXPECT_EQ(plan->text(),
            "slice over y -> {Shard(0), Shard(0)}: 2 MiB copied, 3.40 us\n"
            "permute over x,y -> {Shard(0, order=1), Shard(0, order=0)}: 2 MiB received, 13.69 us\n"
            "all-gather over x -> {Replicate(), Shard(0)}: 6 MiB received, 29.07 us\n");
  EXPECT_EQ(planner.plan(request(Mesh::parse("x=2"), "R", "R", {4}))->text(), "no steps\n");
}

TEST(Planner, GivesTheDual) {
  Planner planner;
  const Mesh mesh = Mesh::parse("x=4");
  const auto dual_of = [&](const char* from, const char* to) {
    return planner.dual(*planner.plan(request(mesh, from, to, {4096, 4096})));
  };
  EXPECT_EQ(brief(*dual_of("S0", "R")), "reduce-scatter x");
  EXPECT_EQ(brief(*dual_of("R", "S0")), "all-gather x");
  EXPECT_EQ(brief(*dual_of("S0", "S1")), "all-to-all x");
  EXPECT_EQ(brief(*dual_of("P", "R")), "");
  EXPECT_EQ(brief(*dual_of("P", "S0")), "all-gather x");
  EXPECT_EQ(brief(*dual_of("S0", "P")), "slice x");
  EXPECT_EQ(brief(*dual_of("R", "P")), "");
  EXPECT_EQ(dual_of("S0", "R")->request.from.placements_text(), "{Partial()}");
}

TEST(Planner, CountsAndForgets) {
  Planner planner({}, 2);
  const Mesh mesh = Mesh::parse("x=4");
  const PlanRequest a = request(mesh, "S0", "R", {8, 8});
  const PlanRequest b = request(mesh, "S0", "S1", {8, 8});
  const PlanRequest c = request(mesh, "S0", "R", {8, 16});
  const auto first = planner.plan(a);
  planner.plan(b);
  EXPECT_EQ(planner.plan(a), first);
  planner.plan(c);  // b was used least recently
  EXPECT_EQ(planner.plan(a), first);
  planner.plan(b);
  const PlannerCounts counts = planner.counts();
  EXPECT_EQ(counts.hits, 2U);
  EXPECT_EQ(counts.misses, 4U);
  EXPECT_EQ(counts.evictions, 2U);
  EXPECT_EQ(counts.entries, 2U);
}

TEST(Planner, TellsRequestsApart) {
  Planner planner;
  PlanRequest asked = request(Mesh::parse("x=4"), "S0", "R", {8, 8});
  const std::int64_t nbytes = planner.plan(asked)->nbytes;
  asked.itemsize = 8;
  EXPECT_EQ(planner.plan(asked)->nbytes, 2 * nbytes);
  asked.budget_nbytes = 4096;
  EXPECT_EQ(planner.plan(asked)->request.budget_nbytes, 4096);
  asked.shape = {16, 8};
  EXPECT_EQ(planner.plan(asked)->nbytes, 4 * nbytes);
  EXPECT_EQ(planner.counts().hits, 0U);
}

TEST(Planner, IsSafeToShare) {
  Planner planner({}, 16);
  std::vector<PlanRequest> requests;
  for (std::uint64_t seed = 0; seed < 32; ++seed) requests.push_back(testing::random_request(seed, {}));
  std::vector<std::string> texts;
  for (const PlanRequest& each : requests) texts.push_back(Planner().plan(each)->text());
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (std::size_t i = 0; i < 200; ++i) {
        const std::size_t k = (i * 7 + static_cast<std::size_t>(t)) % requests.size();
        EXPECT_EQ(planner.plan(requests[k])->text(), texts[k]);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Planner, LeavesAloneTooManyAxesThatBothEndsTreatAlike) {
  const Mesh mesh = Mesh::parse("a=2,b=2,c=2,d=2,e=2,f=2,g=2,h=2");
  Planner planner;
  const auto plan = planner.plan(request(mesh, "S0,S0,S0,S1,R,R,S1,S2", "S0,S0,S0,R,S1,R,S2,S1", {64, 64, 64}));
  EXPECT_FALSE(plan->steps.empty());
  EXPECT_FALSE(plan->is_exact);
  for (const Step& step : plan->steps) {
    ASSERT_GE(step.after.shardings(0).size(), 3U);
    EXPECT_EQ(step.after.shardings(0)[0].by.axis, 0);
  }
  expect_error<NotSupported>(
      [&] {
        planner.plan(request(mesh, "S0,S0,S0,S0,S0,S0,S0,S0", "S1,S1,S1,S1,S1,S1,S1,S1", {256, 256}));
      },
      {"at most 6 axes", "got 8 axes"});
}

TEST(Planner, PricesSingleSteps) {
  Planner planner;
  const Mesh mesh = Mesh::parse("x=4");
  EXPECT_EQ(planner.step(request(mesh, "S0", "R", {64, 64}))->kind, StepKind::kAllGather);
  EXPECT_FALSE(planner.step(request(mesh, "P", "P(max)", {64, 64})).has_value());
}

}  // namespace
}  // namespace tessera::layout
