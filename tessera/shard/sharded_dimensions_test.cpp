// Operators along sharded dimensions: rejected calls and their fixes, outputs given by the caller, and the same order
// of values as on one device.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "tessera/base/error.h"
#include "tessera/base/testing/expect_error.h"
#include "tessera/comm/world.h"
#include "tessera/ops/index/index.h"
#include "tessera/ops/nn/attention.h"
#include "tessera/ops/nn/norm.h"
#include "tessera/ops/nn/softmax.h"
#include "tessera/ops/reduce/reduce.h"
#include "tessera/ops/shape/arrange.h"
#include "tessera/ops/shape/shape.h"
#include "tessera/shard/scopes.h"
#include "tessera/shard/testing/all_ranks.h"
#include "tessera/shard/trace.h"
#include "tessera/tensor/call.h"

namespace tessera::shard {
namespace {

using layout::Layout;
using layout::Mesh;
using testing::placed;
using testing::Results;
using testing::Whole;
using Tensors = std::vector<Tensor>;

Whole values(const Shape& shape) { return testing::counted(shape, DType::kF64); }

TEST(ShardedDimensions, WhatWouldMoveIsRefusedWithThePlan) {
  simulate(4, [] {
    const Mesh mesh = Mesh::parse("x=4");
    const Tensor x = placed(values({6, 9}), Layout::parse(mesh, "S1"));
    const std::vector<std::function<void()>> calls = {
        [&] { ops::flip(x, {1}); },      [&] { ops::roll(x, {2}, {1}); },     [&] { ops::pad(x, {2, 3}); },
        [&] { ops::slice(x, 1, 2, 7); }, [&] { ops::cat(Tensors{x, x}, 1); }, [&] { ops::unslice(x, 1, 21, 2, 2); }};
    for (int pass = 0; pass < 2; ++pass) {  // before and after the call is cached
      for (const auto& call : calls) {
        expect_error<InvalidArgument>(
            call, {"elements must move to other ranks", "AutoRedistribute", "box exchange over x", "received",
                   "cheapest fixes:", "redistribute(", "all-gather"});
        const ForbidCommunication none;
        expect_error<InvalidArgument>(call, {"box exchange over x", "ForbidCommunication"});
      }
      const AutoRedistribute automatic;
      for (const auto& call : calls) call();
    }
    EXPECT_EQ(shard_counts().automatic, 2 * calls.size());
    const ForbidCommunication none;
    EXPECT_EQ(ops::pad(placed(values({6, 7}), x.layout()), {0, 1}).layout(), x.layout()) << "nothing has to move";
    EXPECT_EQ(ops::roll(x, {2}, {0}).layout(), x.layout());
  });
}

TEST(ShardedDimensions, WhatWouldGatherIsRefusedWithFixes) {
  simulate(4, [] {
    const Mesh mesh = Mesh::parse("x=4");
    const Tensor x = placed(values({4, 8}), Layout::parse(mesh, "S1"));
    const Layout sequence = Layout::parse(mesh, "S2");
    const Tensor q = placed(values({2, 2, 8, 4}), sequence);
    expect_error<InvalidArgument>([&] { ops::scaled_dot_product_attention(q, q, q); },
                                  {"operands disagree", "redistribute(q, ", "all-gather over x", " us"});
    expect_error<InvalidArgument>([&] { ops::sort(x, 1); }, {"operands disagree", "redistribute("});
    expect_error<InvalidArgument>([&] { ops::multinomial(ops::softmax(x, 1), 3, true); },
                                  {"operands disagree", "redistribute("});
    EXPECT_EQ(ops::sort(x, 0).first.layout(), x.layout());
  });
}

TEST(ShardedDimensions, ResultsAreWrittenIntoTensorsOfTheirLayoutAlone) {
  Results results(4);
  const std::vector<double> want = [] {
    const Tensor rolled = ops::roll(testing::plain(values({6, 9})), {2}, {1});
    ops::testing::wait_for_work();
    return ops::testing::read(rolled).values;
  }();
  simulate(4, [&] {
    const Mesh mesh = Mesh::parse("x=4");
    const Layout sharding = Layout::parse(mesh, "S1");
    const AutoRedistribute automatic;
    const Tensor x = placed(values({6, 9}), sharding);
    const Tensor out = placed(values({6, 9}), sharding);
    const ops::RollAttributes by{{2}, {1}};
    tensor::call_out(tensor::find_op("roll"), out, {x}, by);
    EXPECT_EQ(out.layout(), sharding);
    results.hand_in(0, out);
    const Tensor whole = placed(values({6, 9}), Layout::replicated(mesh));
    tensor::call_out(tensor::find_op("roll"), whole, {x}, by);
    results.hand_in(1, whole);
    const Tensor pending = placed(values({6, 9}), Layout::parse(mesh, "P"));
    expect_error<InvalidArgument>([&] { tensor::call_out(tensor::find_op("roll"), pending, {x}, by); }, {"roll"});
  });
  EXPECT_EQ(results.whole(0).values, want);
  EXPECT_EQ(results.whole(1).values, want);
}

TEST(ShardedDimensions, TopkOrdersAsOneDevice) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const std::vector<Whole> lines = {
      {{10}, DType::kF64, {3, kNan, -kInf, 3, kInf, -kInf, kNan, 1, 3, kInf}},
      {{10}, DType::kF32, {-kInf, -kInf, kNan, kNan, kInf, kInf, 0, -1, kNan, 2}},
      {{10}, DType::kI64, {5, 5, 5, 4, 5, 9, 9, 4, 5, 9}},
      {{10}, DType::kU8, {0, 255, 0, 255, 0, 255, 7, 0, 255, 0}},
      {{10}, DType::kBool, {0, 1, 0, 0, 1, 1, 0, 1, 0, 0}},
  };
  const std::int64_t blocks[] = {1, 2, 5};
  const Mesh mesh = Mesh::parse("x=4");
  const auto sharded_by = [&](std::size_t l) {
    layout::LayoutParts parts = Layout::parse(mesh, "S0").parts();
    parts.dims[0].shardings[0].blocks = blocks[l];
    return Layout::create(mesh, std::move(parts));
  };
  Results results(4);
  const auto all = [&](const std::function<Tensor(const Whole&, std::size_t)>& make,
                       const std::function<void(std::size_t, const Tensor&)>& take) {
    std::size_t number = 0;
    for (std::size_t l = 0; l < std::size(blocks); ++l) {
      for (const Whole& line : lines) {
        for (const std::int64_t k : {1, 4, 10}) {
          for (const bool is_largest : {false, true}) {
            const auto [best, places] = ops::topk(make(line, l), k, 0, is_largest);
            take(number++, best);
            take(number++, places);
          }
        }
      }
    }
    return number;
  };
  simulate(4, [&] {
    all([&](const Whole& line, std::size_t l) { return placed(line, sharded_by(l)); },
        [&](std::size_t number, const Tensor& tensor) { results.hand_in(number, tensor); });
  });
  all([&](const Whole& line, std::size_t) { return testing::plain(line); },
      [&](std::size_t number, const Tensor& tensor) {
        ops::testing::wait_for_work();
        const std::vector<double> want = ops::testing::read(tensor).values;
        const std::vector<double> got = results.whole(number).values;
        ASSERT_EQ(got.size(), want.size());
        for (std::size_t i = 0; i < want.size(); ++i) {
          EXPECT_TRUE(got[i] == want[i] || (std::isnan(got[i]) && std::isnan(want[i])))
              << number << " at " << i << ": " << got[i] << ", not " << want[i];
        }
      });
}

TEST(ShardedDimensions, CumsumOfWhatIsNotFiniteStaysWhereItIs) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const Whole line{{6}, DType::kF64, {1, 2, 3, 4, kInf, 5}};
  Results results(4);
  simulate(4, [&] {
    results.hand_in(0, ops::cumsum(placed(line, Layout::parse(Mesh::parse("x=4"), "S0")), 0));
    const Whole marks{{6}, DType::kBool, {1, 0, 1, 1, 1, 0}};
    const Tensor counts = ops::cumsum(placed(marks, Layout::parse(Mesh::parse("x=4"), "S0")), 0);
    EXPECT_EQ(counts.dtype(), DType::kI64);
    results.hand_in(1, counts);
  });
  EXPECT_EQ(results.whole(0).values, (std::vector<double>{1, 3, 6, 10, kInf, kInf}));
  EXPECT_EQ(results.whole(1).values, (std::vector<double>{1, 1, 2, 3, 4, 4}));
}

TEST(ShardedDimensions, MeansOfUnevenPartsArePartialSums) {
  simulate(4, [] {
    const Mesh mesh = Mesh::parse("x=4");
    const Tensor x = placed(values({3, 7}), Layout::parse(mesh, "S1"));
    EXPECT_EQ(ops::mean(x, {1}).layout(), Layout::parse(mesh, "P"));
    EXPECT_EQ(shard_counts().collectives, 0U);
  });
}

// One input names the complete axis, another its sub-axes: they use one group.
TEST(ShardedDimensions, AnAxisAndItsPartsAreTheSameRanks) {
  const char* const ways[] = {"S0", "{2:Shard(0)*2:Shard(0)}"};
  Results results(4);
  simulate(4, [&] {
    const Mesh mesh = Mesh::parse("x=4");
    std::size_t number = 0;
    for (const char* of_x : ways) {
      for (const char* of_weight : ways) {
        const Tensor x = placed(values({12}), Layout::parse(mesh, of_x));
        const Tensor weight = placed(values({12}), Layout::parse(mesh, of_weight));
        Tensor y;
        EXPECT_EQ(testing::collectives([&] { y = ops::rms_norm(x, weight); }), 1U) << of_x << " " << of_weight;
        results.hand_in(number++, y);
      }
    }
  });
  const Tensor want = ops::rms_norm(testing::plain(values({12})), testing::plain(values({12})));
  const Whole one_device = testing::read(want);
  for (std::size_t number = 0; number < 4; ++number) EXPECT_EQ(results.wrong_with(number, one_device, 1e-12), "");
}

TEST(ShardedDimensions, MovesOfElementsAreTraced) {
  simulate(2, [] {
    const Tensor x = placed(values({6}), Layout::parse(Mesh::parse("x=2"), "S0"));
    const AutoRedistribute automatic;
    const TraceLayouts trace;
    ops::roll(x, {1}, {0});
    ASSERT_EQ(trace.events().size(), 2U);
    EXPECT_EQ(trace.events()[1].kind, TraceEvent::Kind::kMove);
    EXPECT_EQ(trace.events()[1].op, "roll");
    EXPECT_TRUE(trace.events()[1].is_automatic);
    EXPECT_EQ(trace.events()[1].nbytes, 8);
    EXPECT_EQ(trace.counts().nbytes, 8U);
    EXPECT_EQ(trace.counts().collectives, 1U);
  });
}

}  // namespace
}  // namespace tessera::shard
