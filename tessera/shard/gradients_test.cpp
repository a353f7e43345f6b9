// Gradients of sharded calls: partial ones stay partial, nothing is sent without a request, and errors name the
// location.
#include <gtest/gtest.h>

#include "tessera/autograd/autograd.h"
#include "tessera/base/error.h"
#include "tessera/base/testing/expect_error.h"
#include "tessera/comm/world.h"
#include "tessera/memory/label.h"
#include "tessera/ops/create/create.h"
#include "tessera/ops/matrix/matrix.h"
#include "tessera/ops/pointwise/activations.h"
#include "tessera/ops/pointwise/functions.h"
#include "tessera/ops/pointwise/pointwise.h"
#include "tessera/ops/reduce/reduce.h"
#include "tessera/shard/distribute.h"
#include "tessera/shard/redistribute.h"
#include "tessera/shard/scopes.h"
#include "tessera/shard/testing/all_ranks.h"

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

// A column-parallel and a row-parallel product, with the batch sharded by dp, summed.
Tensor model(const Tensor& x, const Tensor& up, const Tensor& down) {
  Tensor hidden = ops::relu(ops::sub(ops::mm(x, up), 9000));
  Tensor out = ops::mm(hidden, down);
  if (out.has_layout()) out = redistribute(out, on_grid("S0,R"));
  return ops::sum(ops::mul(out, out));
}

// Partial sums of the second run add up where those of the first are stored, on every rank.
TEST(Gradients, OfSecondRunsAreAddedInPlaceUnderTheirLayout) {
  Results results(4);
  testing::on_worlds(4, {1, 2}, [&] {
    const Tensor up = leaf(f64({6, 8}, "R,S1"));
    const Tensor down = leaf(f64({8, 3}, "R,S0"));
    const auto run = [&](const char* layout) { autograd::backward(model(f64({4, 6}, layout), up, down)); };
    const auto at = [](const Tensor& weight) { return autograd::grad(weight).local().data(); };
    run("S0,R");
    const std::byte* const places[] = {at(up), at(down)};
    EXPECT_EQ(collectives([&] { run("S0,R"); }), 1U) << "the one of forward";
    EXPECT_EQ(at(up), places[0]);
    EXPECT_EQ(at(down), places[1]);
    EXPECT_EQ(autograd::grad(up).layout(), on_grid("P,S1"));
    EXPECT_EQ(autograd::grad(down).layout(), on_grid("P,S0"));
    results.hand_in(0, autograd::grad(up));
    results.hand_in(1, autograd::grad(down));
    // A gradient under another layout is added in two steps.
    const Tensor other = leaf(f64({6, 8}, "R,S1"));
    autograd::set_grad(other, f64({6, 8}, "R,S1"));
    autograd::backward(ops::sum(ops::mm(f64({4, 6}, "S0,R"), other)));
    EXPECT_EQ(autograd::grad(other).layout(), on_grid("P,S1"));
    results.hand_in(2, autograd::grad(other));
  });
  const Tensor up = leaf(plain64({6, 8}));
  const Tensor down = leaf(plain64({8, 3}));
  const Tensor other = leaf(plain64({6, 8}));
  autograd::set_grad(other, plain64({6, 8}));
  for (int i = 0; i < 2; ++i) autograd::backward(model(plain64({4, 6}), up, down));
  autograd::backward(ops::sum(ops::mm(plain64({4, 6}), other)));
  EXPECT_EQ(results.wrong_with(0, read(autograd::grad(up)), 1e-9), "");
  EXPECT_EQ(results.wrong_with(1, read(autograd::grad(down)), 1e-9), "");
  EXPECT_EQ(results.wrong_with(2, read(autograd::grad(other)), 1e-9), "");
}

TEST(Gradients, OfATensorParallelBlockTalkOnlyWhereForwardMoved) {
  Results results(4);
  testing::on_worlds(4, {1, 2}, [&] {
    const Tensor x = f64({4, 6}, "S0,R");
    const Tensor up = leaf(f64({6, 8}, "R,S1"));
    const Tensor down = leaf(f64({8, 3}, "R,S0"));
    Tensor loss;
    EXPECT_EQ(collectives([&] { loss = model(x, up, down); }), 1U);
    EXPECT_EQ(loss.layout(), on_grid("P,R"));
    EXPECT_EQ(collectives([&] { autograd::backward(loss); }), 0U);  // the transpose of an all-reduce sends nothing
    EXPECT_EQ(autograd::grad(up).layout(), on_grid("P,S1"));        // partial over the batch
    EXPECT_EQ(autograd::grad(down).layout(), on_grid("P,S0"));
    results.hand_in(0, autograd::grad(up));
    results.hand_in(1, autograd::grad(down));
  });
  const Tensor up = leaf(plain64({6, 8}));
  const Tensor down = leaf(plain64({8, 3}));
  autograd::backward(model(plain64({4, 6}), up, down));
  EXPECT_EQ(ops::testing::difference(results.whole(0), read(autograd::grad(up)), 1e-9, on_grid("P,S1")), "");
  EXPECT_EQ(ops::testing::difference(results.whole(1), read(autograd::grad(down)), 1e-9, on_grid("P,S0")), "");
}

// w is replicated; one use yields a reduced gradient, the other a partial one.
Tensor two_uses(const Tensor& w, const Tensor& x) {
  return ops::add(ops::sum(ops::mul(w, w)), ops::sum(ops::mul(w, x)));
}

TEST(Gradients, WholeAndPendingOnesAddUpToAPendingOneWithoutAWord) {
  Results results(4);
  testing::on_worlds(4, {3}, [&] {
    const Tensor w = leaf(f64({4, 4}, "R,R"));
    const Tensor x = f64({4, 4}, "P,R");
    const Tensor squares = ops::sum(ops::mul(w, w));
    const Tensor products = ops::sum(ops::mul(w, x));
    EXPECT_EQ(products.layout(), on_grid("P,R"));
    EXPECT_EQ(collectives([&] {
                autograd::backward({squares, products}, {});
                EXPECT_EQ(autograd::grad(w).layout(), on_grid("P,R"));
                autograd::backward(ops::sum(ops::mul(w, w)));  // leaves accumulate
              }),
              0U);
    EXPECT_EQ(autograd::grad(w).layout(), on_grid("P,R"));
    results.hand_in(0, autograd::grad(w));
  });
  const Tensor w = leaf(plain64({4, 4}));
  autograd::backward(two_uses(w, plain64({4, 4})));
  autograd::backward(ops::sum(ops::mul(w, w)));
  EXPECT_EQ(ops::testing::difference(results.whole(0), read(autograd::grad(w)), 1e-9, on_grid("P,R")), "");
}

TEST(Gradients, OfSumsGoBackToTheCutsOfWhatWasSummed) {
  Results results(4);
  testing::on_worlds(4, {4}, [&] {
    const Tensor w = leaf(f64({6, 5}, "S0,S1"));
    EXPECT_EQ(collectives([&] { autograd::backward(ops::mean(ops::exp(ops::div(w, 50)))); }), 0U);
    EXPECT_EQ(autograd::grad(w).layout(), on_grid("S0,S1"));
    results.hand_in(0, autograd::grad(w));
  });
  const Tensor w = leaf(plain64({6, 5}));
  autograd::backward(ops::mean(ops::exp(ops::div(w, 50))));
  EXPECT_EQ(ops::testing::difference(results.whole(0), read(autograd::grad(w)), 1e-12, on_grid("S0,S1")), "");
}

TEST(Gradients, OfGradientsKeepTheirLayouts) {
  Results results(4);
  simulate(4, [&] {
    const Tensor w = leaf(f64({6, 5}, "S0,R"));
    const Tensor loss = ops::sum(ops::mul(ops::mul(w, w), w));
    const Tensor first = autograd::gradients({loss}, {w}, {}, {.create_graph = true})[0];
    autograd::backward(ops::sum(ops::mul(first, first)));
    results.hand_in(0, autograd::grad(w));
  });
  std::vector<double> want = counted({6, 5}).values;
  for (double& value : want) value = 36 * value * value * value;  // d/dw (3 w^2)^2
  EXPECT_EQ(ops::testing::difference(results.whole(0), {Shape({6, 5}), DType::kF64, want}, 1e-12, on_grid("S0,R")), "");
}

TEST(Gradients, ErrorsInBackwardNameTheForwardCall) {
  simulate(4, [] {
    const Tensor w = leaf(f64({6, 6}, "R,S1"));
    Tensor loss;
    {
      const memory::Label label("encoder");
      loss = ops::mul(w, w);
    }
    // A gradient sharded by rows, of a tensor sharded by columns.
    expect_error<InvalidArgument>(
        [&] {
          autograd::backward(loss, f64({6, 6}, "R,S0"));
        },
        {"must be redistributed to", "AutoRedistribute"});
    const Tensor x = f64({6, 6}, "R,P(max)");
    const Tensor y = leaf(f64({6, 6}, "R,R"));
    Tensor product;
    {
      const memory::Label label("decoder");
      const AutoRedistribute automatic;
      product = ops::mul(x, y);
    }
    const Tensor gradient = f64({6, 6}, "R,R");
    // The gradient of y needs the maximum, which no rank has alone.
    const ForbidCommunication forbidden;
    expect_error<InvalidArgument>([&] { autograd::backward(product, gradient); },
                                  {"mul", "in the gradient of mul (label 'decoder')"});
  });
}

TEST(Gradients, OfAPlainNumberAmongShardedTensorsAreWholeOrRefused) {
  simulate(4, [] {
    const Tensor scale = leaf(testing::plain({{}, DType::kF64, {2}}));
    const Tensor x = f64({4, 4}, "S0,R");
    expect_error<InvalidArgument>([&] { autograd::backward(ops::sum(ops::mul(x, scale))); },
                                  {"plain tensor", "replicate()", "in the gradient of mul"});
    const AutoRedistribute automatic;
    autograd::backward(ops::sum(ops::mul(x, scale)));
    EXPECT_FALSE(autograd::grad(scale).has_layout());
    double sum = 0;
    for (const double value : counted({4, 4}).values) sum += value;
    EXPECT_EQ(read(autograd::grad(scale)).values[0], sum);
  });
}

TEST(Gradients, ScopesHoldInBackward) {
  simulate(4, [] {
    const Tensor w = leaf(f64({8, 8}, "R,S0"));
    const Tensor whole = redistribute(w, on_grid("R,R"));
    const Tensor loss = ops::sum(ops::mul(whole, f64({8, 8}, "P,P")));
    const ForbidCommunication none;
    expect_error<NotSupported>([&] { autograd::backward(loss); }, {"ForbidCommunication", "in the gradient of"});
  });
}

TEST(Gradients, RanksOffTheMeshTakePart) {
  const Mesh mesh = Mesh::create({{"x", 2}}, Rank(1));
  simulate(3, [&] {
    const Tensor w = leaf(placed(counted({4, 4}, DType::kF64), Layout::create(mesh, {layout::Shard(0)})));
    autograd::backward(ops::sum(ops::mul(w, w)));
    const Tensor gradient = autograd::grad(w);
    EXPECT_EQ(gradient.shape(), Shape({4, 4}));
    EXPECT_EQ(static_cast<bool>(gradient.local()), static_cast<bool>(w.local()));
  });
}

}  // namespace
}  // namespace tessera::shard
