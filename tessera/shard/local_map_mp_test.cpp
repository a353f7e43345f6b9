// Functions on shards, collectives and calibration between processes, on the shared-memory backend.
#include <gtest/gtest.h>

#include "tessera/autograd/autograd.h"
#include "tessera/base/rank.h"
#include "tessera/comm/testing/rank_processes.h"
#include "tessera/layout/planner.h"
#include "tessera/ops/create/create.h"
#include "tessera/ops/create/random.h"
#include "tessera/ops/pointwise/pointwise.h"
#include "tessera/ops/reduce/host_values.h"
#include "tessera/ops/reduce/reduce.h"
#include "tessera/shard/calibrate.h"
#include "tessera/shard/collectives.h"
#include "tessera/shard/distribute.h"
#include "tessera/shard/local_map.h"
#include "tessera/shard/redistribute.h"

namespace tessera::shard {
namespace {

using layout::Layout;
using layout::Mesh;

void run(int ranks, const std::function<void(int)>& body) {
  for (const comm::ProcessEnd& end : comm::run_rank_processes(ranks, body)) {
    EXPECT_EQ(end.exit_code, 0) << "signal " << end.signal;
  }
}

TEST(LocalMapProcesses, SharesDoneByEachGiveTheGradientOfTheWhole) {
  run(4, [](int) {
    const Mesh mesh = Mesh::parse("dp=2,tp=2");
    const Layout columns = Layout::parse(mesh, "R,S1");
    const Tensor x = ops::randn({4, 6}, {.layout = columns});
    const Tensor whole = gather(x);
    for (const Tensor& each : {x, whole}) autograd::set_requires_grad(each, true);
    const auto share = local_map(
        [&](const std::vector<Tensor>& parts) -> std::vector<Tensor> {
          return {ops::div(parts[0], all_reduce(ops::sum(ops::mul(parts[0], parts[0])), {mesh, "tp"}))};
        },
        {columns}, {columns});
    const Tensor y = share({x})[0];
    const Tensor want = ops::div(whole, ops::sum(ops::mul(whole, whole)));
    EXPECT_TRUE(ops::allclose(gather(y), want));
    autograd::backward(ops::sum(ops::mul(y, y)));
    autograd::backward(ops::sum(ops::mul(want, want)));
    EXPECT_TRUE(ops::allclose(gather(autograd::grad(x)), autograd::grad(whole), 1e-4, 1e-5));
  });
}

TEST(LocalMapProcesses, CalibrationIsTheSameOnAllRanks) {
  run(4, [](int) {
    const Mesh mesh = Mesh::parse("dp=2@memory,tp=2@memory");
    const layout::CostModel model = calibrate(mesh, {.budget = std::chrono::milliseconds(200)});
    set_cost_model(model);  // compared between ranks
    EXPECT_EQ(planner().model(), model);
    EXPECT_GT(model.axes.at("dp").gigabytes_per_s, 0);
    const Tensor x = ops::ones({8, 8}, {.layout = Layout::parse(mesh, "S0,S0")});
    EXPECT_EQ(ops::item(ops::sum(gather(x))).as_double(), 64);
  });
}

}  // namespace
}  // namespace tessera::shard
