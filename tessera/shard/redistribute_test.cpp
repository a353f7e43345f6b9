// Redistribution: for any pair of layouts, the data equals that of direct distribution, and the number of launches is
// that of the plan.
#include "tessera/shard/redistribute.h"

#include <gtest/gtest.h>

#include "tessera/autograd/autograd.h"
#include "tessera/base/error.h"
#include "tessera/base/rank.h"
#include "tessera/base/testing/expect_error.h"
#include "tessera/comm/world.h"
#include "tessera/layout/testing/random_requests.h"
#include "tessera/ops/pointwise/pointwise.h"
#include "tessera/shard/detail/run_plans.h"
#include "tessera/shard/scopes.h"
#include "tessera/shard/testing/all_ranks.h"
#include "tessera/tensor/device_context.h"

namespace tessera::shard {
namespace {

using layout::Layout;
using layout::Mesh;
using testing::counted;
using testing::on_worlds;
using testing::placed;
using testing::Results;
using testing::Whole;

// Requests on meshes of at most 8 ranks.
std::vector<layout::PlanRequest> requests(std::size_t count, const layout::testing::RequestKind& kind,
                                          std::uint64_t seed) {
  std::vector<layout::PlanRequest> out;
  for (; out.size() < count; ++seed) {
    layout::PlanRequest request = layout::testing::random_request(seed, kind);
    if (request.from.mesh().size() <= 8 && request.shape.numel() <= 4096) out.push_back(std::move(request));
  }
  return out;
}

std::uint64_t communications(const layout::Plan& plan) {
  std::uint64_t count = 0;
  for (const layout::Step& step : plan.steps) count += layout::communicates(step.kind) ? 1 : 0;
  return count;
}

void expect_moves(const std::vector<layout::PlanRequest>& pairs, DType dtype, const std::vector<std::uint64_t>& seeds) {
  Results results(8);
  on_worlds(8, seeds, [&] {
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      const layout::PlanRequest& pair = pairs[i];
      const Tensor x = placed(counted(pair.shape, dtype), pair.from);
      const ShardCounts before = shard_counts();
      const Tensor moved = redistribute(x, pair.to);
      const ShardCounts after = shard_counts();
      const auto plan = planner().plan({pair.from, pair.to, pair.shape, static_cast<std::int64_t>(itemsize(dtype))});
      const bool is_on_mesh = pair.from.mesh().contains(current_place().rank);
      EXPECT_EQ(after.collectives - before.collectives, is_on_mesh ? communications(*plan) : 0);
      EXPECT_EQ(after.nbytes - before.nbytes, is_on_mesh ? static_cast<std::uint64_t>(plan->nbytes) : 0);
      EXPECT_EQ(moved.layout(), pair.to);
      EXPECT_EQ(static_cast<bool>(moved.local()), is_on_mesh);
      results.hand_in(i, moved);
    }
  });
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const std::string wrong =
        ops::testing::difference(results.whole(i), counted(pairs[i].shape, dtype), 1e-4, pairs[i].to);
    EXPECT_EQ(wrong, "") << layout::testing::pair_text(pairs[i]);
  }
}

TEST(Redistribute, EvenPairsGiveTheSameData) { expect_moves(requests(150, {.max_axes = 3}, 1), DType::kF32, {7}); }
TEST(Redistribute, UnevenPairsGiveTheSameData) {
  expect_moves(requests(150, {.max_axes = 3, .uneven_percent = 100}, 1000), DType::kF32, {8});
}
TEST(Redistribute, PairsWithBlocksSizesAndPartsOfAxesGiveTheSameData) {
  expect_moves(requests(150, {.max_axes = 3, .uneven_percent = 30, .special_percent = 100}, 2000), DType::kF32, {9});
}
TEST(Redistribute, PartialPairsGiveTheSameData) {
  expect_moves(requests(150, {.max_axes = 3, .uneven_percent = 30, .partial_percent = 90}, 3000), DType::kF64, {10});
}

TEST(Redistribute, MovesAllDtypes) {
  const Mesh mesh = Mesh::parse("a=2,b=4");
  const auto pair = [&](const char* from, const char* to, const Shape& shape) {
    return layout::PlanRequest{Layout::parse(mesh, from), Layout::parse(mesh, to), shape};
  };
  const std::vector<layout::PlanRequest> moves = {
      pair("S0,S1", "R,R", {6, 5}), pair("S0,R", "S1,S0", {6, 5}),     pair("R,R", "S1,S0", {6, 5}),
      pair("R,S0", "S0,R", {8, 2}), pair("P(max),S0", "R,S1", {6, 5}), pair("P(min),P(min)", "S0,R", {7})};
  // Shards of partial values are invented beyond the range of the small dtypes.
  const std::vector<layout::PlanRequest> small = {pair("S0,S1", "R,R", {6, 5}), pair("S0,R", "S1,S0", {6, 5}),
                                                  pair("R,R", "P(max),S0", {6, 5})};
  for (const DType dtype : {DType::kBool, DType::kU8}) expect_moves(small, dtype, {});
  for (const DType dtype : {DType::kI32, DType::kI64}) expect_moves(moves, dtype, {});
  const std::vector<layout::PlanRequest> sums = {pair("S0,S1", "R,R", {6, 5}), pair("P,P", "R,R", {6, 5}),
                                                 pair("P,S0", "S0,S1", {5, 4}), pair("P,P", "S0,S1", {3, 4})};
  for (const DType dtype : {DType::kI64, DType::kF64, DType::kC64}) expect_moves(sums, dtype, {});
}

// Sum along one axis and mean along the other, together.
TEST(Redistribute, SettlesSumsAndMeansTogether) {
  const Mesh mesh = Mesh::parse("a=2,b=3");
  const std::vector<layout::PlanRequest> pairs = {
      {Layout::parse(mesh, "P,P(avg)"), Layout::parse(mesh, "R,R"), Shape{5, 4}},
      {Layout::parse(mesh, "P(avg),P"), Layout::parse(mesh, "S0,S1"), Shape{5, 4}},
      {Layout::parse(mesh, "P(avg),P(avg)"), Layout::parse(mesh, "S1,R"), Shape{5, 4}}};
  for (const DType dtype : {DType::kF32, DType::kF64, DType::kC64}) expect_moves(pairs, dtype, {});
  on_worlds(6, {}, [&] {
    const Tensor x = placed(counted(Shape{4}, DType::kI64), Layout::parse(mesh, "P,R"));
    const Tensor mixed = Tensor::sharded(x.shape(), DType::kI64, Layout::parse(mesh, "P,P(avg)"), x.local());
    expect_error<NotSupported>([&] { (void)redistribute(mixed, Layout::parse(mesh, "R,R")); }, {"i64", "cast"});
  });
}

// An axis of 4 shards 5 rows unevenly; its minor half shards columns: no step leads from one to the other.
TEST(Redistribute, JoinsLayoutsWithoutCommonGroundByTheWhole) {
  const Mesh mesh = Mesh::parse("x=4");
  const Layout sharding = Layout::parse(mesh, "S0");
  const Layout halves = Layout::create(mesh, {.dims = {{}, {.shardings = {{{0, 2, 2}}}}}, .partials = {}});
  const Whole values = counted(Shape{5, 6});
  Results results(4);
  on_worlds(4, {1}, [&] {
    const Tensor x = placed(values, sharding);
    autograd::set_requires_grad(x, true);
    const Tensor y = redistribute(x, halves);
    EXPECT_EQ(y.layout(), halves);
    results.hand_in(0, y);
    const Tensor back = autograd::gradients({y}, {x}, {placed(values, halves)})[0];
    EXPECT_EQ(back.layout(), sharding);
    results.hand_in(1, back);
  });
  for (const std::size_t n : {0, 1}) EXPECT_EQ(results.wrong_with(n, values, 0), "");
}

TEST(Redistribute, OfNothingAndOfScalarsWorks) {
  const Mesh mesh = Mesh::parse("x=4");
  expect_moves({{Layout::parse(mesh, "S0"), Layout::parse(mesh, "R"), Shape{0, 3}},
                {Layout::parse(mesh, "S0"), Layout::parse(mesh, "S1"), Shape{0, 3}},
                {Layout::parse(mesh, "S0"), Layout::parse(mesh, "S1"), Shape{1, 1}},
                {Layout::parse(mesh, "P"), Layout::parse(mesh, "S0"), Shape{2, 3}},
                {Layout::parse(mesh, "P"), Layout::parse(mesh, "R"), Shape{}},
                {Layout::parse(mesh, "R"), Layout::parse(mesh, "P"), Shape{}}},
               DType::kF64, {});
}

// A shard that is a view of a larger tensor is made dense first.
TEST(Redistribute, TakesPartsThatAreNotDense) {
  const Mesh mesh = Mesh::parse("x=2");
  const Whole values = counted(Shape{4, 6});
  Results results(2);
  on_worlds(2, {1}, [&] {
    const Tensor part = placed(values, Layout::parse(mesh, "S0")).local();  // [2, 6]
    const Tensor turned = part.as_strided(Shape{6, 2}, Strides{1, 6}, part.offset());
    const Tensor x = Tensor::sharded(Shape{6, 4}, DType::kF32, Layout::parse(mesh, "S1"), turned);
    results.hand_in(0, redistribute(x, Layout::parse(mesh, "R")));
    results.hand_in(1, redistribute(x, Layout::parse(mesh, "S0")));
  });
  Whole want{Shape{6, 4}, DType::kF32, {}};
  for (std::size_t i = 0; i < 6; ++i) {
    for (std::size_t j = 0; j < 4; ++j) want.values.push_back(values.values[j * 6 + i]);
  }
  for (const std::size_t n : {0, 1})
    EXPECT_EQ(ops::testing::difference(results.whole(n), want, 0, results.layout(n)), "");
}

TEST(Redistribute, GivesBackATensorThatStays) {
  on_worlds(2, {}, [] {
    const Layout sharding = Layout::parse(Mesh::parse("x=2"), "S0");
    const Tensor x = placed(counted(Shape{4}), sharding);
    EXPECT_TRUE(redistribute(x, sharding).is_same(x));
    EXPECT_TRUE(redistribute(std::vector<Tensor>{x}, std::vector<Layout>{sharding})[0].is_same(x));
    const Tensor narrow = redistribute(x, sharding, {.forward_dtype = DType::kBF16});
    EXPECT_EQ(narrow.dtype(), DType::kBF16);
    EXPECT_EQ(narrow.layout(), sharding);
  });
}

TEST(Redistribute, OfManyIsWhatOneByOneGivesInFewerLaunches) {
  const Mesh mesh = Mesh::parse("a=2,b=2");
  const std::vector<std::pair<Layout, Layout>> moves = {
      {Layout::parse(mesh, "S0,R"), Layout::parse(mesh, "R,R")},    // all-gather over a
      {Layout::parse(mesh, "S1,R"), Layout::parse(mesh, "R,R")},    // all-gather over a, with copies
      {Layout::parse(mesh, "R,P"), Layout::parse(mesh, "R,R")},     // all-reduce over b
      {Layout::parse(mesh, "R,R"), Layout::parse(mesh, "S0,S1")},   // sends nothing
      {Layout::parse(mesh, "S0,S1"), Layout::parse(mesh, "S0,R")},  // all-gather over b
      {Layout::parse(mesh, "R,P"), Layout::parse(mesh, "R,R")},
      {Layout::parse(mesh, "S0,R"), Layout::parse(mesh, "S0,R")}};  // unchanged
  Results results(4);
  on_worlds(4, {1, 2}, [&] {
    std::vector<Tensor> tensors;
    std::vector<Layout> to;
    for (std::size_t i = 0; i < moves.size(); ++i) {
      tensors.push_back(placed(counted(Shape{5, static_cast<std::int64_t>(i) + 2}), moves[i].first));
      to.push_back(moves[i].second);
    }
    const ShardCounts start = shard_counts();
    const std::vector<Tensor> moved = redistribute(tensors, to);
    const ShardCounts together = shard_counts();
    for (std::size_t i = 0; i < moves.size(); ++i) results.hand_in(i, moved[i]);
    for (std::size_t i = 0; i < moves.size(); ++i) (void)redistribute(tensors[i], to[i]);
    const ShardCounts alone = shard_counts();
    EXPECT_EQ(together.collectives - start.collectives, 3U);
    EXPECT_EQ(alone.collectives - together.collectives, 5U);
    EXPECT_EQ(alone.nbytes - together.nbytes, together.nbytes - start.nbytes);
  });
  for (std::size_t i = 0; i < moves.size(); ++i) {
    const Whole want = counted(Shape{5, static_cast<std::int64_t>(i) + 2});
    EXPECT_EQ(ops::testing::difference(results.whole(i), want, 1e-4, moves[i].second), "") << i;
  }
}

TEST(Redistribute, RunsOnTheStreamGiven) {
  const Mesh mesh = Mesh::parse("x=2");
  const Layout sharding = Layout::parse(mesh, "S1");
  const Layout whole = Layout::parse(mesh, "R");
  const Whole values = counted(Shape{64, 64});
  Results results(2);
  on_worlds(2, {1, 2, 3}, [&] {
    const device::Device host = device::Device::get("host");
    const device::Stream side = host.create_stream();
    Tensor x = placed(values, sharding);
    for (int i = 0; i < 4; ++i) {
      x = redistribute(redistribute(x, whole, {.stream = side}), sharding);  // each after the previous one
      ops::mul_(x.local(), Scalar(2));                                       // reads see the earlier values
    }
    EXPECT_EQ(tensor::current_stream(host).id(), host.default_stream().id());
    results.hand_in(0, x);
  });
  Whole want = values;
  for (double& value : want.values) value *= 16;
  EXPECT_EQ(ops::testing::difference(results.whole(0), want, 0, sharding), "");
}

TEST(Redistribute, RefusesWhatItCannotDo) {
  on_worlds(2, {}, [] {
    const Mesh mesh = Mesh::parse("x=2");
    const Layout sharding = Layout::parse(mesh, "S0");
    const Tensor x = placed(counted(Shape{4}), sharding);
    const Layout whole = Layout::parse(mesh, "R");
    expect_error<InvalidArgument>([&] { (void)redistribute(testing::plain(counted(Shape{4})), whole); },
                                  {"f32[4]", "no layout", "distribute()"});
    expect_error<InvalidArgument>([&] { (void)redistribute({}, whole); }, {"tensor must not be empty"});
    expect_error<InvalidArgument>([&] { (void)redistribute(x, Layout()); }, {"empty"});
    expect_error<InvalidArgument>([&] { (void)redistribute(x, Layout::parse(Mesh::parse("y=2"), "R")); },
                                  {"y=2", "gather()"});
    expect_error<InvalidArgument>([&] { (void)redistribute(x, Layout::parse(mesh, "S1")); }, {"dimension"});
    expect_error<InvalidArgument>([&] { (void)redistribute(std::vector<Tensor>{x}, std::vector<Layout>{}); },
                                  {"1 tensors for 0 layouts"});
    const ForbidCommunication none;
    expect_error<NotSupported>([&] { (void)redistribute(x, whole); },
                               {"redistribute of f32[4]", "{Shard(0)}", "{Replicate()}", "ForbidCommunication"});
    const Tensor replicated = placed(counted(Shape{4}), whole);
    EXPECT_EQ(redistribute(replicated, sharding).layout(), sharding);  // sends nothing
  });
}

// Checks the tests above: wrong transfers are detected.
TEST(Redistribute, ThatIsWrongIsFound) {
  const Mesh mesh = Mesh::parse("x=4");
  const Whole values = counted(Shape{8, 8});
  const Layout from = Layout::parse(mesh, "S0");
  const Layout to = Layout::parse(mesh, "S1");
  for (const int fault : {0, 1, 2}) {
    Results results(4);
    on_worlds(4, {}, [&] {
      const Tensor x = placed(values, from);
      detail::CompiledPlan move = *detail::compiled_plan(from, to, values.shape, DType::kF32);
      EXPECT_EQ(move.steps.size(), 1U);
      detail::CompiledStep& step = move.steps[0];
      EXPECT_TRUE(step.packs);
      if (fault == 1) step.pack.clear();
      if (fault == 2) step.packs = false;  // rows are sent as columns
      detail::PlanRun moves[] = {{std::make_shared<const detail::CompiledPlan>(move), x.local()}};
      detail::run_plans(moves);
      results.hand_in(0, Tensor::sharded(values.shape, DType::kF32, to, moves[0].part));
    });
    EXPECT_EQ(ops::testing::difference(results.whole(0), values, 0, to).empty(), fault == 0) << fault;
  }
}

}  // namespace
}  // namespace tessera::shard
