// Gradients of redistributions: for any layouts of source, result and gradient, the gradient of the source is that of
// the result, as the same data at the dual layout of the source.
#include <gtest/gtest.h>

#include "tessera/autograd/autograd.h"
#include "tessera/autograd/function.h"
#include "tessera/base/rank.h"
#include "tessera/base/testing/expect_error.h"
#include "tessera/layout/testing/random_requests.h"
#include "tessera/ops/create/create.h"
#include "tessera/ops/pointwise/pointwise.h"
#include "tessera/shard/distribute.h"
#include "tessera/shard/redistribute.h"
#include "tessera/shard/scopes.h"
#include "tessera/shard/testing/all_ranks.h"

namespace tessera::shard {
namespace {

using layout::Layout;
using layout::Mesh;
using testing::counted;
using testing::on_worlds;
using testing::placed;
using testing::Results;
using testing::Whole;

Whole scaled(Whole whole, double by) {
  for (double& value : whole.values) value *= by;
  return whole;
}

// Pairs of layouts, each with a layout of the incoming gradient.
struct Case {
  layout::PlanRequest pair;
  Layout gradient;
};
std::vector<Case> random_cases(std::size_t count, std::uint64_t seed) {
  const layout::testing::RequestKind kind{
      .max_axes = 3, .uneven_percent = 40, .special_percent = 20, .partial_percent = 50};
  std::vector<Case> out;
  for (; out.size() < count; ++seed) {
    const layout::PlanRequest pair = layout::testing::random_request(seed, kind);
    if (pair.from.mesh().size() > 8 || pair.shape.numel() > 2048) continue;
    // Half of the time the layout of the result; otherwise another one, with partial sums where the result is partial.
    Layout gradient = layout::gradient_layout(pair.to);
    if (seed % 2 == 0) {
      std::mt19937_64 random(seed);
      layout::LayoutParts parts = layout::testing::random_layout(random, pair.from.mesh(), pair.shape, {}).parts();
      for (layout::PartialAxis& partial : parts.partials) partial.reduction = Reduction::kSum;
      gradient = Layout::create(pair.from.mesh(), parts);
    }
    try {  // the planner, which has separate tests, rejects layouts without a common refinement
      layout::Planner planner;
      (void)planner.plan({gradient, layout::gradient_layout(pair.from), pair.shape, 8});
    } catch (const Error&) {
      continue;
    }
    out.push_back({pair, gradient});
  }
  return out;
}

TEST(RedistributeGradient, IsTheSameDataAtTheDualLayout) {
  const std::vector<Case> cases = random_cases(200, 1);
  Results results(8);
  on_worlds(8, {3}, [&] {
    const AutoRedistribute moves;  // gradients arrive in any layout
    for (std::size_t i = 0; i < cases.size(); ++i) {
      const auto& [pair, layout] = cases[i];
      const Tensor x = placed(counted(pair.shape, DType::kF64), pair.from);
      autograd::set_requires_grad(x, true);
      const Tensor y = redistribute(x, pair.to);
      EXPECT_TRUE(y.is_tracked());
      const Tensor g = placed(scaled(counted(pair.shape, DType::kF64), 3), layout);
      const Tensor back = autograd::gradients({y}, {x}, {g})[0];
      EXPECT_EQ(back.layout(), layout::gradient_layout(pair.from));
      results.hand_in(i, back);
    }
  });
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const layout::PlanRequest& pair = cases[i].pair;
    const std::string wrong = ops::testing::difference(results.whole(i), scaled(counted(pair.shape, DType::kF64), 3),
                                                       1e-9, results.layout(i));
    EXPECT_EQ(wrong, "") << layout::testing::pair_text(pair) << " gradient " << cases[i].gradient.placements_text();
  }
}

TEST(RedistributeGradient, CanBeDifferentiatedItself) {
  const Mesh mesh = Mesh::parse("a=2,b=2");
  const Layout from = Layout::parse(mesh, "S0,P");
  const Layout to = Layout::parse(mesh, "R,S1");
  const Layout pending = Layout::parse(mesh, "P,S1");
  const Whole values = counted(Shape{4, 6}, DType::kF64);
  Results results(4);
  on_worlds(4, {1}, [&] {
    const Tensor x = placed(values, from);
    const Tensor g = placed(scaled(values, 2), pending);
    autograd::set_requires_grad(x, true);
    autograd::set_requires_grad(g, true);
    const Tensor y = redistribute(x, to);
    const Tensor back = autograd::gradients({y}, {x}, {g}, {.create_graph = true})[0];
    EXPECT_EQ(back.layout(), Layout::parse(mesh, "S0,R"));
    EXPECT_TRUE(back.is_tracked());
    const Tensor twice = autograd::gradients({back}, {g}, {placed(scaled(values, 5), back.layout())})[0];
    EXPECT_EQ(twice.layout(), Layout::parse(mesh, "R,S1"));
    results.hand_in(0, back);
    results.hand_in(1, twice);
  });
  EXPECT_EQ(ops::testing::difference(results.whole(0), scaled(values, 2), 1e-9, from), "");
  EXPECT_EQ(ops::testing::difference(results.whole(1), scaled(values, 5), 1e-9, from), "");
}

TEST(RedistributeGradient, MovesInTheDtypesAskedFor) {
  const Mesh mesh = Mesh::parse("x=2");
  const Layout sharding = Layout::parse(mesh, "S0");
  const Layout whole = Layout::parse(mesh, "R");
  on_worlds(2, {}, [&] {
    const Tensor x = placed(counted(Shape{4, 3}), sharding);
    autograd::set_requires_grad(x, true);
    const ShardCounts before = shard_counts();
    const Tensor y = redistribute(x, whole, {.forward_dtype = DType::kBF16, .backward_dtype = DType::kF64});
    EXPECT_EQ(y.dtype(), DType::kBF16);
    EXPECT_EQ(shard_counts().nbytes - before.nbytes, 6 * 2);
    const Tensor g = placed(counted(Shape{4, 3}, DType::kBF16), Layout::parse(mesh, "P"));
    const Tensor back = autograd::gradients({y}, {x}, {g})[0];
    EXPECT_EQ(back.dtype(), DType::kF32);
    EXPECT_EQ(back.layout(), sharding);
    EXPECT_EQ(shard_counts().nbytes - before.nbytes, 6 * 2 + 6 * 8);
  });
}

TEST(RedistributeGradient, OfAPlainScalarIsTakenAsReplicated) {
  const Mesh mesh = Mesh::parse("x=2");
  on_worlds(2, {}, [&] {
    const Tensor x = placed(counted(Shape{}), Layout::parse(mesh, "P"));
    autograd::set_requires_grad(x, true);
    const Tensor y = redistribute(x, Layout::parse(mesh, "R"));
    const Tensor back = autograd::gradients({y}, {x}, {ops::ones(Shape{})})[0];
    EXPECT_EQ(back.layout(), Layout::parse(mesh, "R"));
  });
}

// A function of sharded tensors that saves its input, as an operator would.
Tensor saving(const Tensor& x, std::vector<Tensor>& seen) {
  return autograd::apply_function(
      "saving",
      [](autograd::FunctionCall& call, const std::vector<Tensor>& inputs) -> std::vector<Tensor> {
        call.save({inputs[0]});
        return {inputs[0].detach()};
      },
      [&seen](autograd::FunctionCall& call, const std::vector<Tensor>& gradients) -> std::vector<Tensor> {
        seen.push_back(call.saved(0));
        return {gradients[0]};
      },
      {x})[0];
}

TEST(RedistributeGradient, WithRematKeepsTheSourceAndMovesAgain) {
  const Mesh mesh = Mesh::parse("x=4");
  const Layout sharding = Layout::parse(mesh, "S0");
  const Layout whole = Layout::parse(mesh, "R");
  const Whole values = counted(Shape{8, 3});
  Results results(4);
  on_worlds(4, {5}, [&] {
    for (const bool remat : {false, true}) {
      const Tensor w = placed(values, sharding);
      autograd::set_requires_grad(w, true);
      const ShardCounts before = shard_counts();
      std::vector<Tensor> seen;
      Tensor storage;
      Tensor y;
      {
        const Tensor gathered = redistribute(w, whole, {.remat = remat});
        storage = gathered.local();
        y = saving(gathered, seen);
      }
      EXPECT_EQ(shard_counts().collectives - before.collectives, 1U);
      const Tensor g = placed(values, whole);
      const Tensor back = autograd::gradients({y}, {w}, {g})[0];
      EXPECT_EQ(shard_counts().collectives - before.collectives, remat ? 2U : 1U);
      ASSERT_EQ(seen.size(), 1U);
      EXPECT_EQ(seen[0].local().data() == storage.data(), !remat);
      EXPECT_EQ(seen[0].layout(), whole);
      results.hand_in(remat ? 1 : 0, seen[0]);
    }
  });
  EXPECT_EQ(ops::testing::difference(results.whole(0), values, 0, whole), "");
  EXPECT_EQ(ops::testing::difference(results.whole(1), values, 0, whole), "");
}

TEST(RedistributeGradient, WithRematRefusesASourceThatWasChanged) {
  const Mesh mesh = Mesh::parse("x=2");
  on_worlds(2, {}, [&] {
    const Tensor w = placed(counted(Shape{4}), Layout::parse(mesh, "S0"));
    autograd::set_requires_grad(w, true);
    std::vector<Tensor> seen;
    const Tensor y = saving(redistribute(w, Layout::parse(mesh, "R"), {.remat = true}), seen);
    {
      const autograd::NoGrad no_grad;
      ops::add_(w.local(), Scalar(1));
    }
    const Tensor g = placed(counted(Shape{4}), Layout::parse(mesh, "R"));
    expect_error<InvalidArgument>([&] { (void)autograd::gradients({y}, {w}, {g}); },
                                  {"f32[4]", "remat", "changed in place", "version"});
  });
}

TEST(RedistributeGradient, OfManyTensorsIsOneLaunchToo) {
  const Mesh mesh = Mesh::parse("x=4");
  const Layout sharding = Layout::parse(mesh, "S0");
  const Layout whole = Layout::parse(mesh, "R");
  Results results(4);
  on_worlds(4, {2}, [&] {
    std::vector<Tensor> xs;
    std::vector<Tensor> gs;
    for (int i = 0; i < 3; ++i) {
      xs.push_back(placed(counted(Shape{5, i + 1}, DType::kF64), sharding));
      autograd::set_requires_grad(xs.back(), true);
      gs.push_back(placed(counted(Shape{5, i + 1}, DType::kF64), Layout::parse(mesh, "P")));
    }
    const ShardCounts before = shard_counts();
    const std::vector<Tensor> ys = redistribute(xs, std::vector<Layout>(3, whole));
    EXPECT_EQ(shard_counts().collectives - before.collectives, 1U);
    const std::vector<Tensor> backs = autograd::gradients(ys, xs, gs);
    EXPECT_EQ(shard_counts().collectives - before.collectives, 2U);
    for (std::size_t i = 0; i < 3; ++i) results.hand_in(i, backs[i]);
    // If no result has a gradient, the source has none.
    const std::vector<Tensor> again = redistribute(xs, std::vector<Layout>(3, whole));
    const std::vector<Tensor> some = autograd::gradients({again[1]}, xs, {gs[1]}, {.allow_unused = true});
    EXPECT_FALSE(some[0]);
    EXPECT_EQ(some[1].layout(), sharding);
  });
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(ops::testing::difference(
                  results.whole(i), counted(Shape{5, static_cast<std::int64_t>(i) + 1}, DType::kF64), 1e-9, sharding),
              "");
  }
}

}  // namespace
}  // namespace tessera::shard
