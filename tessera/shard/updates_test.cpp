// Updates over lists of tensors with different layouts and meshes: the results of one device, nothing sent, and
// mismatches rejected.
#include <gtest/gtest.h>

#include "tessera/base/error.h"
#include "tessera/base/rank.h"
#include "tessera/base/testing/expect_error.h"
#include "tessera/comm/world.h"
#include "tessera/ops/update/update.h"
#include "tessera/shard/detail/plan_cache.h"
#include "tessera/shard/scopes.h"
#include "tessera/shard/testing/all_ranks.h"
#include "tessera/shard/trace.h"
#include "tessera/tensor/call.h"

namespace tessera::shard {
namespace {

using layout::Layout;
using layout::Mesh;
using testing::collectives;
using testing::counted;
using testing::on_grid;
using testing::placed;
using testing::Results;
using testing::Whole;
using Tensors = std::vector<Tensor>;

const Mesh& line() {
  static const Mesh mesh = Mesh::parse("ep=4");
  return mesh;
}
Layout on_line(const char* text) { return Layout::parse(line(), text); }

Tensor number(double value, DType dtype = DType::kF32) { return testing::plain({{}, dtype, {value}}); }
double read_number(const Tensor& tensor) {
  ops::testing::wait_for_work();
  return ops::testing::read(tensor.local()).values[0];
}

// A tensor of a list, with its expected value.
struct Member {
  Shape shape;
  Layout layout;  // empty: plain
};
// Sharded evenly and unevenly, replicated, empty on some ranks, plain, and on two meshes.
std::vector<Member> mixed() {
  return {{{8, 6}, on_grid("S0,R")},  {{5, 3}, on_grid("R,S1")}, {{7}, on_grid("R,R")},
          {{3, 4}, on_grid("S0,S0")}, {{9, 2}, on_line("S0")},   {{4, 4}, {}}};
}

Whole scaled(const Shape& shape, double by) {
  Whole whole = counted(shape);
  for (double& value : whole.values) value *= by;
  return whole;
}
Tensors list_of(const std::vector<Member>& members, double by) {
  Tensors out;
  for (const Member& each : members) {
    const Whole whole = scaled(each.shape, by);
    out.push_back(each.layout ? placed(whole, each.layout) : testing::plain(whole));
  }
  return out;
}
std::vector<Member> all_plain(std::vector<Member> members) {
  for (Member& each : members) each.layout = {};
  return members;
}

// Parameters and state of an optimizer after some steps.
struct Trained {
  Tensors tensors;
  Tensor step;
};
Trained adamw_steps(const std::vector<Member>& members, int steps) {
  const Tensors params = list_of(members, 1);
  const Tensors grads = list_of(members, 0.125);
  const Tensors first = list_of(members, 0);
  const Tensors second = list_of(members, 0);
  Trained out{params, number(0, DType::kI64)};
  for (int i = 0; i < steps; ++i) {
    ops::adamw_(params, grads, first, second, out.step,
                {.learning_rate = number(0.5), .clip_factor = number(0.25), .skip = number(0, DType::kBool)});
  }
  out.tensors.insert(out.tensors.end(), first.begin(), first.end());
  out.tensors.insert(out.tensors.end(), second.begin(), second.end());
  return out;
}
Trained sgd_steps(const std::vector<Member>& members, int steps) {
  const Tensors params = list_of(members, 1);
  const Tensors momenta = list_of(members, 0);
  for (int i = 0; i < steps; ++i) {
    ops::sgd_(params, list_of(members, 0.125), momenta, {.learning_rate = number(0.5)}, {.momentum = 0.5});
  }
  Trained out{params, {}};
  out.tensors.insert(out.tensors.end(), momenta.begin(), momenta.end());
  return out;
}

void expect_same_as_one_device(Trained (*train)(const std::vector<Member>&, int)) {
  const std::vector<Member> members = mixed();
  Results results(4);
  std::vector<double> plain_ones;  // of rank 0
  testing::on_worlds(4, {1, 2}, [&] {
    Trained trained;
    EXPECT_EQ(collectives([&] { trained = train(members, 3); }), 0U);
    for (std::size_t i = 0; i < trained.tensors.size(); ++i) {
      const Member& of = members[i % members.size()];
      EXPECT_EQ(trained.tensors[i].layout(), of.layout) << i;
      if (of.layout) results.hand_in(i, trained.tensors[i]);
    }
    if (trained.step) {
      EXPECT_EQ(read_number(trained.step), 3);
    }
    ops::testing::wait_for_work();
    if (current_place().rank == Rank(0)) plain_ones = ops::testing::read(trained.tensors[5]).values;
  });
  const Trained want = train(all_plain(members), 3);
  ops::testing::wait_for_work();
  for (std::size_t i = 0; i < want.tensors.size(); ++i) {
    if (!members[i % members.size()].layout) continue;
    EXPECT_EQ(results.whole(i).values, ops::testing::read(want.tensors[i]).values) << i;
  }
  EXPECT_EQ(plain_ones, ops::testing::read(want.tensors[5]).values);
}

TEST(ListUpdates, OfAdamWAreThoseOfOneDeviceBitForBitAndSendNothing) { expect_same_as_one_device(adamw_steps); }
TEST(ListUpdates, OfSgdAreThoseOfOneDeviceBitForBitAndSendNothing) { expect_same_as_one_device(sgd_steps); }

TEST(ListUpdates, ResultsHaveTheLayoutsOfTheirPlaces) {
  const std::vector<Member> members = mixed();
  Results results(4);
  testing::on_worlds(4, {3}, [&] {
    const Tensors sums = ops::foreach_add(list_of(members, 1), list_of(members, 3), 2);
    const Tensors products = ops::foreach_mul(sums, 0.5, placed({{}, DType::kF32, {4}}, on_grid("R,R")));
    for (std::size_t i = 0; i < members.size(); ++i) {
      EXPECT_EQ(products[i].layout(), members[i].layout);
      if (members[i].layout) results.hand_in(i, products[i]);
    }
  });
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (!members[i].layout) continue;
    EXPECT_EQ(results.whole(i).values, scaled(members[i].shape, 14).values) << i;
  }
}

TEST(ListUpdates, PartialValuesPassThroughWhatIsLinear) {
  Results results(4);
  simulate(4, [&] {
    const Tensors pending = {placed(counted({6}), on_grid("P,R")), placed(counted({4}), on_grid("S0,R"))};
    EXPECT_EQ(collectives([&] {
                const Tensors sums = ops::foreach_add(pending, pending);
                EXPECT_EQ(sums[0].layout(), on_grid("P,R"));
                ops::foreach_mul_(sums, 0.25);
                results.hand_in(0, sums[0]);
                results.hand_in(1, sums[1]);
              }),
              0U);
    const Tensors whole = {placed(counted({6}), on_grid("R,R")), placed(counted({4}), on_grid("S0,R"))};
    expect_error<InvalidArgument>([&] { ops::foreach_add(pending, whole); }, {"foreach_add: index 0 of the lists"});
  });
  EXPECT_EQ(ops::testing::difference(results.whole(0), scaled({6}, 0.5), 1e-6, on_grid("P,R")), "");
  EXPECT_EQ(results.whole(1).values, scaled({4}, 0.5).values);
}

TEST(ListUpdates, RanksOffAMeshUpdateWhatTheyHold) {
  const Mesh mesh = Mesh::create({{"x", 2}}, Rank(1));
  const std::vector<Member> members = {{{6, 2}, Layout::create(mesh, {layout::Shard(0)})},
                                       {{4}, {}},
                                       {{3}, Layout::create(mesh, {layout::Replicate()})}};
  const Trained want = adamw_steps(all_plain(members), 2);
  ops::testing::wait_for_work();
  Results results(3);
  testing::on_worlds(3, {4}, [&] {
    const Trained trained = adamw_steps(members, 2);
    EXPECT_EQ(read_number(trained.step), 2);
    EXPECT_EQ(ops::testing::read(trained.tensors[1]).values, ops::testing::read(want.tensors[1]).values);
    EXPECT_EQ(static_cast<bool>(trained.tensors[0].local()), mesh.contains(current_place().rank));
    results.hand_in(0, trained.tensors[0]);
    results.hand_in(1, trained.tensors[2]);
    // This rank holds nothing: the step still counts.
    const Trained nothing = adamw_steps({members[0]}, 2);
    EXPECT_EQ(read_number(nothing.step), 2);
    const Tensors sums = ops::foreach_add({&trained.tensors[0], 1}, {&trained.tensors[0], 1});
    EXPECT_EQ(static_cast<bool>(sums[0].local()), mesh.contains(current_place().rank));
    EXPECT_EQ(sums[0].shape(), Shape({6, 2}));
  });
  EXPECT_EQ(results.whole(0).values, ops::testing::read(want.tensors[0]).values);
  EXPECT_EQ(results.whole(1).values, ops::testing::read(want.tensors[2]).values);
}

void sgd(const Tensors& params, const Tensors& grads) { ops::sgd_(params, grads, {}, {.learning_rate = number(0.5)}); }

TEST(ListUpdates, WhatIsPendingOrCutOtherwiseIsRefusedWithAFix) {
  simulate(4, [] {
    const Tensor good = placed(counted({4}), on_grid("S0,R"));
    const Tensors params = {good, placed(counted({8, 4}), on_grid("R,S0"))};
    const std::vector<double> before = ops::testing::read(params[0].local()).values;
    expect_error<InvalidArgument>(
        [&] {
          sgd(params, {good, placed(counted({8, 4}), on_grid("P,S0"))});
        },
        {"sgd: index 1 of the lists", "Partial()", "all-reduce over dp", "AutoRedistribute", "reduce_gradients()"});
    expect_error<InvalidArgument>(
        [&] {
          sgd(params, {good, placed(counted({8, 4}), on_grid("R,S1"))});
        },
        {"index 1 of the lists", "redistribute(grads, {{\"tp\", Shard(0)}})"});
    expect_error<InvalidArgument>(
        [&] {
          sgd(params, {good, placed(counted({8, 4}), on_grid("R,R"))});
        },
        {"index 1 of the lists", "redistribute(grads, {{\"tp\", Shard(0)}})", "no communication"});
    expect_error<InvalidArgument>(
        [&] {
          sgd(params, {good, testing::plain(counted({8, 4}))});
        },
        {"grads[1] must have a layout", "replicate()", "distribute()"});
    expect_error<InvalidArgument>(
        [&] {
          sgd(params, {good, placed(counted({8, 4}), on_line("S0"))});
        },
        {"index 1 of the lists", "must be on one mesh", "ep=4"});
    expect_error<InvalidArgument>(
        [&] {
          sgd(params, {good, placed(counted({8, 5}), on_grid("R,S0"))});
        },
        {"index 1 of the lists", "grads[0] must have shape [8, 4], got [8, 5]"});
    ops::testing::wait_for_work();
    EXPECT_EQ(ops::testing::read(params[0].local()).values, before) << "a call that is refused changes nothing";
  });
}

TEST(ListUpdates, StateOfAnotherLayoutIsRefused) {
  simulate(4, [] {
    const Tensors params = {placed(counted({8, 4}), on_grid("R,S0"))};
    const Tensors state = {placed(counted({8, 4}), on_grid("R,R"))};
    const auto step = [&] {
      ops::adamw_(params, params, state, params, number(0, DType::kI64), {.learning_rate = number(1)});
    };
    expect_error<InvalidArgument>(step, {"adamw: index 0 of the lists"});
    const AutoRedistribute automatic;  // the state would have to be redistributed twice: it keeps its layout
    expect_error<InvalidArgument>(step, {"adamw: index 0 of the lists"});
  });
}

// Indices are checked in blocks: a mismatch is found at any index, even if the shards of this rank look correct.
TEST(ListUpdates, OddTensorsOfLongListsAreSeenAtTheirPlaces) {
  simulate(4, [] {
    const std::vector<Member> members(70, {{8}, on_line("S0")});
    const Tensor others = placed(counted({8}), on_line("R"));
    const Tensor fewer = placed(counted({7}), on_line("S0"));
    for (const std::size_t place : {0U, 31U, 32U, 63U, 64U, 69U}) {
      for (std::size_t list = 0; list < 4; ++list) {
        Tensors lists[4] = {list_of(members, 1), list_of(members, 1), list_of(members, 1), list_of(members, 1)};
        const auto step = [&] {
          ops::adamw_(lists[0], lists[1], lists[2], lists[3], number(0, DType::kI64), {.learning_rate = number(1)});
        };
        const std::string where = tessera::detail::concat("index ", place, " of the lists");
        step();
        lists[list][place] = others;
        expect_error<InvalidArgument>(step, {where});
        lists[list][place] = fewer;
        expect_error<InvalidArgument>(step, {where, "[7]", "[8]"});
        lists[list][place] = {};
        expect_error<InvalidArgument>(step, {tessera::detail::concat("[", place, "] must be a tensor")});
      }
    }
  });
}

TEST(ListUpdates, TargetsOfLongListsAreSeenAtTheirPlaces) {
  simulate(4, [] {
    const std::vector<Member> members(70, {{8}, on_line("S0")});
    const tensor::Operator add = tensor::find_op("foreach_add");
    for (const std::size_t place : {0U, 31U, 32U, 69U}) {
      Tensors inputs = list_of(members, 1);
      Tensors targets = inputs;
      inputs.insert(inputs.end(), targets.begin(), targets.end());
      const auto call = [&] { tensor::call_into({add, inputs, ops::ForeachAttributes{.by = 1}, targets}); };
      targets[place] = placed(counted({8}), on_line("R"));
      expect_error<InvalidArgument>(call, {tessera::detail::concat("index ", place, " of the lists")});
      targets[place] = placed(scaled({8}, 0), on_line("S0"));
      call();
      ops::testing::wait_for_work();
      EXPECT_EQ(ops::testing::read(targets[place].local()).values,
                ops::testing::read(placed(scaled({8}, 2), on_line("S0")).local()).values);
    }
  });
}

TEST(ListUpdates, NumbersMustBeThereWhereTheyAreNeeded) {
  const Mesh few = Mesh::create({{"x", 2}}, Rank(1));
  simulate(4, [&] {
    const Tensors params = {placed(counted({8, 4}), on_grid("R,S0"))};
    const auto with_rate = [&](const Tensor& rate) { ops::sgd_(params, params, {}, {.learning_rate = rate}); };
    with_rate(placed({{}, DType::kF32, {1}}, on_line("R")));  // another mesh of the same ranks
    expect_error<InvalidArgument>(
        [&] {
          with_rate(placed({{}, DType::kF32, {1}}, on_grid("P,R")));
        },
        {"learning_rate", "must be replicated"});
    expect_error<InvalidArgument>(
        [&] {
          with_rate(placed({{}, DType::kF32, {1}}, Layout::replicated(few)));
        },
        {"learning_rate", "lacks ranks of dp=2,tp=2"});
  });
}

TEST(ListUpdates, GradientsMoveTogetherInsideOfAutoRedistribute) {
  const std::vector<Member> members = {{{8, 4}, on_grid("R,S0")}, {{6}, on_grid("R,R")}, {{4, 4}, on_grid("R,S1")}};
  Results results(4);
  testing::on_worlds(4, {5}, [&] {
    const Tensors params = list_of(members, 1);
    const Tensors grads = {placed(counted({8, 4}), on_grid("P,S0")), placed(counted({6}), on_grid("P,R")),
                           placed(counted({4, 4}), on_grid("R,R"))};
    const ShardCounts before = shard_counts();
    {
      const AutoRedistribute automatic;
      sgd(params, grads);
    }
    EXPECT_EQ(shard_counts().automatic - before.automatic, 3U);
    EXPECT_EQ(shard_counts().collectives - before.collectives, 1U);  // two all-reduces over dp; a slice sends nothing
    EXPECT_THROW(sgd(params, grads), Error);
    for (std::size_t i = 0; i < members.size(); ++i) results.hand_in(i, params[i]);
  });
  for (std::size_t i = 0; i < members.size(); ++i) {
    const Whole want = scaled(members[i].shape, 0.5);
    EXPECT_EQ(ops::testing::difference(results.whole(i), want, 1e-5, members[i].layout), "") << i;
  }
}

TEST(ListUpdates, AreKnownAndTracedAndKeepNothing) {
  const std::vector<Member> members = {{{8, 4}, on_grid("R,S0")}, {{6}, on_grid("R,R")}};
  const Tensors params = list_of(members, 1);  // one rank of the mesh is enough: nothing is sent
  const std::size_t entries = detail::EntryCache::of_process().size();
  const TraceLayouts trace;
  for (int i = 0; i < 10; ++i) sgd(params, params);
  EXPECT_EQ(detail::EntryCache::of_process().size(), entries);
  EXPECT_EQ(trace.counts().calls, 10U);
  EXPECT_EQ(trace.counts().hits, 10U);
  ASSERT_EQ(trace.events().size(), 10U);
  EXPECT_EQ(trace.events()[0].text(),
            "sgd(f32[8, 4] {Replicate(), Shard(0)}, f32[6] {Replicate(), Replicate()}, f32[8, 4] {Replicate(), "
            "Shard(0)}, f32[6] {Replicate(), Replicate()}, f32[], none, none) -> f32[8, 4] {Replicate(), Shard(0)}, "
            "f32[6] {Replicate(), Replicate()}");
}

}  // namespace
}  // namespace tessera::shard
