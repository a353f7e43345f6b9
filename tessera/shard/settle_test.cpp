// Reduction of partial gradients: in backward by settle(), for leaves by reduce_gradients().
#include <gtest/gtest.h>

#include "tessera/autograd/autograd.h"
#include "tessera/base/error.h"
#include "tessera/base/rank.h"
#include "tessera/base/testing/expect_error.h"
#include "tessera/comm/world.h"
#include "tessera/ops/matrix/matrix.h"
#include "tessera/ops/pointwise/pointwise.h"
#include "tessera/ops/reduce/reduce.h"
#include "tessera/shard/gradients.h"
#include "tessera/shard/redistribute.h"
#include "tessera/shard/scopes.h"
#include "tessera/shard/testing/all_ranks.h"
#include "tessera/shard/trace.h"

namespace tessera::shard {
namespace {

using layout::Layout;
using layout::Mesh;
using testing::collectives;
using testing::counted;
using testing::grid;
using testing::leaf;
using testing::on_grid;
using testing::placed;
using testing::read;
using testing::Results;
using testing::Whole;

Tensor f64(const Shape& shape, const char* layout) { return placed(counted(shape, DType::kF64), on_grid(layout)); }
Tensor plain64(const Shape& shape) { return testing::plain(counted(shape, DType::kF64)); }

TEST(Settle, LeavesTheValueAloneAndSumsUpItsGradientOnTheWayBack) {
  struct Case {
    std::vector<std::string> axes;
    const char* gradient;
    std::uint64_t launches;
  };
  const Case cases[] = {{{}, "R,R", 1}, {{"dp", "tp"}, "R,R", 1}, {{"dp"}, "R,P", 1}, {{"tp"}, "P,R", 1}};
  for (const Case& each : cases) {
    Results results(4);
    testing::on_worlds(4, {1}, [&] {
      const Tensor w = leaf(f64({4, 6}, "R,R"));
      const Tensor x = f64({4, 6}, "P,P");
      Tensor loss;
      EXPECT_EQ(collectives([&] {
                  const Tensor same = settle(w, each.axes);
                  EXPECT_EQ(same.layout(), w.layout());
                  EXPECT_EQ(same.local().data(), w.local().data());
                  loss = ops::sum(ops::mul(same, x));
                }),
                0U);
      EXPECT_EQ(collectives([&] { autograd::backward(loss); }), each.launches);
      EXPECT_EQ(autograd::grad(w).layout(), on_grid(each.gradient));
      results.hand_in(0, autograd::grad(w));
    });
    EXPECT_EQ(ops::testing::difference(results.whole(0), counted({4, 6}, DType::kF64), 1e-12, on_grid(each.gradient)),
              "");
  }
}

TEST(Settle, SendsNothingWhereNothingIsPending) {
  simulate(4, [] {
    const Tensor w = leaf(f64({4, 6}, "S0,R"));
    EXPECT_EQ(collectives([&] { autograd::backward(ops::sum(ops::mul(settle(w), f64({4, 6}, "S0,R")))); }), 0U);
    EXPECT_EQ(autograd::grad(w).layout(), on_grid("S0,R"));
    const Tensor untracked = f64({4, 6}, "R,R");
    EXPECT_TRUE(settle(untracked).is_same(untracked));
  });
}

TEST(Settle, IsDifferentiableTwice) {
  Results results(4);
  simulate(4, [&] {
    const Tensor w = leaf(f64({3, 4}, "R,R"));
    const Tensor x = leaf(f64({3, 4}, "P,R"));
    const Tensor loss = ops::sum(ops::mul(ops::mul(settle(w), w), x));
    const Tensor first = autograd::gradients({loss}, {w}, {}, {.create_graph = true})[0];
    autograd::backward(ops::sum(first));  // of 2 w x, with respect to x
    results.hand_in(0, autograd::grad(x));
  });
  Whole want = counted({3, 4}, DType::kF64);
  for (double& value : want.values) value *= 2;
  EXPECT_EQ(ops::testing::difference(results.whole(0), want, 1e-12, on_grid("R,R")), "");
}

TEST(Settle, SaysWhatItCannotDo) {
  simulate(4, [] {
    expect_error<InvalidArgument>([] { settle(f64({4}, "R,R"), {"pp"}); }, {"pp", "dp=2,tp=2"});
    expect_error<InvalidArgument>([] { settle(plain64({4})); }, {"settle", "no layout"});
    const Tensor w = leaf(f64({4}, "R,R"));
    const Tensor loss = ops::sum(ops::mul(settle(w), f64({4}, "P,R")));
    const ForbidCommunication none;
    expect_error<NotSupported>([&] { autograd::backward(loss); }, {"ForbidCommunication", "in the gradient of settle"});
  });
}

// Batch sharded by dp, products sharded by tp, and a replicated scale.
Tensor loss_of(const Tensor& x, const Tensor& scale, const Tensor& up, const Tensor& down, const Layout& settled) {
  Tensor out = ops::mm(ops::mm(ops::mul(x, scale), up), down);
  if (settled) out = redistribute(out, settled);
  return ops::mean(ops::mul(out, out));
}

TEST(ReduceGradients, SettlesAllInOneLaunchForEachKindAndGroup) {
  Results results(4);
  testing::on_worlds(4, {1, 2}, [&] {
    const Tensor x = f64({4, 6}, "S0,R");
    const std::vector<Tensor> params = {leaf(f64({6}, "R,R")), leaf(f64({6, 8}, "R,S1")), leaf(f64({8, 3}, "R,S0")),
                                        leaf(f64({5}, "R,R")), leaf(plain64({2}))};
    const auto run = [&] { autograd::backward(loss_of(x, params[0], params[1], params[2], on_grid("S0,R"))); };
    run();
    EXPECT_EQ(autograd::grad(params[0]).layout(), on_grid("P,P"));
    EXPECT_EQ(autograd::grad(params[1]).layout(), on_grid("P,S1"));
    EXPECT_EQ(autograd::grad(params[2]).layout(), on_grid("P,S0"));
    EXPECT_EQ(collectives([&] { reduce_gradients(params); }), 2U);  // over dp, and over dp and tp together
    EXPECT_EQ(collectives([&] { reduce_gradients(params); }), 0U);
    EXPECT_FALSE(autograd::grad(params[3]));
    EXPECT_FALSE(autograd::grad(params[4]));
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(autograd::grad(params[i]).layout(), params[i].layout());
      results.hand_in(i, autograd::grad(params[i]));
    }
    // Leaves continue to accumulate, and are reduced again.
    run();
    reduce_gradients(params);
    for (std::size_t i = 0; i < 3; ++i) results.hand_in(3 + i, autograd::grad(params[i]));
  });
  const std::vector<Tensor> params = {leaf(plain64({6})), leaf(plain64({6, 8})), leaf(plain64({8, 3}))};
  for (std::size_t round = 0; round < 2; ++round) {
    autograd::backward(loss_of(plain64({4, 6}), params[0], params[1], params[2], {}));
    for (std::size_t i = 0; i < 3; ++i) {
      const Whole got = results.whole(3 * round + i);
      EXPECT_EQ(ops::testing::difference(got, read(autograd::grad(params[i])), 1e-9, results.layout(i)), "") << i;
    }
  }
}

TEST(ReduceGradients, RanksOffTheMeshEnterNothing) {
  const Mesh mesh = Mesh::create({{"x", 2}}, Rank(1));
  simulate(3, [&] {
    const auto on_mesh = [&](const char* text) { return placed(counted({4}, DType::kF64), Layout::parse(mesh, text)); };
    const Tensor w = leaf(on_mesh("R"));
    autograd::backward(ops::sum(ops::mul(w, on_mesh("P"))));
    const std::uint64_t launches = collectives([&] { reduce_gradients({&w, 1}); });
    EXPECT_EQ(launches, mesh.contains(current_place().rank) ? 1U : 0U);
    EXPECT_EQ(autograd::grad(w).layout(), w.layout());
  });
}

TEST(ReduceGradients, IsRefusedWhereNothingMayBeSent) {
  simulate(4, [] {
    const Tensor w = leaf(f64({4}, "R,R"));
    autograd::backward(ops::sum(ops::mul(w, f64({4}, "P,R"))));
    {
      const ForbidCommunication none;
      expect_error<NotSupported>([&] { reduce_gradients({&w, 1}); }, {"ForbidCommunication"});
    }
    EXPECT_EQ(autograd::grad(w).layout(), on_grid("P,R")) << "nothing has changed";
  });
}

}  // namespace
}  // namespace tessera::shard
