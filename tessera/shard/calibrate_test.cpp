#include "tessera/shard/calibrate.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <mutex>
#include <set>

#include "tessera/base/error.h"
#include "tessera/base/rank.h"
#include "tessera/base/testing/expect_error.h"
#include "tessera/comm/world.h"
#include "tessera/ops/create/create.h"
#include "tessera/ops/matrix/matrix.h"
#include "tessera/shard/redistribute.h"
#include "tessera/shard/scopes.h"
#include "tessera/shard/trace.h"

namespace tessera::shard {
namespace {

using layout::CostModel;
using layout::Layout;
using layout::Mesh;

int rank() { return current_place().rank.value(); }
std::string file(const char* name) {
  return ::testing::TempDir() + "calibrate_test." + std::to_string(getpid()) + "." + name;
}

TEST(Calibrate, FindsTheSamePricesOnAllRanksSavesThemAndPlansWithThem) {
  const std::string path = file("prices.json");
  std::mutex mutex;
  std::set<std::string> found;
  simulate(4, [&] {
    const Mesh mesh = Mesh::parse("dp=2@memory,tp=2@memory,one=1");
    const CostModel model = calibrate(mesh, {.budget = std::chrono::milliseconds(100), .save_to = path});
    model.check();
    EXPECT_EQ(planner().model(), model);
    EXPECT_EQ(CostModel::load(path), model);
    EXPECT_EQ(model.axes.size(), 2U);
    EXPECT_GT(model.launch_us, 0);
    EXPECT_GT(model.copy_launch_us, 0);
    const double slowest = std::min(model.axes.at("dp").gigabytes_per_s, model.axes.at("tp").gigabytes_per_s);
    EXPECT_EQ(model.links[0].gigabytes_per_s, slowest);
    EXPECT_EQ(model.links[1], CostModel().links[1]);  // not used by any axis
    const std::lock_guard lock(mutex);
    found.insert(model.json());
  });
  EXPECT_EQ(found.size(), 1U);
  simulate(2, [&] {
    EXPECT_EQ(planner().model(), CostModel());
    load_cost_model(path);
    EXPECT_EQ(planner().model().json(), *found.begin());
  });
  std::remove(path.c_str());
}

TEST(Calibrate, TakesRanksOffTheMeshAlong) {
  simulate(3, [] {
    const CostModel model =
        calibrate(Mesh::create({{"x", 2, layout::Link::kMemory}}, Rank(1)), {.budget = std::chrono::milliseconds(50)});
    EXPECT_EQ(planner().model(), model);
    EXPECT_TRUE(model.axes.contains("x"));
  });
}

TEST(Calibrate, AddsToWhatIsKnown) {
  CostModel before;
  before.axes["pp"] = {3, 7};
  set_cost_model(before);
  EXPECT_EQ(calibrate(Mesh::parse("tp=1"), {.budget = std::chrono::milliseconds(20)}).axes, before.axes);
  set_cost_model({});
}

TEST(Calibrate, WhatWasPlannedAtOtherPricesIsPlannedAgain) {
  CostModel dear_launches;
  dear_launches.launch_us = 100;
  CostModel dear_hops;
  dear_hops.launch_us = 0.1;
  dear_hops.links[1].latency_us = 10;
  CostModel dear_bytes;
  dear_bytes.copy_launch_us = 0;
  dear_bytes.links[1].gigabytes_per_s = 0.01;
  simulate(4, [&] {
    const Mesh mesh = Mesh::parse("a=2,b=2");
    const Tensor x = ops::zeros({8}, {.layout = Layout::parse(mesh, "S0,S0")});
    const auto steps = [&] {
      const TraceLayouts trace;
      (void)redistribute(x, Layout::replicated(mesh));
      return trace.events().at(0).plan->steps.size();
    };
    const Mesh line = Mesh::parse("tp=4");
    const Tensor left = ops::zeros({64, 64}, {.layout = Layout::parse(line, "S0")});
    const Tensor right = ops::zeros({64, 64}, {.layout = Layout::parse(line, "S0")});
    const auto product = [&] {
      const AutoRedistribute automatic;
      return ops::mm(left, right).layout();
    };
    set_cost_model(dear_launches);
    EXPECT_EQ(steps(), 1U);
    const Layout first = product();
    set_cost_model(dear_hops);
    EXPECT_EQ(steps(), 2U);
    set_cost_model(dear_bytes);
    EXPECT_FALSE(product() == first) << first.text();
    set_cost_model(dear_launches);
    EXPECT_EQ(steps(), 1U);
    EXPECT_EQ(product(), first);
  });
}

TEST(Calibrate, RefusesPricesThatAreNotTheSameEverywhere) {
  simulate(2, [] {
    CostModel model;
    model.launch_us = 3 + rank();
    expect_error<MismatchError>([&] { set_cost_model(model); },
                                {"all ranks must give the same cost model", "ranks 1 and 0 differ"});
    EXPECT_EQ(planner().model(), CostModel());
  });
  CostModel negative;
  negative.launch_us = -1;
  expect_error<InvalidArgument>([&] { set_cost_model(negative); }, {"launch_us", "-1"});
}

TEST(Calibrate, AFileThatIsBrokenIsTheSameErrorOnAllRanks) {
  const std::string path = file("broken.json");
  std::ofstream(path) << R"({"launch_us": 3, "axes": {"tp": {"latency_us": 1)";
  simulate(3, [&] {
    expect_error<InvalidArgument>([&] { load_cost_model(path); }, {path, "not JSON"});
    expect_error<IoError>([&] { load_cost_model(path + ".none"); }, {path + ".none", "cannot read"});
    expect_error<IoError>(
        [&] {
          (void)calibrate(Mesh::parse("x=3"), {.budget = std::chrono::milliseconds(20), .save_to = path + "/under"});
        },
        {path + "/under"});
    EXPECT_EQ(planner().model(), CostModel());
  });
  std::remove(path.c_str());
}

TEST(Calibrate, IsCommunication) {
  const ForbidCommunication forbid;
  expect_error<NotSupported>([] { (void)calibrate(Mesh::parse("x=1")); }, {"calibrate", "ForbidCommunication"});
}

}  // namespace
}  // namespace tessera::shard
