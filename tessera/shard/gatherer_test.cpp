// Parameters gathered ahead inside a capture: the concurrency of a replay, and the time that counts as waiting.
#include "tessera/shard/gatherer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "tessera/autograd/autograd.h"
#include "tessera/base/error.h"
#include "tessera/comm/world.h"
#include "tessera/device/device.h"
#include "tessera/memory/allocator.h"
#include "tessera/memory/graph_capture.h"
#include "tessera/ops/create/create.h"
#include "tessera/ops/pointwise/pointwise.h"
#include "tessera/ops/reduce/host_values.h"
#include "tessera/ops/reduce/reduce.h"
#include "tessera/shard/distribute.h"
#include "tessera/tensor/device_context.h"

namespace tessera::shard {
namespace {

constexpr std::size_t kUnits = 3;

// Units used in sequence, each followed by a call.
class Uses {
 public:
  explicit Uses(bool prefetches) : gatherer_({.prefetches = prefetches}, exposed_) {
    const layout::Mesh mesh = layout::Mesh::create({{"dp", 1}, {"fsdp", 2, layout::Link::kMemory}, {"tp", 1}});
    const layout::Layout stored =
        layout::Layout::create(mesh, {layout::Replicate(), layout::Shard(0), layout::Replicate()});
    for (std::size_t i = 0; i < kUnits; ++i) {
      gatherer_.add_unit({{ops::ones({8, 8}, {.layout = stored}), layout::Layout::replicated(mesh)}});
    }
  }
  void run() {
    const autograd::NoGrad no_grad;
    const device::Stream stream = tensor::current_stream(device::Device::get("host"));
    for (std::size_t i = 0; i < kUnits; ++i) {
      const GatheredUnit weights = gatherer_.use(i, SavedWeights::kByCaller);
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

TEST(Gather, GradientsReturnAsShardsOfTheAxis) {
  simulate(2, [] {
    const layout::Mesh mesh = layout::Mesh::create({{"rows", 2, layout::Link::kMemory}});
    const layout::Layout whole = layout::Layout::replicated(mesh);
    const Tensor weight = ops::ones({4, 2}, {.layout = layout::Layout::create(mesh, {layout::Shard(0)})});
    autograd::set_requires_grad(weight, true);
    ExposedTime exposed;
    Gatherer gatherer({.axis = "rows"}, exposed);
    const std::size_t unit = gatherer.add_unit({{weight, whole}});
    {
      const GatheredUnit gathered = gatherer.use(unit, SavedWeights::kGatheredAgain);
      ASSERT_EQ(gathered.size(), 1U);
      EXPECT_EQ(gathered[0].layout(), whole);
      EXPECT_EQ(gatherer.held().now, 32);
      autograd::backward(ops::sum(ops::mul(gathered[0], gathered[0])));
    }
    const Tensor gradient = autograd::grad(weight);
    EXPECT_EQ(gradient.layout(), weight.layout());
    EXPECT_EQ(ops::item(gather(ops::sum(gradient))).as_double(), 16);
  });
}

TEST(Gather, UnitsThatDoNotFitAreRejected) {
  simulate(2, [] {
    const layout::Mesh mesh = layout::Mesh::create({{"rows", 2, layout::Link::kMemory}});
    const layout::Layout stored = layout::Layout::create(mesh, {layout::Shard(0)});
    const layout::Layout whole = layout::Layout::replicated(mesh);
    const Tensor weight = ops::ones({4, 2}, {.layout = stored});
    const Tensor wide = ops::ones({4, 2}, {.dtype = DType::kF64, .layout = stored});
    const Tensor plain = ops::ones({4, 2});
    ExposedTime exposed;
    Gatherer gatherer({.axis = "rows"}, exposed);
    EXPECT_THROW(gatherer.add_unit({}), InvalidArgument);
    EXPECT_THROW(gatherer.add_unit({{weight, whole}, {wide, whole}}), InvalidArgument);
    EXPECT_THROW(gatherer.add_unit({{weight, whole}, {plain}}), InvalidArgument);
    EXPECT_THROW(gatherer.add_unit({{weight}}), InvalidArgument);
    Gatherer of_other_axis({.axis = "fsdp"}, exposed);
    EXPECT_THROW(of_other_axis.add_unit({{weight, whole}}), InvalidArgument);
  });
}

}  // namespace
}  // namespace tessera::shard
