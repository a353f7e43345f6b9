// Tensors created with layouts are bitwise equal to those of one device.
#include "tessera/ops/create/create.h"

#include <gtest/gtest.h>

#include <functional>

#include "tessera/base/error.h"
#include "tessera/base/rank.h"
#include "tessera/base/testing/expect_error.h"
#include "tessera/comm/world.h"
#include "tessera/ops/create/generator.h"
#include "tessera/ops/create/random.h"
#include "tessera/ops/index/index.h"
#include "tessera/ops/nn/dropout.h"
#include "tessera/ops/pointwise/pointwise.h"
#include "tessera/shard/scopes.h"
#include "tessera/shard/testing/all_ranks.h"

namespace tessera::shard {
namespace {

using layout::Layout;
using layout::Mesh;
using testing::Results;
using testing::Whole;

struct Made {
  const char* name;
  std::function<Tensor(const Layout&)> sharded;
  std::function<Tensor()> single;
  int ndim = 2;
};

const Shape kShape = {7, 10};

std::vector<Made> all() {
  const auto filled = [](const std::function<void(const Tensor&)>& fill) {
    return std::pair<std::function<Tensor(const Layout&)>, std::function<Tensor()>>(
        [fill](const Layout& layout) {
          Tensor out = ops::empty(kShape, {.layout = layout});
          fill(out);
          return out;
        },
        [fill] {
          Tensor out = ops::empty(kShape);
          fill(out);
          return out;
        });
  };
  const auto uniform = filled([](const Tensor& x) { ops::uniform_(x, -2, 3); });
  const auto normal = filled([](const Tensor& x) { ops::normal_(x, 1, 3); });
  const auto flipped = filled([](const Tensor& x) { ops::bernoulli_(x, 0.7); });
  const auto truncated = filled([](const Tensor& x) { ops::trunc_normal_(x, 0, 1, -0.5, 0.5); });
  return {
      {"full", [](const Layout& l) { return ops::full(kShape, 2.5, {.layout = l}); },
       [] { return ops::full(kShape, 2.5); }},
      {"arange", [](const Layout& l) { return ops::arange(3, 40, 2, {.layout = l}); },
       [] { return ops::arange(3, 40, 2); }, 1},
      {"eye", [](const Layout& l) { return ops::eye(7, 10, {.layout = l}); }, [] { return ops::eye(7, 10); }},
      {"rand", [](const Layout& l) { return ops::rand(kShape, {.layout = l}); }, [] { return ops::rand(kShape); }},
      {"randn", [](const Layout& l) { return ops::randn(kShape, {.layout = l}); }, [] { return ops::randn(kShape); }},
      {"randint", [](const Layout& l) { return ops::randint(-5, 900, kShape, {.layout = l}); },
       [] { return ops::randint(-5, 900, kShape); }},
      {"bernoulli", [](const Layout& l) { return ops::bernoulli(kShape, 0.3, {.layout = l}); },
       [] { return ops::bernoulli(kShape, 0.3); }},
      {"randperm", [](const Layout& l) { return ops::randperm(23, {.layout = l}); }, [] { return ops::randperm(23); },
       1},
      {"uniform_", uniform.first, uniform.second},
      {"trunc_normal_", truncated.first, truncated.second},
      {"normal_", normal.first, normal.second},
      {"bernoulli_", flipped.first, flipped.second},
      {"rand_like", [](const Layout& l) { return ops::rand_like(ops::zeros(kShape, {.layout = l})); },
       [] { return ops::rand_like(ops::zeros(kShape)); }},
      {"bernoulli_like", [](const Layout& l) { return ops::bernoulli_like(ops::zeros(kShape, {.layout = l}), 0.2); },
       [] { return ops::bernoulli_like(ops::zeros(kShape), 0.2); }},
      {"trunc_normal", [](const Layout& l) { return ops::trunc_normal(kShape, 1, 2, 0, 3, {.layout = l}); },
       [] {
         Tensor out = ops::empty(kShape);
         ops::trunc_normal_(out, 1, 2, 0, 3);
         return out;
       }},
      {"dropout", [](const Layout& l) { return ops::dropout(ops::ones(kShape, {.layout = l}), 0.4); },
       [] { return ops::dropout(ops::ones(kShape), 0.4); }},
      {"randn_like", [](const Layout& l) { return ops::randn_like(ops::zeros(kShape, {.layout = l})); },
       [] { return ops::randn_like(ops::zeros(kShape)); }},
  };
}

Layout layout_for(const Mesh& mesh, std::size_t number, int ndim) {
  std::vector<layout::Placement> placements;
  for (int a = 0; a < mesh.ndim(); ++a) {
    const auto dim = static_cast<int>(number % static_cast<std::size_t>(ndim + 1));
    number /= static_cast<std::size_t>(ndim + 1);
    placements.push_back(dim == ndim ? layout::Replicate() : layout::Shard(dim));
  }
  return Layout::create(mesh, placements);
}

TEST(Creation, GivesTheValuesOfOneDeviceUnderEveryLayout) {
  ops::manual_seed(11);
  std::vector<Whole> want;
  for (const Made& made : all()) {
    const Tensor tensor = made.single();
    ops::testing::wait_for_work();
    want.push_back(ops::testing::read(tensor));
  }
  for (const char* text : {"x=2", "x=4", "x=2,y=2", "x=2,y=4"}) {
    const Mesh mesh = Mesh::parse(text);
    const auto layouts = mesh.ndim() == 1 ? 3U : 9U;
    Results results(static_cast<int>(mesh.size()));
    simulate(static_cast<int>(mesh.size()), [&] {
      for (std::size_t l = 0; l < layouts; ++l) {
        ops::manual_seed(11);
        const std::vector<Made> made = all();
        for (std::size_t m = 0; m < made.size(); ++m) {
          const Tensor tensor = made[m].sharded(layout_for(mesh, l, made[m].ndim));
          results.hand_in(l * made.size() + m, tensor);
        }
      }
      EXPECT_EQ(shard_counts().collectives, 0U);
    });
    for (std::size_t l = 0; l < layouts; ++l) {
      for (std::size_t m = 0; m < want.size(); ++m) {
        const Whole got = results.whole(l * want.size() + m);
        EXPECT_EQ(got.values, want[m].values) << all()[m].name << " " << results.layout(l * want.size() + m).text();
        EXPECT_EQ(got.dtype, want[m].dtype) << all()[m].name;
      }
    }
  }
}

// Replicated distributions need no communication; sharded ones cooperate or are redistributed on request.
TEST(Creation, MultinomialDrawsWhatOneDeviceDraws) {
  Whole weights = testing::counted(kShape);
  const auto draw = [&](const Tensor& p, bool with_replacement) {
    ops::manual_seed(5);
    return ops::multinomial(p, 6, with_replacement);
  };
  std::vector<Whole> want;
  for (const bool with_replacement : {false, true}) {
    const Tensor drawn = draw(testing::plain(weights), with_replacement);
    ops::testing::wait_for_work();
    want.push_back(ops::testing::read(drawn));
  }
  const Mesh mesh = Mesh::parse("x=2,y=2");
  const std::vector<const char*> whole = {"R,R", "S0,R", "R,S0", "S0,S0"};
  const std::vector<const char*> sharding = {"S1,R", "S0,S1", "S1,S1"};
  Results results(4);
  simulate(4, [&] {
    std::size_t number = 0;
    const auto hand_in = [&](const char* text, bool with_replacement) {
      results.hand_in(number++, draw(testing::placed(weights, Layout::parse(mesh, text)), with_replacement));
    };
    for (const char* text : whole) {
      for (const bool with_replacement : {false, true}) hand_in(text, with_replacement);
    }
    EXPECT_EQ(shard_counts().collectives, 0U);
    for (const char* text : sharding) {
      hand_in(text, false);
      const AutoRedistribute automatic;
      hand_in(text, true);
    }
  });
  for (std::size_t number = 0; number < 2 * (whole.size() + sharding.size()); ++number) {
    EXPECT_EQ(results.whole(number).values, want[number % 2].values) << results.layout(number).text() << number;
  }
}

TEST(Creation, DrawsTheSameOnRanksOffTheMesh) {
  simulate(3, [] {
    const Mesh mesh = Mesh::create({{"x", 2}}, Rank(1));
    const Tensor x = ops::rand({4, 4}, {.layout = Layout::create(mesh, {layout::Shard(0)})});
    EXPECT_EQ(static_cast<bool>(x.local()), mesh.contains(current_place().rank));
    ops::dropout(x, 0.5);
    EXPECT_EQ(ops::generator_state().call, 2U);
  });
}

TEST(Creation, ACounterInScopeCountsUnderLayoutsToo) {
  const auto local_of = [](const Tensor& tensor) {
    ops::testing::wait_for_work();
    return ops::testing::read(tensor.local()).values;
  };
  simulate(2, [&] {
    const Layout layout = Layout::create(Mesh::parse("x=2"), {layout::Shard(0)});
    ops::set_generator_state({.seed = 5, .call = 3});
    const auto want = local_of(ops::rand({4, 4}, {.layout = layout}));
    const auto other = local_of(ops::dropout(ops::full({4, 4}, 1, {.layout = layout}), 0.5));
    ops::set_generator_state({.seed = 5, .call = 0});
    const ops::GeneratorCounterScope scope(ops::full({}, 3, {.dtype = DType::kI64}));
    EXPECT_EQ(local_of(ops::rand({4, 4}, {.layout = layout})), want);
    EXPECT_EQ(local_of(ops::dropout(ops::full({4, 4}, 1, {.layout = layout}), 0.5)), other);
  });
}

TEST(Creation, RefusesPartialLayouts) {
  const Mesh mesh = Mesh::parse("x=2");
  expect_error<InvalidArgument>([&] { ops::zeros({4}, {.layout = Layout::parse(mesh, "P")}); },
                                {"must not be partial"});
  expect_error<InvalidArgument>([&] { ops::zeros({4}, {.layout = Layout::parse(mesh, "S1")}); }, {"dimension"});
  const Tensor pending = Tensor::sharded({4}, DType::kF32, Layout::parse(mesh, "P"), ops::zeros({4}));
  expect_error<InvalidArgument>([&] { ops::fill_(pending, 1); }, {"full", "keeps its layout"});
  ops::mul_(pending, 0);
}

}  // namespace
}  // namespace tessera::shard
