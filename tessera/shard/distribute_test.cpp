// Conversions between plain tensors and tensors with layouts, on worlds of threads.
#include "tessera/shard/distribute.h"

#include <gtest/gtest.h>

#include "tessera/autograd/autograd.h"
#include "tessera/base/error.h"
#include "tessera/base/rank.h"
#include "tessera/base/testing/expect_error.h"
#include "tessera/comm/world.h"
#include "tessera/layout/testing/random_requests.h"
#include "tessera/memory/graph_capture.h"
#include "tessera/ops/create/create.h"
#include "tessera/ops/pointwise/convert.h"
#include "tessera/ops/reduce/host_values.h"
#include "tessera/shard/redistribute.h"
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
using testing::plain;
using testing::Results;
using testing::Whole;

int rank() { return current_place().rank.value(); }

void expect_plain(const Tensor& got, const Whole& want) {
  ASSERT_TRUE(got);
  ASSERT_FALSE(got.has_layout());
  device::Device::get("host").synchronize();
  const Whole read = ops::testing::read(got);
  EXPECT_EQ(read.shape, want.shape);
  EXPECT_EQ(read.dtype, want.dtype);
  ASSERT_EQ(read.values.size(), want.values.size());  // shards of partial values are invented and rounded
  for (std::size_t i = 0; i < want.values.size(); ++i) EXPECT_NEAR(read.values[i], want.values[i], 1e-9);
}

// Layouts of all kinds, each with a matching shape.
std::vector<std::pair<Layout, Shape>> layouts(std::size_t count, std::uint64_t seed) {
  const layout::testing::RequestKind kind{
      .max_axes = 3, .uneven_percent = 60, .special_percent = 30, .partial_percent = 40};
  std::vector<std::pair<Layout, Shape>> out;
  for (; out.size() < count; ++seed) {
    const layout::PlanRequest request = layout::testing::random_request(seed, kind);
    if (request.from.mesh().size() <= 8 && request.shape.numel() <= 1024) out.emplace_back(request.from, request.shape);
  }
  return out;
}

TEST(Distribute, GivesEachRankItsPartFromEitherPlace) {
  const auto cases = layouts(80, 11);
  Results results(8);
  on_worlds(8, {4}, [&] {
    for (std::size_t i = 0; i < cases.size(); ++i) {
      const auto& [layout, shape] = cases[i];
      const bool is_first = current_place().rank == layout.mesh().ranks().at(0);
      const Tensor whole = plain(counted(shape));
      const Tensor other = is_first ? whole : ops::zeros(shape);
      const ShardCounts before = shard_counts();
      const Tensor sliced = distribute(whole, layout, DataOn::kEveryRank);
      EXPECT_EQ(shard_counts().collectives, before.collectives);
      const Tensor sent = distribute(other, layout, DataOn::kFirstRank);
      EXPECT_EQ(sent.layout(), layout);
      EXPECT_EQ(static_cast<bool>(sent.local()), layout.mesh().contains(current_place().rank));
      results.hand_in(2 * i, sliced);
      results.hand_in(2 * i + 1, sent);
    }
  });
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const auto& [layout, shape] = cases[i];
    for (const std::size_t n : {2 * i, 2 * i + 1}) {
      EXPECT_EQ(ops::testing::difference(results.whole(n), counted(shape), 1e-6, layout), "") << layout.text();
    }
  }
}

TEST(Distribute, HasMemoryOfItsOwn) {
  on_worlds(2, {}, [] {
    const Mesh mesh = Mesh::parse("x=2");
    const Tensor whole = plain(counted(Shape{4}));
    for (const char* text : {"R", "S0"}) {
      const Tensor sharding = distribute(whole, Layout::parse(mesh, text), DataOn::kEveryRank);
      EXPECT_NE(sharding.local().storage().data(), whole.storage().data());
    }
  });
}

TEST(Distribute, GivesTheGradientOfTheWholeToEveryRank) {
  on_worlds(4, {6}, [] {
    const AutoRedistribute moves;  // gradients arrive in any layout
    const Mesh mesh = Mesh::parse("a=2,b=2");
    const Whole values = counted(Shape{5, 3}, DType::kF64);
    for (const DataOn where : {DataOn::kFirstRank, DataOn::kEveryRank}) {
      for (const char* text : {"S0,R", "S1,S0", "P,S0", "R,R"}) {
        const Tensor whole = plain(values);
        autograd::set_requires_grad(whole, true);
        const Tensor x = distribute(whole, Layout::parse(mesh, text), where);
        const Tensor g = placed(values, Layout::parse(mesh, "P,S0"));
        expect_plain(autograd::gradients({x}, {whole}, {g})[0], values);
      }
    }
  });
}

TEST(Distribute, RefusesWhatDoesNotFit) {
  on_worlds(2, {}, [] {
    const Mesh mesh = Mesh::parse("x=2");
    const Layout sharding = Layout::parse(mesh, "S1");
    const Tensor whole = plain(counted(Shape{4}));
    expect_error<InvalidArgument>([&] { (void)distribute(whole, sharding, DataOn::kEveryRank); }, {"dimension 1"});
    const Tensor done = distribute(whole, Layout::parse(mesh, "S0"), DataOn::kEveryRank);
    expect_error<InvalidArgument>([&] { (void)distribute(done, sharding, DataOn::kEveryRank); }, {"redistribute"});
    const ForbidCommunication none;
    expect_error<NotSupported>([&] { (void)distribute(whole, Layout::parse(mesh, "S0"), DataOn::kFirstRank); },
                               {"distribute of f32[4]", "ForbidCommunication"});
  });
}

TEST(FromLocal, FindsTheShapeOfTheWhole) {
  const auto cases = layouts(60, 501);
  Results results(8);
  on_worlds(8, {}, [&] {
    for (std::size_t i = 0; i < cases.size(); ++i) {
      const auto& [layout, shape] = cases[i];
      const Tensor part = placed(counted(shape), layout).local();
      const FromLocalOptions off{.shape = shape, .dtype = DType::kF32};
      const Tensor x = part ? from_local(part, layout) : from_local({}, layout, off);
      EXPECT_EQ(x.shape(), shape) << layout.text();
      const FromLocalOptions checked{.shape = shape, .check = true, .dtype = DType::kF32};
      results.hand_in(i, from_local(part, layout, checked));
    }
  });
  for (std::size_t i = 0; i < cases.size(); ++i) {
    EXPECT_EQ(ops::testing::difference(results.whole(i), counted(cases[i].second), 1e-5, cases[i].first), "");
  }
}

TEST(FromLocal, SharesMemoryAndSendsNothingWhenTheShapeIsGiven) {
  on_worlds(2, {}, [] {
    const Layout sharding = Layout::parse(Mesh::parse("x=2"), "S0");
    const Tensor part = ops::zeros(Shape{2, 3});
    const ForbidCommunication none;
    const Tensor x = from_local(part, sharding, {.shape = Shape{4, 3}});
    EXPECT_EQ(x.local().data(), part.data());
    EXPECT_EQ(local(x).data(), part.data());
    expect_error<NotSupported>([&] { (void)from_local(part, sharding); }, {"from_local", "ForbidCommunication"});
    expect_error<InvalidArgument>(
        [&] {
          (void)from_local(part, sharding, {.shape = Shape{6, 3}});
        },
        {"[6, 3]", "must hold [3, 3]", "[2, 3]"});
    expect_error<InvalidArgument>(
        [&] {
          (void)from_local({}, sharding, {.shape = Shape{4, 3}});
        },
        {"tensor must not be empty"});
    expect_error<InvalidArgument>([&] { (void)from_local(x, sharding, {.shape = Shape{4, 3}}); }, {"has a layout"});
  });
}

TEST(FromLocal, IsCapturedWhereItNeedNotAskOthers) {
  simulate(2, [] {
    const device::Device host = device::Device::get("host");
    const Layout sharding = Layout::create(Mesh::parse("x=2"), {layout::Shard(0)});
    const Layout whole = Layout::create(Mesh::parse("x=2"), {layout::Replicate()});
    const Tensor part = ops::ones({2, 3});
    const memory::GraphCapture capture(memory::Allocator::of(host), tensor::current_stream(host));
    expect_error<InvalidArgument>([&] { (void)from_local(part, sharding); },
                                  {"from_local", "captured", "give the global shape"});
    expect_error<InvalidArgument>(
        [&] {
          (void)from_local(part, whole, {.shape = Shape{2, 3}, .check = true});
        },
        {"from_local", "captured", "omit the check"});
    EXPECT_EQ(from_local(part, sharding, {.shape = Shape{4, 3}}).shape(), (Shape{4, 3}));
  });
}

TEST(FromLocal, NamesRanksThatDiffer) {
  on_worlds(4, {9}, [] {
    const Mesh mesh = Mesh::parse("a=2,b=2");
    const Layout sharding = Layout::parse(mesh, "S0,R");
    const auto part = [](std::int64_t rows, DType dtype) { return ops::ones(Shape{rows, 2}, {dtype}); };
    expect_error<MismatchError>([&] { (void)from_local(part(2, rank() == 2 ? DType::kF64 : DType::kF32), sharding); },
                                {"rank 2", "f64", "rank 0", "f32"});
    expect_error<MismatchError>([&] { (void)from_local(part(rank() == 3 ? 3 : 2, DType::kF32), sharding); },
                                {"rank 3 must hold [2, 2], got [3, 2]"});
    expect_error<MismatchError>(
        [&] { (void)from_local(part(2, DType::kF32), rank() == 1 ? Layout::parse(mesh, "R,S0") : sharding); },
        {"1 and 0", "different layouts"});
    expect_error<MismatchError>(
        [&] { (void)from_local(rank() == 3 ? ops::ones(Shape{2}) : part(2, DType::kF32), sharding); },
        {"rank 3", "1 dimensions", "2"});
    // Replicas along b: 0 with 1, 2 with 3.
    const Tensor wrong = rank() == 3 ? ops::zeros(Shape{2, 2}) : part(2, DType::kF32);
    EXPECT_EQ(from_local(wrong, sharding).shape(), (Shape{4, 2}));
    expect_error<MismatchError>([&] { (void)from_local(wrong, sharding, {.check = true}); },
                                {"ranks 3 and 2", "bytes differ"});
    // Partial shards may differ.
    (void)from_local(wrong, Layout::parse(mesh, "S0,P"), {.check = true});
    // Unequal sizes need a layout with these sizes.
    const std::int64_t rows = rank() < 2 ? 1 : 3;
    expect_error<MismatchError>([&] { (void)from_local(part(rows, DType::kF32), sharding); },
                                {"shape [4, 2]", "sizes="});
    const Layout given = Layout::parse(mesh, "{Shard(0, sizes=1/3), Replicate()}");
    EXPECT_EQ(from_local(part(rows, DType::kF32), given).shape(), (Shape{4, 2}));
  });
}

TEST(FromLocal, GradientIsThatOfTheWholeAtTheDualLayout) {
  on_worlds(4, {3}, [] {
    const AutoRedistribute moves;  // gradients arrive in any layout
    const Mesh mesh = Mesh::parse("a=2,b=2");
    const Whole values = counted(Shape{4, 2}, DType::kF64);
    for (const char* text : {"S0,R", "P,S1", "P(avg),S0", "R,R", "S0,P"}) {
      const Layout layout = Layout::parse(mesh, text);
      const Tensor part = ops::zeros(layout::local_shape(layout, values.shape, current_place().rank), {DType::kF64});
      autograd::set_requires_grad(part, true);
      const Tensor x = from_local(part, layout, {.shape = values.shape});
      const Tensor back = autograd::gradients({x}, {part}, {placed(values, Layout::parse(mesh, "S1,P"))})[0];
      Whole want = ops::testing::read(placed(values, layout::gradient_layout(layout)).local());
      for (double& value : want.values) value /= std::string_view(text).starts_with("P(avg)") ? 2 : 1;
      device::Device::get("host").synchronize();
      const Whole got = ops::testing::read(back);
      ASSERT_EQ(got.shape, want.shape);
      for (std::size_t i = 0; i < want.values.size(); ++i) EXPECT_NEAR(got.values[i], want.values[i], 1e-9) << text;
    }
    const Tensor part = ops::zeros(values.shape, {DType::kF64});
    autograd::set_requires_grad(part, true);
    const Tensor x = from_local(part, Layout::parse(mesh, "P(max),R"), {.shape = values.shape});
    const Tensor g = placed(values, Layout::parse(mesh, "R,R"));
    expect_error<NotSupported>([&] { (void)autograd::gradients({x}, {part}, {g}); }, {"Partial(max)", "max"});
  });
}

TEST(Local, GradientComesBackAsSaid) {
  on_worlds(4, {3}, [] {
    const Mesh mesh = Mesh::parse("a=2,b=2");
    const Layout layout = Layout::parse(mesh, "S0,R");
    const Whole values = counted(Shape{4, 2}, DType::kF64);
    const Tensor x = placed(values, layout);
    autograd::set_requires_grad(x, true);
    const Tensor part = local(x);
    EXPECT_FALSE(part.has_layout());
    EXPECT_TRUE(part.is_tracked());
    EXPECT_FALSE(x.local().is_tracked());
    const Tensor g = ops::ones(Shape{2, 2}, {DType::kF64});
    EXPECT_EQ(autograd::gradients({part}, {x}, {g})[0].layout(), layout);
    const Layout pending = Layout::parse(mesh, "S0,P");
    EXPECT_EQ(autograd::gradients({local(x, pending)}, {x}, {g})[0].layout(), pending);
    expect_error<InvalidArgument>([&] { (void)local(x, Layout::parse(Mesh::parse("x=4"), "R")); }, {"x=4"});
  });
}

TEST(Full, GivesTheWholeToEveryRankOfTheMesh) {
  const auto cases = layouts(60, 901);
  on_worlds(8, {2}, [&] {
    for (const auto& [layout, shape] : cases) {
      const Tensor got = gather(placed(counted(shape, DType::kF64), layout));
      ASSERT_EQ(static_cast<bool>(got), layout.mesh().contains(current_place().rank));
      if (!got) continue;
      device::Device::get("host").synchronize();
      EXPECT_EQ(ops::testing::difference(ops::testing::read(got), counted(shape, DType::kF64), 1e-9, layout), "");
    }
    const Tensor plain_one = plain(counted(Shape{3}));
    EXPECT_TRUE(gather(plain_one).is_same(plain_one));
  });
}

TEST(Full, GradientGoesBackToTheSource) {
  const Mesh mesh = Mesh::parse("a=2,b=2");
  const Whole values = counted(Shape{4, 3}, DType::kF64);
  Results results(4);
  on_worlds(4, {2}, [&] {
    const Tensor x = placed(values, Layout::parse(mesh, "S0,P"));
    autograd::set_requires_grad(x, true);
    results.hand_in(0, autograd::gradients({gather(x)}, {x}, {plain(values)})[0]);
  });
  EXPECT_EQ(results.layout(0), Layout::parse(mesh, "S0,R"));
  EXPECT_EQ(ops::testing::difference(results.whole(0), values, 1e-9, results.layout(0)), "");
}

TEST(Replicate, SharesMemoryAndGivesBackTheWholeGradient) {
  on_worlds(2, {}, [] {
    const Mesh mesh = Mesh::parse("x=2");
    const Whole values = counted(Shape{4}, DType::kF64);
    const Tensor w = plain(values);
    autograd::set_requires_grad(w, true);
    const Tensor x = replicate(w, mesh);
    EXPECT_TRUE(x.layout().is_replicated());
    EXPECT_EQ(x.local().data(), w.data());
    expect_plain(autograd::gradients({x}, {w}, {placed(values, Layout::parse(mesh, "P"))})[0], values);
    expect_error<InvalidArgument>([&] { (void)replicate(x, mesh); }, {"redistribute"});
  });
}

TEST(Scalars, OfShardedTensorsAreReadThroughFull) {
  on_worlds(2, {}, [] {
    const Tensor x = placed(counted(Shape{}), Layout::parse(Mesh::parse("x=2"), "P"));
    expect_error<InvalidArgument>([&] { (void)ops::item(x); }, {"item", "gather()"});
    EXPECT_NEAR(ops::item(gather(x)).as_double(), 1.0, 1e-5);
  });
}

}  // namespace
}  // namespace tessera::shard
