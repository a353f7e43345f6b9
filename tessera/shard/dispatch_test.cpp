// Results, errors and communication of sharded calls.
#include <gtest/gtest.h>

#include <sstream>

#include "tessera/base/error.h"
#include "tessera/base/rank.h"
#include "tessera/base/testing/expect_error.h"
#include "tessera/comm/world.h"
#include "tessera/ops/create/create.h"
#include "tessera/ops/matrix/matrix.h"
#include "tessera/ops/nn/softmax.h"
#include "tessera/ops/pointwise/convert.h"
#include "tessera/ops/pointwise/pointwise.h"
#include "tessera/ops/reduce/reduce.h"
#include "tessera/ops/shape/arrange.h"
#include "tessera/ops/shape/shape.h"
#include "tessera/shard/detail/plan_cache.h"
#include "tessera/shard/distribute.h"
#include "tessera/shard/redistribute.h"
#include "tessera/shard/scopes.h"
#include "tessera/shard/testing/all_ranks.h"
#include "tessera/shard/trace.h"
#include "tessera/tensor/call.h"

namespace tessera::shard {
namespace {

using layout::Layout;
using layout::Mesh;
using layout::Shard;
using testing::collectives;
using testing::counted;
using testing::grid;
using testing::on_grid;
using testing::placed;
using testing::Results;

const Mesh& line() {
  static const Mesh mesh = Mesh::parse("tp=4");
  return mesh;
}
Layout on_line(const char* text) { return Layout::parse(line(), text); }

TEST(Dispatch, ProductsOfCutColumnsAndRowsTalkOnlyWhereTheyAreSettled) {
  Results results(4);
  testing::on_worlds(4, {1, 2}, [&] {
    const Tensor x = placed(counted({6, 8}, DType::kF64), on_line("R"));
    const Tensor up = placed(counted({8, 12}, DType::kF64), on_line("S1"));
    const Tensor down = placed(counted({12, 5}, DType::kF64), on_line("S0"));
    Tensor out;
    EXPECT_EQ(collectives([&] {
                const Tensor hidden = ops::mm(x, up);
                EXPECT_EQ(hidden.layout(), on_line("S1"));
                EXPECT_EQ(hidden.local().shape(), Shape({6, 3}));
                out = ops::mm(hidden, down);
                EXPECT_EQ(out.layout(), on_line("P"));
              }),
              0U);
    EXPECT_EQ(collectives([&] { out = redistribute(out, on_line("R")); }), 1U);
    results.hand_in(0, out);
  });
  const Tensor want =
      ops::mm(ops::mm(testing::plain(counted({6, 8}, DType::kF64)), testing::plain(counted({8, 12}, DType::kF64))),
              testing::plain(counted({12, 5}, DType::kF64)));
  ops::testing::wait_for_work();
  EXPECT_EQ(ops::testing::difference(results.whole(0), ops::testing::read(want), 1e-12, on_line("R")), "");
}

TEST(Dispatch, SoftmaxAlongACutDimensionSharesTwoStatisticsPerRow) {
  for (const char* text : {"S1,R", "R,S1", "S1,S1", "S0,S1"}) {
    Results results(4);
    testing::on_worlds(4, {3}, [&] {
      const Tensor x = placed(counted({4, 10}, DType::kF64), on_grid(text));
      Tensor y;
      EXPECT_EQ(collectives([&] { y = ops::softmax(ops::div(x, 50), 1); }), 2U) << text;
      EXPECT_EQ(y.layout(), x.layout());
      results.hand_in(0, y);
    });
    const Tensor want = ops::softmax(ops::div(testing::plain(counted({4, 10}, DType::kF64)), 50), 1);
    ops::testing::wait_for_work();
    EXPECT_EQ(ops::testing::difference(results.whole(0), ops::testing::read(want), 1e-12, on_grid(text)), "") << text;
  }
  simulate(4, [] {
    const Tensor x = placed(counted({4, 10}), on_grid("S0,R"));
    EXPECT_EQ(collectives([&] { ops::softmax(x, 1); }), 0U);
  });
}

TEST(Dispatch, CooperationIsRefusedWhereNothingMayBeSent) {
  simulate(4, [] {
    const Tensor x = placed(counted({4, 10}), on_line("S1"));
    const ForbidCommunication none;
    expect_error<NotSupported>([&] { ops::softmax(x, 1); }, {"softmax", "ForbidCommunication"});
    EXPECT_EQ(ops::softmax(x, 0).layout(), on_line("S1"));
  });
}

TEST(Dispatch, OperandsThatDoNotFitAreRefusedWithThePricesOfFixes) {
  simulate(4, [] {
    const Tensor a = placed(counted({8, 8}), on_line("S0"));
    const Tensor b = placed(counted({8, 8}), on_line("S1"));
    expect_error<InvalidArgument>([&] { ops::mm(a, b); },
                                  {"mm: operands disagree on mesh tp=4: axis tp shards dimension 0 of a and shards "
                                   "dimension 1 of b\n  a  f32[8, 8]  {tp: Shard(0)}\n  b  f32[8, 8]  "
                                   "{tp: Shard(1)}\ncheapest fixes:\n  redistribute(",
                                   "{})", "all-gather over tp, ", " us", "AutoRedistribute"});
    expect_error<InvalidArgument>([&] { ops::matmul(a, b); }, {"matmul: operands disagree on mesh tp=4: axis tp"});
    EXPECT_EQ(Layout::parse(line(), "{tp: Shard(0)}"), a.layout());  // as the error prints it
    const Tensor p = from_local(ops::ones({8, 8}), on_line("P"), {.shape = Shape{8, 8}});
    expect_error<InvalidArgument>([&] { ops::mm(p, p); }, {"not linear in a, b together"});
    const ForbidCommunication none;
    expect_error<InvalidArgument>([&] { ops::mm(a, b); },
                                  {"a ForbidCommunication scope forbids redistribution", "all-gather"});
  });
}

TEST(Dispatch, TheCheapestFixIsTakenInsideOfAutoRedistribute) {
  Results results(4);
  testing::on_worlds(4, {4}, [&] {
    const Tensor a = placed(counted({8, 8}, DType::kF64), on_line("S0"));
    const Tensor b = placed(counted({8, 8}, DType::kF64), on_line("S1"));
    const ShardCounts before = shard_counts();
    const TraceLayouts trace;
    Tensor out;
    {
      const AutoRedistribute automatic;
      out = ops::mm(a, b);
      out = ops::mm(a, b);
      {
        const ForbidCommunication none;
        EXPECT_THROW(ops::mm(a, b), Error);
      }
      EXPECT_EQ(redistribute_mode(), RedistributeMode::kAutomatic);
    }
    EXPECT_EQ(redistribute_mode(), RedistributeMode::kRefused);
    EXPECT_THROW(ops::mm(a, b), Error);  // cached redistributions apply only inside the scope
    const ShardCounts after = shard_counts();
    EXPECT_EQ(after.automatic - before.automatic, 2U);
    EXPECT_EQ(after.collectives - before.collectives, 2U);
    EXPECT_EQ(after.calls - before.calls, 2U);
    ASSERT_EQ(trace.events().size(), 4U);
    EXPECT_EQ(trace.events()[0].kind, TraceEvent::Kind::kMove);
    EXPECT_TRUE(trace.events()[0].is_automatic);
    EXPECT_EQ(trace.events()[0].op, "mm");
    EXPECT_EQ(trace.counts().automatic, 2U);
    results.hand_in(0, out);
  });
  const Tensor whole = testing::plain(counted({8, 8}, DType::kF64));
  const Tensor want = ops::mm(whole, whole);
  ops::testing::wait_for_work();
  EXPECT_EQ(ops::testing::difference(results.whole(0), ops::testing::read(want), 1e-12, results.layout(0)), "");
}

TEST(Dispatch, CallsAreKnownToTheCacheTheSecondTime) {
  const Tensor a = placed(counted({12, 20}), on_grid("S0,R"));  // one rank of the mesh is enough: nothing is sent
  const ShardCounts before = shard_counts();
  for (int i = 0; i < 10; ++i) ops::sum(a, {1});
  ops::sum(a, {0});
  ops::sum(a, {0}, true);
  ops::sum(ops::transpose(a, 0, 1), {0});
  ShardCounts after = shard_counts();
  EXPECT_EQ(after.calls - before.calls, 14U);
  EXPECT_EQ(after.hits - before.hits, 9U);
  EXPECT_EQ(ops::sum(a, {0}).layout(), on_grid("P,R"));
  EXPECT_EQ(ops::sum(a, {1}).layout(), on_grid("S0,R"));
  EXPECT_EQ(ops::sum(a, {0}, true).shape(), Shape({1, 20}));
  after = shard_counts();
  EXPECT_EQ(after.hits - before.hits, 12U);
}

TEST(Dispatch, RanksShareWhatTheyKnowAndNothingOfTheirOwn) {
  Results results(4);
  simulate(4, [&] {  // rows depend on their position: each rank has separate attributes for one entry
    const Tensor x = placed(counted({6, 6}, DType::kF64), on_line("S0"));
    for (std::size_t i = 0; i < 3; ++i) results.hand_in(i, ops::tril(x));
  });
  const Tensor want = ops::tril(testing::plain(counted({6, 6}, DType::kF64)));
  ops::testing::wait_for_work();
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(results.whole(i).values, ops::testing::read(want).values);
}

TEST(EntryCache, DropsTheLeastRecentlyUsed) {
  const Mesh mesh = Mesh::parse("x=2");
  detail::EntryCache cache(16);  // one per lock
  std::size_t dropped = 0;
  for (std::int64_t n = 1; n <= 100; ++n) {
    const Tensor x = ops::empty({n, 4}, {.layout = Layout::create(mesh, {Shard(0)})});
    Tensor out;
    const tensor::Call call{tensor::find_op("relu"), std::span(&x, 1), {}, std::span(&out, 1)};
    const std::uint64_t hash = detail::hash_of(call);
    EXPECT_EQ(cache.find(call, hash), nullptr);
    dropped += cache.add(detail::make_entry(call, hash));
    ASSERT_NE(cache.find(call, hash), nullptr);
    EXPECT_EQ(cache.find(call, hash)->outputs[0], x.layout());
  }
  EXPECT_LE(cache.size(), 16U);
  EXPECT_EQ(cache.size() + dropped, 100U);
}

TEST(Dispatch, PlainTensorsAmongShardedOnesAreRefusedButForNumbers) {
  simulate(4, [] {
    const Tensor x = placed(counted({8, 8}, DType::kF64), on_line("S0"));
    const Tensor plain = testing::plain(counted({8, 8}, DType::kF64));
    expect_error<InvalidArgument>(
        [&] { ops::add(x, plain); },
        {"add", "b must have a layout, as other operands do, got a plain tensor", "replicate()"});
    expect_error<InvalidArgument>([&] { ops::add(x, x, {.out = plain}); }, {"out must have a layout"});
    const Tensor number = testing::plain({{}, DType::kF64, {2}});
    EXPECT_EQ(ops::mul(x, number).layout(), on_line("S0"));
    const Tensor twice = ops::mul(x, number);
    const Tensor sum = ops::add(x, x);
    ops::testing::wait_for_work();
    EXPECT_EQ(ops::testing::read(twice.local()).values, ops::testing::read(sum.local()).values);
    EXPECT_EQ(ops::mul(placed(counted({4}, DType::kF64), on_line("P")), number).layout(), on_line("P"));
    EXPECT_EQ(ops::add(placed(counted({4}, DType::kF64), on_line("P")), number).layout(), on_line("P"));
    EXPECT_EQ(ops::add(x, replicate(testing::plain(counted({8}, DType::kF64)), line())).layout(), on_line("S0"));
  });
}

TEST(Dispatch, TensorsOfDifferentMeshesAreRefused) {
  simulate(4, [] {
    const Tensor a = placed(counted({8, 8}), on_line("S0"));
    const Tensor b = placed(counted({8, 8}), on_grid("S0,R"));
    const AutoRedistribute automatic;
    expect_error<InvalidArgument>([&] { ops::add(a, b); }, {"tensors must be on one mesh", "tp=4", "dp=2,tp=2"});
  });
}

TEST(Dispatch, RanksOffTheMeshHaveResultsWithoutParts) {
  const Mesh mesh = Mesh::create({{"x", 2}}, Rank(1));
  Results results(4);
  testing::on_worlds(4, {5}, [&] {
    const Tensor x = placed(counted({4, 6}), Layout::create(mesh, {Shard(1)}));
    const Tensor y = ops::softmax(ops::mul(x, 0.5), 1);
    EXPECT_EQ(y.shape(), Shape({4, 6}));
    EXPECT_EQ(static_cast<bool>(y.local()), mesh.contains(current_place().rank));
    const Tensor z = ops::reshape(ops::transpose(ops::full_like(y, 2), 0, 1), {24});
    EXPECT_EQ(static_cast<bool>(z.local()), mesh.contains(current_place().rank));
    ops::add_(y, 1);
    ops::copy_(y, x);
    results.hand_in(0, y);
    results.hand_in(1, z);
  });
  EXPECT_EQ(results.whole(0).values, counted({4, 6}).values);
  EXPECT_EQ(results.whole(1).values, std::vector<double>(24, 2));
}

TEST(Dispatch, InPlaceFormsKeepTheLayoutOfTheirTarget) {
  Results results(4);
  simulate(4, [&] {
    const Tensor w = placed(counted({8, 4}, DType::kF64), on_line("S0"));
    const Tensor held = w.local();
    const Tensor g = placed(counted({8, 4}, DType::kF64), on_line("S0"));
    ops::add_(w, g);
    EXPECT_TRUE(w.local().is_same(held));
    const Tensor whole = placed(counted({8, 4}, DType::kF64), on_line("R"));
    expect_error<InvalidArgument>([&] { ops::add_(w, whole); },
                                  {"add", "redistribute(b, {{\"tp\", Shard(0)}})", "no communication"});
    expect_error<InvalidArgument>([&] { ops::copy_(w, whole); }, {"keeps its layout"});
    const Tensor pending = placed(counted({8, 4}, DType::kF64), on_line("P"));
    const AutoRedistribute automatic;
    ops::add_(w, whole);    // sliced
    ops::add_(w, pending);  // scattered
    EXPECT_EQ(w.layout(), on_line("S0"));
    EXPECT_TRUE(w.local().is_same(held));
    results.hand_in(0, w);
    const Tensor copied = placed(counted({8, 4}, DType::kF64), on_line("S1"));
    ops::copy_(copied, w);
    EXPECT_EQ(copied.layout(), on_line("S1"));
    results.hand_in(1, copied);
  });
  std::vector<double> want = counted({8, 4}).values;
  for (double& value : want) value *= 4;
  EXPECT_EQ(ops::testing::difference(results.whole(0), {Shape({8, 4}), DType::kF64, want}, 1e-9, on_line("S0")), "");
  EXPECT_EQ(ops::testing::difference(results.whole(1), {Shape({8, 4}), DType::kF64, want}, 1e-9, on_line("S1")), "");
}

TEST(Dispatch, ViewsAreViewsOnEveryRankOrErrors) {
  Results results(4);
  simulate(4, [&] {
    const Tensor x = placed(counted({8, 6}), on_line("S0"));
    const Tensor t = ops::transpose(x, 0, 1);
    EXPECT_EQ(t.layout(), on_line("S1"));
    EXPECT_EQ(&t.local().storage(), &x.local().storage());
    const Tensor split = ops::view(x, {4, 2, 6});
    EXPECT_EQ(split.layout(), on_line("S0"));
    EXPECT_EQ(&split.local().storage(), &x.local().storage());
    // no rank holds a complete row of the result
    expect_error<InvalidArgument>([&] { ops::view(x, {3, 16}); }, {"view"});
    expect_error<InvalidArgument>([&] { ops::view(t, {48}); }, {"view"});
    results.hand_in(0, ops::reshape(t, {6, 4, 2}));
  });
  const Tensor want = ops::reshape(ops::transpose(testing::plain(counted({8, 6})), 0, 1), {6, 4, 2});
  ops::testing::wait_for_work();
  EXPECT_EQ(results.whole(0).values, ops::testing::read(want).values);
}

// ---- operators without a rule ----

const tensor::Operator kUnruled =
    tensor::register_op({.name = "test.unruled",
                         .inputs = "x",
                         .infer =
                             [](const tensor::Call& call, auto outputs) {
                               outputs[0] = {call.inputs[0].shape(), call.inputs[0].dtype()};
                             },
                         .host = [](const tensor::KernelCall& call) { tensor::find_op("relu")->kernels[0](call); }});

TEST(Dispatch, OperatorsWithoutARuleTakeWholeTensors) {
  simulate(4, [] {
    const Tensor whole = placed(counted({8, 4}), on_line("R"));
    EXPECT_EQ(tensor::call(kUnruled, {whole}).layout(), on_line("R"));
    const Tensor sharding = placed(counted({8, 4}), on_line("S0"));
    expect_error<InvalidArgument>([&] { tensor::call(kUnruled, {sharding}); },
                                  {"test.unruled", "no factor rule", "all-gather"});
    const AutoRedistribute automatic;
    const Tensor out = tensor::call(kUnruled, {sharding});
    EXPECT_EQ(out.layout(), on_line("R"));
    ops::testing::wait_for_work();
    EXPECT_EQ(ops::testing::read(out.local()).values, counted({8, 4}).values);
  });
}

}  // namespace
}  // namespace tessera::shard
