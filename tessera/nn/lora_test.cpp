// LoRA adapters: what they add, what they train, merging, and their errors.
#include "tessera/nn/lora.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "tessera/autograd/autograd.h"
#include "tessera/base/error.h"
#include "tessera/base/rank.h"
#include "tessera/base/testing/expect_error.h"
#include "tessera/comm/world.h"
#include "tessera/device/device.h"
#include "tessera/nn/detail/module_state.h"
#include "tessera/nn/distribute.h"
#include "tessera/nn/layers/attention.h"
#include "tessera/nn/layers/embedding.h"
#include "tessera/nn/layers/mlp.h"
#include "tessera/nn/module_list.h"
#include "tessera/ops/create/create.h"
#include "tessera/ops/create/generator.h"
#include "tessera/ops/create/random.h"
#include "tessera/ops/pointwise/convert.h"
#include "tessera/ops/pointwise/pointwise.h"
#include "tessera/ops/reduce/reduce.h"
#include "tessera/shard/distribute.h"
#include "tessera/shard/gradients.h"

namespace tessera::nn {
namespace {

struct Net : Layer<Net> {
  ModuleList<Attention> attention;
  GatedMlp mlp;
  Net()
      : attention(add(
            "attention",
            ModuleList<Attention>(
                1, [](std::int64_t) { return Attention({.width = 8, .heads = 2, .bias = true, .out_bias = true}); }))),
        mlp(add("mlp", GatedMlp({.width = 8, .hidden = 12}))) {}
  [[nodiscard]] Tensor forward(const Tensor& x) const { return mlp(attention[0](x)); }
};

std::vector<float> values_of(const Tensor& x) {
  const Tensor plain = ops::contiguous(shard::gather(x.detach()));
  device::Device::get("host").synchronize();
  return {plain.data_as<float>(), plain.data_as<float>() + plain.numel()};
}

Tensor input() {
  ops::manual_seed(5);
  return ops::randn({4, 3, 8});
}

// Gives the adapters values, as training does.
void fill(const Module& model) {
  const autograd::NoGrad no_grad;
  ops::manual_seed(7);
  for (const NamedParameter& each : model.named_parameters()) {
    if (is_lora_parameter(each.path)) ops::normal_(each.parameter.leaf(), 0, 0.3);
  }
}

TEST(Lora, TrainsTheAdaptersAloneAndChangesNothingAtFirst) {
  ops::manual_seed(1);
  const Net net;
  const std::vector<float> before = values_of(net(input()));
  EXPECT_EQ(add_lora(net, {.rank = 2, .alpha = 6, .modules = {"*.q_proj", "mlp.*"}}), 4);
  EXPECT_EQ(values_of(net(input())), before) << "b is zero at first";
  std::vector<std::string> trained;
  for (const NamedParameter& each : net.named_parameters()) {
    if (autograd::requires_grad(each.parameter.leaf())) trained.push_back(each.path);
  }
  EXPECT_EQ(trained, (std::vector<std::string>{"attention.0.q_proj.lora_a", "attention.0.q_proj.lora_b",
                                               "mlp.gate_proj.lora_a", "mlp.gate_proj.lora_b", "mlp.up_proj.lora_a",
                                               "mlp.up_proj.lora_b", "mlp.down_proj.lora_a", "mlp.down_proj.lora_b"}));
  EXPECT_EQ(net.mlp.down_proj.state()->lora->a.shape(), (Shape{2, 12}));
  EXPECT_EQ(net.mlp.down_proj.state()->lora->b.shape(), (Shape{8, 2}));
}

TEST(Lora, MergedWeightsComputeTheSame) {
  ops::manual_seed(1);
  const Net net;
  const std::vector<float> before = values_of(net(input()));
  add_lora(net, {.rank = 3, .alpha = 6, .modules = {"*"}});
  fill(net);
  const std::vector<float> adapted = values_of(net(input()));
  EXPECT_NE(adapted, before);
  EXPECT_EQ(merge_lora(net), 7);
  for (const NamedParameter& each : net.named_parameters()) EXPECT_FALSE(is_lora_parameter(each.path)) << each.path;
  const std::vector<float> merged = values_of(net(input()));
  for (std::size_t i = 0; i < merged.size(); ++i)
    ASSERT_NEAR(merged[i], adapted[i], 1e-5 + 1e-5 * std::abs(adapted[i]));
  EXPECT_EQ(merge_lora(net), 0);
}

TEST(Lora, HasTheSameGradientsOnMeshes) {
  const auto gradients = [](const layout::Mesh& mesh) {
    const ShardingTable table = standard_sharding(mesh);
    ops::manual_seed(1);
    std::optional<Net> net;
    {
      const ShardingScope scope(mesh, table);
      net.emplace();
      add_lora(*net, {.rank = 2, .alpha = 1, .modules = {"*"}});
    }
    fill(*net);
    distribute(*net, mesh, table);
    const Tensor x =
        shard::distribute(input(), table.layout_of(mesh, {"batch", "", "embed"}, "x"), shard::DataOn::kEveryRank);
    const Tensor y = (*net)(x);
    autograd::backward(ops::sum(ops::mul(y, y)));
    std::vector<float> out;
    for (const NamedParameter& each : net->named_parameters()) {
      if (!is_lora_parameter(each.path)) {
        EXPECT_FALSE(autograd::grad(each.parameter.leaf())) << each.path << " is frozen";
        continue;
      }
      shard::reduce_gradients(std::vector{each.parameter.leaf()});
      const std::vector<float> values = values_of(autograd::grad(each.parameter.leaf()));
      out.insert(out.end(), values.begin(), values.end());
    }
    return out;
  };
  const std::vector<float> want = gradients(layout::Mesh());
  for (const char* text : {"tp=2", "fsdp=2", "fsdp=2,tp=2"}) {
    std::vector<float> got;
    simulate(static_cast<int>(layout::Mesh::parse(text).size()), [&] {
      std::vector<float> own = gradients(layout::Mesh::parse(text));
      if (current_place().rank == Rank(0)) got = std::move(own);
    });
    ASSERT_EQ(got.size(), want.size());
    double most = 0;
    for (const float value : want) most = std::max(most, std::abs(static_cast<double>(value)));
    EXPECT_GT(most, 0);
    for (std::size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(got[i], want[i], 1e-5 * most) << text << ", " << i;
  }
}

TEST(Lora, RefusesWhatHasNoMapOfItsOwn) {
  struct Tied : Layer<Tied> {
    Embedding table;
    Linear head;
    Tied() : table(add("table", Embedding(4, 8))), head(add("head", Linear(table.weight))) {}
  };
  const Tied tied;
  const auto refuses = [](const Module& model, const LoraOptions& options, const char* word) {
    expect_error<InvalidArgument>([&] { (void)add_lora(model, options); }, {word});
    for (const Tensor& leaf : model.parameters())
      EXPECT_TRUE(autograd::requires_grad(leaf)) << "bad input changes nothing";
  };
  refuses(tied, {.modules = {"head"}}, "must own its weight, got head, which shares it");
  refuses(tied, {.modules = {"body"}}, "must match paths of Linear modules, got 'body'");
  const Net net;
  refuses(net, {.rank = 0}, "rank and alpha must be positive, got 0");
  (void)add_lora(net, {.modules = {"mlp.up_proj"}});
  expect_error<InvalidArgument>([&] { (void)add_lora(net, {}); }, {"must have one adapter, got mlp.up_proj again"});
}

}  // namespace
}  // namespace tessera::nn
