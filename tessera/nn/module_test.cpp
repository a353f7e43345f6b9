// Modules: names, sharing, state, modes, printing, observers.
#include "tessera/nn/module.h"

#include <gtest/gtest.h>

#include <array>
#include <sstream>
#include <string>
#include <vector>

#include "tessera/autograd/autograd.h"
#include "tessera/base/testing/expect_error.h"
#include "tessera/nn/checkpointing.h"
#include "tessera/nn/layers/dropout.h"
#include "tessera/nn/layers/embedding.h"
#include "tessera/nn/layers/linear.h"
#include "tessera/nn/layers/norm.h"
#include "tessera/nn/module_list.h"
#include "tessera/ops/create/create.h"
#include "tessera/ops/create/generator.h"
#include "tessera/ops/create/random.h"
#include "tessera/ops/pointwise/activations.h"
#include "tessera/ops/pointwise/pointwise.h"
#include "tessera/ops/reduce/host_values.h"
#include "tessera/ops/reduce/reduce.h"

namespace tessera::nn {
namespace {

struct Block : Layer<Block> {
  Linear up, down;
  explicit Block(std::int64_t width)
      : up(add("up", Linear(width, 2 * width))), down(add("down", Linear(2 * width, width))) {}
  [[nodiscard]] Tensor forward(const Tensor& x) const { return ops::add(x, down(ops::gelu(up(x)))); }
};

struct Net : Layer<Net> {
  Embedding table;
  ModuleList<Block> blocks;
  LayerNorm norm;
  Linear head;
  explicit Net(std::int64_t width = 4)
      : table(add("table", Embedding(7, width))),
        blocks(add("blocks", ModuleList<Block>(2, [&](std::int64_t) { return Block(width); }))),
        norm(add("norm", LayerNorm(width))),
        head(add("head", Linear(table.weight))) {}
  [[nodiscard]] Tensor forward(const Tensor& ids) const {
    Tensor x = table(ids);
    for (const Block& block : blocks) x = block(x);
    return head(norm(x));
  }
};

std::vector<std::string> paths_of(const Module& module) {
  std::vector<std::string> paths;
  for (const NamedParameter& each : module.named_parameters()) paths.push_back(each.path);
  return paths;
}

Tensor ids() { return ops::arange(5); }

TEST(Module, NamesParametersInTheOrderOfRegistrationAndSharedOnesOnce) {
  const Net net;
  EXPECT_EQ(paths_of(net),
            (std::vector<std::string>{"table.weight", "blocks.0.up.weight", "blocks.0.up.bias", "blocks.0.down.weight",
                                      "blocks.0.down.bias", "blocks.1.up.weight", "blocks.1.up.bias",
                                      "blocks.1.down.weight", "blocks.1.down.bias", "norm.weight", "norm.bias"}));
  EXPECT_EQ(net.parameter_count(), 7 * 4 + 2 * (4 * 8 + 8 + 8 * 4 + 4) + 8);
  EXPECT_TRUE(net.head.weight.is_same(net.table.weight));
  EXPECT_EQ(net.blocks[1].up.path(), "blocks.1.up");
  EXPECT_EQ(net.blocks[1].kind(), "Block");
  EXPECT_EQ(net.path(), "");
}

TEST(Module, CopiesShareTheirParameters) {
  const Net net;
  const Net copy = net;  // NOLINT(performance-unnecessary-copy-initialization): the copy is the test
  EXPECT_TRUE(copy.is_same(net));
  EXPECT_TRUE(copy.parameters()[3].is_same(net.parameters()[3]));
}

TEST(Module, RejectsNamesThatAreTakenOrNoNames) {
  struct Twice : Layer<Twice> {
    Twice() {
      add("a", Linear(1, 1));
      add("a", Linear(1, 1));
    }
  };
  expect_error<InvalidArgument>([] { (void)Twice(); }, {"Twice: names must be unique, got 'a' twice"});
  struct Dotted : Layer<Dotted> {
    Dotted() { parameter("a.b", {2}); }
  };
  expect_error<InvalidArgument>([] { (void)Dotted(); }, {"must not be empty or contain a dot, got 'a.b'"});
  struct Wrong : Layer<Wrong> {
    Wrong() { parameter("w", {2, 3}, {.meaning = {"embed"}}); }
  };
  expect_error<InvalidArgument>([] { (void)Wrong(); }, {"Wrong.w", "one meaning per dimension of [2, 3], got 1"});
}

TEST(Module, StateOfOneModelLoadsIntoAnother) {
  ops::manual_seed(1);
  const Net a;
  const Net b;
  EXPECT_FALSE(ops::equal(a(ids()), b(ids())));
  b.load_state_dict(a.state_dict());
  EXPECT_TRUE(ops::equal(a(ids()), b(ids())));
}

TEST(Module, StateThatDoesNotFitIsListedAndChangesNothing) {
  const Net net;
  std::vector<NamedTensor> state = Net().state_dict();
  const Tensor before = net.table.weight.leaf().clone();
  state[0].second = ops::ones({7, 5});
  state[1].first = "blocks.0.up.wieght";
  expect_error<InvalidArgument>([&] { net.load_state_dict(state); },
                                {"shape of table.weight: must be [7, 4], got [7, 5]",
                                 "missing: blocks.0.up.weight [8, 4]", "unknown: blocks.0.up.wieght [8, 4]"});
  EXPECT_TRUE(ops::equal(before, net.table.weight.leaf().detach()));
}

TEST(Module, DropoutIsActiveInTrainingMode) {
  const Dropout dropout(0.5);
  const Tensor x = ops::ones({64});
  EXPECT_FALSE(ops::equal(dropout(x), x));
  dropout.eval();
  EXPECT_FALSE(dropout.is_training());
  EXPECT_TRUE(ops::equal(dropout(x), x));
  EXPECT_THROW(Dropout(1), InvalidArgument);
}

TEST(Module, FrozenParametersHaveNoGradient) {
  const Net net;
  EXPECT_EQ(net.set_requires_grad("blocks.0.*", false), 4);
  EXPECT_EQ(net.set_requires_grad("nothing", false), 0);
  autograd::backward(ops::sum(net(ids())));
  EXPECT_FALSE(autograd::grad(net.blocks[0].up.weight.leaf()));
  EXPECT_TRUE(autograd::grad(net.blocks[1].up.weight.leaf()));
}

TEST(Module, ConvertsAllParameters) {
  const Net net;
  net.to(DType::kF64);
  for (const Tensor& leaf : net.parameters()) EXPECT_EQ(leaf.dtype(), DType::kF64);
  EXPECT_EQ(net(ids()).dtype(), DType::kF64);
  EXPECT_TRUE(net.head.weight.leaf().is_same(net.table.weight.leaf())) << "shared parameters stay shared";
  EXPECT_THROW(net.to(DType::kI32), InvalidArgument);
}

TEST(Module, PrintsItsTree) {
  std::ostringstream out;
  out << Net();
  const std::string text = out.str();
  for (const char* line : {"Net\n", "  table: Embedding\n", "    weight: f32[7, 4], 112 B\n", "  blocks: ModuleList\n",
                           "    1: Block\n", "      down: Linear\n", "        bias: f32[4], 16 B\n",
                           "    weight: f32[7, 4], 112 B, shared\n", "parameters, "}) {
    EXPECT_NE(text.find(line), std::string::npos) << line << "\n" << text;
  }
}

TEST(Module, ObserverReceivesEveryOutputByPath) {
  const Net net;
  std::vector<std::string> seen;
  net.set_observer([&](const std::string& path, const Tensor&) { seen.push_back(path); });
  (void)net(ids());
  EXPECT_EQ(seen, (std::vector<std::string>{"table", "blocks.0.up", "blocks.0.down", "blocks.0", "blocks.1.up",
                                            "blocks.1.down", "blocks.1", "norm", "head"}));
  net.set_observer({});
  (void)net(ids());
  EXPECT_EQ(seen.size(), 9u);
}

std::vector<Tensor> gradients_of(const Net& net) {
  autograd::backward(ops::sum(ops::sigmoid(net(ids()))));
  std::vector<Tensor> out;
  for (const Tensor& leaf : net.parameters()) {
    out.push_back(autograd::grad(leaf));
    autograd::set_grad(leaf, {});
  }
  return out;
}

TEST(Checkpointing, GivesTheSameGradients) {
  const Net net;
  const std::vector<Tensor> want = gradients_of(net);
  for (const char* pattern : {"blocks.*", "blocks.1.down", "norm", "*"}) {
    EXPECT_GT(set_checkpointing(net, pattern), 0) << pattern;
    const std::vector<Tensor> got = gradients_of(net);
    for (std::size_t i = 0; i < want.size(); ++i) EXPECT_TRUE(ops::equal(got[i], want[i])) << pattern << " " << i;
    clear_checkpointing(net);
  }
  expect_error<InvalidArgument>([&] { set_checkpointing(net, "block.*"); },
                                {"pattern must match the path of a module, got 'block.*'"});
}

TEST(Checkpointing, RepeatsTheModuleInBackwardAlone) {
  struct Counting : Layer<Counting> {
    std::shared_ptr<int> calls = std::make_shared<int>(0);
    Linear inner;
    Counting() : inner(add("inner", Linear(3, 3))) {}
    [[nodiscard]] Tensor forward(const Tensor& x) const {
      ++*calls;
      return inner(x);
    }
  };
  struct Outer : Layer<Outer> {
    Counting counting;
    Outer() : counting(add("counting", Counting())) {}
    [[nodiscard]] Tensor forward(const Tensor& x) const { return counting(x); }
  };
  const Outer outer;
  set_checkpointing(outer, "counting");
  const Tensor x = ops::ones({2, 3});
  autograd::set_requires_grad(x, true);
  const Tensor y = ops::sum(ops::sigmoid(outer(x)));
  EXPECT_EQ(*outer.counting.calls, 1);
  autograd::backward(y);
  EXPECT_EQ(*outer.counting.calls, 2);
  const autograd::NoGrad no_grad;
  (void)outer(x);
  EXPECT_EQ(*outer.counting.calls, 3) << "nothing is recorded without gradients";
}

}  // namespace
}  // namespace tessera::nn
