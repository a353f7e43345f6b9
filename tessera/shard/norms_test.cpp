// Norms over lists of tensors with layouts: every shard counts once, one launch, equal results on every rank.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tessera/base/error.h"
#include "tessera/base/rank.h"
#include "tessera/base/testing/expect_error.h"
#include "tessera/comm/world.h"
#include "tessera/ops/update/update.h"
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
using testing::on_grid;
using testing::placed;
using testing::Results;
using Tensors = std::vector<Tensor>;

struct Member {
  Shape shape;
  Layout layout;
  DType dtype = DType::kF64;
};
Tensors list_of(const std::vector<Member>& members) {
  Tensors out;
  for (const Member& each : members) out.push_back(placed(counted(each.shape, each.dtype), each.layout));
  return out;
}
constexpr double kInfinity = std::numeric_limits<double>::infinity();

double norm_of(const std::vector<Member>& members, double p = 2) {
  double sum = 0;
  double most = 0;
  for (const Member& each : members) {
    for (const double value : counted(each.shape).values) {
      sum += std::pow(value, p);
      most = std::max(most, value);
    }
  }
  return p == kInfinity ? most : std::pow(sum, 1 / p);
}

// Expects the norm of all on every rank, with this many launches.
void expect_norm(const std::vector<Member>& members, int ranks, const Mesh& on, std::uint64_t launches, double p = 2) {
  Results results(ranks);
  testing::on_worlds(ranks, {1}, [&] {
    ops::GradNorm found;
    const bool is_there = on.contains(current_place().rank);
    EXPECT_EQ(collectives([&] { found = ops::grad_norm(list_of(members), 2, p); }), is_there ? launches : 0U);
    EXPECT_EQ(found.norm.layout(), Layout::replicated(on));
    EXPECT_EQ(static_cast<bool>(found.norm.local()), is_there);
    results.hand_in(0, found.norm);
    results.hand_in(1, found.factor);
  });
  const double want = norm_of(members, p);
  EXPECT_NEAR(results.whole(0).values.at(0), want, want * 1e-12);
  EXPECT_NEAR(results.whole(1).values.at(0), 2 / want, 1e-12);
}

TEST(ListNorms, CountEveryPartOnceWhateverTheCuts) {
  for (const char* text : {"S0,R", "R,S0", "S0,S0", "S0,S1", "S1,S0"}) {
    SCOPED_TRACE(text);
    expect_norm({{{5, 3}, on_grid(text)}}, 4, grid(), 1);
    expect_norm({{{5, 3}, on_grid(text)}, {{7, 2}, on_grid("R,R")}}, 4, grid(), 1);
  }
  expect_norm({{{8, 6}, on_grid("S0,R")}, {{5}, on_grid("R,S0")}, {{3}, on_grid("S0,S0")}, {{4}, on_grid("R,R")}}, 4,
              grid(), 1);
}

TEST(ListNorms, AreOfAnyKind) {
  for (const double p : {1.0, 3.0, kInfinity}) {
    SCOPED_TRACE(p);
    expect_norm({{{5, 3}, on_grid("S0,R")}, {{7, 2}, on_grid("R,R")}, {{3}, on_grid("R,S0")}}, 4, grid(), 1, p);
    expect_norm({{{5, 3}, on_grid("R,R")}}, 4, grid(), 0, p);
  }
  simulate(4, [] {
    const Tensor sharding = placed(counted({8, 4}), on_grid("R,S0"));
    for (const double p : {0.0, -kInfinity}) {
      expect_error<InvalidArgument>([&] { ops::grad_norm({&sharding, 1}, 1, p); }, {"grad_norm", "p must be positive"});
    }
  });
}

TEST(ListNorms, OfWholeTensorsNeedNoWord) { expect_norm({{{5, 3}, on_grid("R,R")}}, 4, grid(), 0); }

TEST(ListNorms, CountPartsOfAxesOnce) {
  const Mesh mesh = Mesh::parse("x=4");
  layout::LayoutParts half;  // sharded by the major half of x, replicated along the minor half
  half.dims.push_back({{{{0, 1, 2}}}});
  layout::LayoutParts other;  // the opposite
  other.dims.push_back({{{{0, 2, 2}}}});
  expect_norm(
      {{{6, 2}, Layout::create(mesh, half)}, {{5}, Layout::create(mesh, other)}, {{4}, Layout::parse(mesh, "S0")}}, 4,
      mesh, 1);
}

TEST(ListNorms, GoOverSeveralMeshesWithOneLaunch) {
  const Mesh line = Mesh::parse("ep=4");
  const Mesh upper = Mesh::create({{"x", 2}}, Rank(2));
  const Member dense = {{8, 6}, on_grid("S0,R")};
  const Member expert = {{9, 2}, Layout::parse(line, "S0")};
  const Member stage = {{5, 5}, Layout::parse(upper, "S1")};
  const Member whole = {{3}, Layout::parse(upper, "R")};
  expect_norm({dense, expert}, 4, grid(), 1);
  expect_norm({stage, dense, whole, expert}, 4, grid(), 1);
  simulate(4, [&] {
    const Mesh lower = Mesh::create({{"x", 2}}, Rank(0));
    const Tensors apart = list_of({stage, {{4}, Layout::parse(lower, "S0")}});
    expect_error<InvalidArgument>([&] { ops::grad_norm(apart, 1); },
                                  {"grad_norm", "must contain the ranks of all others"});
  });
}

TEST(ListNorms, OfRanksOffTheMeshAreWithoutAPart) {
  const Mesh mesh = Mesh::create({{"x", 2}}, Rank(1));
  expect_norm({{{5, 3}, Layout::parse(mesh, "S0")}, {{4}, Layout::parse(mesh, "R")}}, 4, mesh, 1);
}

TEST(ListNorms, ClippingScalesEveryTensorByTheFactorOfAll) {
  const Mesh line = Mesh::parse("ep=4");
  const std::vector<Member> members = {{{8, 6}, on_grid("S0,R"), DType::kF32},
                                       {{5}, on_grid("R,R"), DType::kF32},
                                       {{9}, Layout::parse(line, "S0"), DType::kF32}};
  Results results(4);
  testing::on_worlds(4, {3}, [&] {
    const Tensors grads = list_of(members);
    EXPECT_EQ(collectives([&] { results.hand_in(3, ops::clip_grad_norm_(grads, 1)); }), 1U);
    for (std::size_t i = 0; i < grads.size(); ++i) {
      EXPECT_EQ(grads[i].layout(), members[i].layout);
      results.hand_in(i, grads[i]);
    }
  });
  const double norm = norm_of(members);
  EXPECT_NEAR(results.whole(3).values.at(0), norm, norm * 1e-6);
  EXPECT_EQ(results.whole(3).dtype, DType::kF32);
  for (std::size_t i = 0; i < members.size(); ++i) {
    ops::testing::Whole want = counted(members[i].shape);
    for (double& value : want.values) value /= norm;
    EXPECT_EQ(ops::testing::difference(results.whole(i), want, 1e-6, members[i].layout), "");
  }
}

TEST(ListNorms, OfEachTensorAreAddedUpInOneLaunch) {
  const std::vector<Member> members = {{{8, 6}, on_grid("S0,R"), DType::kF32},
                                       {{5}, on_grid("R,S0"), DType::kF64},
                                       {{4}, on_grid("R,R"), DType::kBF16},
                                       {{2}, on_grid("S0,S0"), DType::kF32}};
  for (const double p : {2.0, 1.0, kInfinity}) {
    Results results(4);
    testing::on_worlds(4, {4}, [&] {
      Tensors norms;
      EXPECT_EQ(collectives([&] { norms = ops::foreach_norm(list_of(members), p); }), 1U);
      for (std::size_t i = 0; i < norms.size(); ++i) results.hand_in(i, norms[i]);
    });
    for (std::size_t i = 0; i < members.size(); ++i) {
      const double want = norm_of({members[i]}, p);
      EXPECT_NEAR(results.whole(i).values.at(0), want, want * 1e-6) << p;
      EXPECT_EQ(results.whole(i).dtype, members[i].dtype == DType::kF64 ? DType::kF64 : DType::kF32);
      EXPECT_EQ(results.layout(i), on_grid("R,R"));
    }
  }
}

TEST(ListNorms, RefuseWhatTheyCannotTell) {
  simulate(4, [] {
    const Tensor sharding = placed(counted({8, 4}), on_grid("R,S0"));
    const Tensors pending = {sharding, placed(counted({6}), on_grid("P,R"))};
    expect_error<InvalidArgument>([&] { ops::grad_norm(pending, 1); },
                                  {"grads[1]", "partial value", "reduce_gradients()", "AutoRedistribute"});
    const Tensors plain = {sharding, testing::plain(counted({6}))};
    expect_error<InvalidArgument>([&] { ops::grad_norm(plain, 1); }, {"grads[1] must have a layout", "replicate()"});
    const ForbidCommunication none;
    expect_error<NotSupported>([&] { ops::grad_norm({&sharding, 1}, 1); }, {"grad_norm", "ForbidCommunication"});
    const Tensor whole = placed(counted({8, 4}), on_grid("R,R"));
    EXPECT_EQ(ops::grad_norm({&whole, 1}, 1).norm.layout(), on_grid("R,R"));
  });
}

TEST(ListNorms, SettleWhatIsPendingInsideOfAutoRedistribute) {
  Results results(4);
  testing::on_worlds(4, {5}, [&] {
    const Tensors pending = {placed(counted({8, 4}, DType::kF64), on_grid("R,S0")),
                             placed(counted({6}, DType::kF64), on_grid("P,R")),
                             placed(counted({3}, DType::kF64), on_grid("P,R"))};
    const TraceLayouts trace;
    const AutoRedistribute automatic;
    results.hand_in(0, ops::grad_norm(pending, 1).norm);
    EXPECT_EQ(trace.counts().collectives, 2U);  // both gradients in one, then the squares
    EXPECT_EQ(trace.counts().automatic, 2U);
    ASSERT_EQ(trace.events().size(), 4U);
    EXPECT_EQ(trace.events()[2].text(), "grad_norm cooperates over tp: 8 B");
  });
  const double want = norm_of({{{8, 4}, {}}, {{6}, {}}, {{3}, {}}});
  EXPECT_NEAR(results.whole(0).values.at(0), want, want * 1e-12);
}

}  // namespace
}  // namespace tessera::shard
