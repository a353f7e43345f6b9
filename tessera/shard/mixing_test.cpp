// Plain tensors among tensors with layouts, and values read from these: correct, or an error with a fix. The value of
// one rank is never taken for the global one.
#include <gtest/gtest.h>

#include "tessera/autograd/autograd.h"
#include "tessera/base/rank.h"
#include "tessera/base/testing/expect_error.h"
#include "tessera/comm/world.h"
#include "tessera/ops/create/create.h"
#include "tessera/ops/create/random.h"
#include "tessera/ops/pointwise/compare.h"
#include "tessera/ops/pointwise/pointwise.h"
#include "tessera/ops/reduce/host_values.h"
#include "tessera/ops/reduce/reduce.h"
#include "tessera/ops/shape/arrange.h"
#include "tessera/ops/shape/shape.h"
#include "tessera/shard/distribute.h"
#include "tessera/shard/redistribute.h"
#include "tessera/shard/scopes.h"
#include "tessera/shard/testing/all_ranks.h"

namespace tessera::shard {
namespace {

using layout::Layout;
using layout::Mesh;
using testing::counted;
using testing::placed;
using testing::Results;

Layout on_four(const char* text) { return Layout::parse(Mesh::parse("x=4"), text); }

TEST(Numbers, AreReadWhereTheyAreWhole) {
  simulate(4, [] {
    const Tensor x = placed(counted({6}, DType::kF64), on_four("S0"));
    const Tensor sum = ops::sum(x);
    expect_error<InvalidArgument>([&] { ops::item(sum); }, {"item", "Partial", "gather()"});
    expect_error<InvalidArgument>([&] { ops::item(ops::amax(x)); }, {"item", "Partial(max)", "gather()"});
    expect_error<InvalidArgument>([&] { ops::item(placed(counted({1}), on_four("S0"))); },
                                  {"item", "Shard", "gather()"});
    const Tensor whole = testing::plain(counted({6}, DType::kF64));
    const double want = ops::item(ops::sum(whole)).as_double();
    EXPECT_EQ(ops::item(redistribute(sum, on_four("R"))).as_double(), want);
    EXPECT_EQ(ops::item(gather(sum)).as_double(), want);
    EXPECT_EQ(ops::item(ops::norm(x)).as_double(), ops::item(ops::norm(whole)).as_double());
  });
}

TEST(Numbers, AreNoMatterOfRanksOffTheMesh) {
  simulate(3, [] {
    const Mesh mesh = Mesh::create({{"x", 2}}, Rank(1));
    const Tensor x = placed(counted({1}, DType::kF64), Layout::replicated(mesh));
    if (mesh.contains(current_place().rank)) {
      EXPECT_EQ(ops::item(x).as_double(), 1.0);
    } else {
      expect_error<InvalidArgument>([&] { ops::item(x); }, {"item", "this rank is not in the mesh of"});
    }
  });
}

TEST(Numbers, ComparisonsAreRightOrErrors) {
  simulate(4, [] {
    const Tensor sharding = placed(counted({6, 4}), on_four("S0"));
    const Tensor partial = placed(counted({6, 4}), on_four("P"));
    const Tensor whole = placed(counted({6, 4}), on_four("R"));
    // Only one rank has a different element: the others must not report equality.
    testing::Whole other = counted({6, 4});
    other.values[0] += 1;
    expect_error<InvalidArgument>([&] { ops::equal(sharding, placed(other, on_four("S0"))); }, {"item", "gather()"});
    expect_error<InvalidArgument>([&] { ops::allclose(sharding, placed(other, on_four("S0"))); }, {"item", "gather()"});
    expect_error<InvalidArgument>([&] { ops::equal(partial, partial); }, {"eq"});
    expect_error<InvalidArgument>([&] { ops::allclose(partial, partial); }, {});
    expect_error<InvalidArgument>([&] { ops::equal(sharding, testing::plain(counted({6, 4}))); }, {"replicate()"});
    EXPECT_TRUE(ops::equal(whole, whole));
    EXPECT_FALSE(ops::equal(whole, placed(other, on_four("R"))));
    EXPECT_TRUE(ops::allclose(whole, whole));
    EXPECT_TRUE(ops::equal(gather(sharding), gather(whole)));
    EXPECT_TRUE(ops::allclose(gather(partial), gather(whole)));
    const AutoRedistribute automatic;
    EXPECT_FALSE(ops::equal(redistribute(sharding, on_four("R")), placed(other, on_four("R"))));
  });
}

TEST(Constants, MixWithEveryLayout) {
  Results results(4);
  simulate(4, [&] {
    const char* layouts[] = {"S0", "S1", "R", "P"};
    const ForbidCommunication none;
    for (std::size_t l = 0; l < 4; ++l) {
      const Tensor x = placed(counted({5, 6}, DType::kF64), on_four(layouts[l]));
      const ops::CreateOptions f64{.dtype = DType::kF64};
      for (int pass = 0; pass < 2; ++pass) {
        results.hand_in(4 * l, ops::add(x, ops::arange(0, 6, 1, f64)));
        results.hand_in(4 * l + 1, ops::mul(ops::eye(5, 6, f64), x));
        results.hand_in(4 * l + 2, ops::add(x, ops::full({}, 2.5, f64)));
        results.hand_in(4 * l + 3, ops::mul(ops::ones({5, 1}, f64), x));
      }
    }
    EXPECT_EQ(shard_counts().automatic, 0U);
    EXPECT_EQ(shard_counts().collectives, 0U);
    EXPECT_GE(shard_counts().hits, 16U);
  });
  const Tensor x = testing::plain(counted({5, 6}, DType::kF64));
  const ops::CreateOptions f64{.dtype = DType::kF64};
  const Tensor want[] = {ops::add(x, ops::arange(0, 6, 1, f64)), ops::mul(ops::eye(5, 6, f64), x), ops::add(x, 2.5), x};
  ops::testing::wait_for_work();
  for (std::size_t i = 0; i < 16; ++i) {
    EXPECT_EQ(ops::testing::difference(results.whole(i), ops::testing::read(want[i % 4]), 1e-12, results.layout(i)), "")
        << i;
  }
}

TEST(Constants, AreNoneOnceWrittenOrLookedAtInPart) {
  simulate(4, [] {
    const Tensor x = placed(counted({6}), on_four("S0"));
    const Tensor zeros = ops::zeros({6});
    EXPECT_TRUE(zeros.is_constant());
    EXPECT_EQ(ops::add(x, zeros).layout(), on_four("S0"));
    ops::fill_(ops::narrow(zeros, 0, 2, 1), current_place().rank.value());
    EXPECT_FALSE(zeros.is_constant());
    expect_error<InvalidArgument>([&] { ops::add(x, zeros); }, {"plain tensor", "replicate()"});
    const Tensor counts = ops::arange(24, {.dtype = DType::kF32});
    const Tensor own = ops::narrow(counts, 0, 6 * current_place().rank.value(), 6);
    expect_error<InvalidArgument>([&] { ops::add(x, own); }, {"plain tensor", "replicate()"});
    expect_error<InvalidArgument>([&] { ops::add(x, ops::rand({6})); }, {"plain tensor", "replicate()"});
    expect_error<InvalidArgument>([&] { ops::add(x, ops::empty({6})); }, {"plain tensor", "replicate()"});
    expect_error<InvalidArgument>([&] { ops::add(x, ops::add(ops::ones({6}), 1)); }, {"plain tensor", "replicate()"});
  });
}

TEST(Constants, AreGradientsAndAreSavedForThem) {
  Results results(4);
  simulate(4, [&] {
    const Tensor x = placed(counted({5, 6}, DType::kF64), on_four("S1"));
    autograd::set_requires_grad(x, true);
    const Tensor y = ops::mul(x, ops::arange(1, 7, 1, {.dtype = DType::kF64}));
    results.hand_in(0, autograd::gradients({y}, {x}, {ops::ones({5, 6}, {.dtype = DType::kF64})})[0]);
    EXPECT_EQ(shard_counts().collectives, 0U);
  });
  for (std::size_t i = 0; i < 30; ++i) {
    EXPECT_EQ(results.whole(0).values[i], static_cast<double>(i % 6 + 1));
  }
}

}  // namespace
}  // namespace tessera::shard
