// Parameters gathered ahead inside a capture: the concurrency of a replay, and the time that counts as waiting.
#include "tessera/train/gather.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "tessera/autograd/autograd.h"
#include "tessera/comm/world.h"
#include "tessera/device/device.h"
#include "tessera/memory/allocator.h"
#include "tessera/memory/graph_capture.h"
#include "tessera/shard/create.h"
#include "tessera/tensor/device_context.h"
#include "tessera/train/testing/runs.h"

namespace tessera::train {
namespace {

constexpr std::size_t kUnits = 3;

// Units used in sequence, each followed by a call.
class Uses {
 public:
  explicit Uses(bool prefetches)
      : plan_(ParallelPlan::create(testing::on_mesh(testing::small_config(), 1, 2, 1), 2)),
        gatherer_(plan_, DType::kF32, prefetches, exposed_) {
    for (std::size_t i = 0; i < kUnits; ++i) {
      gatherer_.add_unit({{"weight", ParameterKind::kDown, shard::ones({8, 8}, plan_.kept(ParameterKind::kDown))}});
    }
  }
  void run() {
    const autograd::NoGrad no_grad;
    const device::Stream stream = tensor::current_stream(device::Device::get("host"));
    for (std::size_t i = 0; i < kUnits; ++i) {
      const Weights weights = gatherer_.use(i, SavedWeights::kByCaller);
      stream.run([] {}, {.label = "compute " + std::to_string(i), .accesses = std::span<const device::Access>()});
    }
  }
  // Captures them after a first run, in which ranks meet and groups are created.
  std::vector<device::NodeInfo> captured() {
    const device::Device host = device::Device::get("host");
    run();
    host.synchronize();
    memory::GraphCapture capture(memory::Allocator::of(host), tensor::current_stream(host));
    run();
    return capture.end().graph().nodes();
  }

 private:
  ParallelPlan plan_;
  ExposedTime exposed_;
  Gatherer gatherer_;
};

std::vector<NodeId> labelled(const std::vector<device::NodeInfo>& nodes, const std::string& label) {
  std::vector<NodeId> found;
  for (const device::NodeInfo& node : nodes) {
    if (node.label == label) found.push_back(node.id);
  }
  return found;
}

// Returns true if `later` has to wait for `earlier`.
bool comes_behind(const std::vector<device::NodeInfo>& nodes, NodeId later, NodeId earlier) {
  std::set<NodeId> behind{earlier};
  for (const device::NodeInfo& node : nodes) {  // nodes follow their dependencies
    const auto is_behind = [&](const device::Dependency& edge) { return behind.contains(edge.node); };
    if (std::any_of(node.dependencies.begin(), node.dependencies.end(), is_behind)) behind.insert(node.id);
  }
  return behind.contains(later);
}

TEST(Gather, AUnitAheadIsABranchOfItsOwnInACapture) {
  simulate(2, [] {
    const std::vector<device::NodeInfo> nodes = Uses(true).captured();
    const std::vector<NodeId> gathers = labelled(nodes, "all_gather");
    const NodeId computes[] = {labelled(nodes, "compute 0").at(0), labelled(nodes, "compute 1").at(0),
                               labelled(nodes, "compute 2").at(0)};
    ASSERT_EQ(gathers.size(), kUnits);
    for (std::size_t i = 0; i < kUnits; ++i) {
      EXPECT_TRUE(comes_behind(nodes, computes[i], gathers[i])) << "used before it is there";
      if (i + 1 == kUnits) continue;
      EXPECT_FALSE(comes_behind(nodes, gathers[i + 1], computes[i])) << "not ahead of compute " << i;
      EXPECT_FALSE(comes_behind(nodes, computes[i], gathers[i + 1])) << "compute " << i << " waits for it";
      if (i + 2 == kUnits) continue;
      EXPECT_TRUE(comes_behind(nodes, gathers[i + 2], computes[i])) << "two units ahead";
    }
  });
}

// A replay on one thread runs the nodes in capture order; a replay on several threads runs branches concurrently. In
// both, the compute stream does nothing else between the two ends of a wait.
TEST(Gather, WaitsOfAReplayCoverGathersThatRunInBetween) {
  for (const bool prefetches : {true, false}) {
    simulate(2, [&] {
      const std::vector<device::NodeInfo> nodes = Uses(prefetches).captured();
      const std::vector<NodeId> ends = labelled(nodes, "record");
      const std::vector<NodeId> gathers = labelled(nodes, "all_gather");
      ASSERT_EQ(ends.size(), 2 * kUnits);
      for (const NodeId gather : gathers) {
        const auto behind = std::ranges::count_if(ends, [&](NodeId end) { return end < gather; });
        EXPECT_EQ(behind % 2, 1) << "all_gather, node " << gather.value() << ", is in no wait";
      }
      const auto compute = [&](std::size_t i) { return labelled(nodes, "compute " + std::to_string(i)).at(0); };
      for (std::size_t i = 0; i < kUnits; ++i) {
        EXPECT_TRUE(i == 0 || comes_behind(nodes, ends[2 * i], compute(i - 1))) << "it may still compute";
        EXPECT_TRUE(comes_behind(nodes, ends[2 * i + 1], gathers.at(i)));
        EXPECT_TRUE(comes_behind(nodes, compute(i), ends[2 * i + 1]));
        if (i + 1 == kUnits) continue;
        EXPECT_FALSE(comes_behind(nodes, ends[2 * i + 1], gathers.at(i + 1))) << "waits for what is not needed yet";
      }
    });
  }
}

}  // namespace
}  // namespace tessera::train
