#include "tessera/shard/trace.h"

#include <gtest/gtest.h>

#include <sstream>

#include "tessera/base/error.h"
#include "tessera/base/rank.h"
#include "tessera/base/testing/expect_error.h"
#include "tessera/comm/world.h"
#include "tessera/memory/label.h"
#include "tessera/ops/create/create.h"
#include "tessera/ops/matrix/matrix.h"
#include "tessera/ops/nn/softmax.h"
#include "tessera/shard/redistribute.h"
#include "tessera/shard/testing/all_ranks.h"

namespace tessera::shard {
namespace {

using layout::Layout;
using layout::Mesh;
using testing::counted;
using testing::placed;

TEST(Trace, TellsCallsMovesAndCooperation) {
  const Mesh mesh = Mesh::parse("tp=2@memory");
  simulate(2, [&] {
    std::ostringstream text;
    const Tensor x = placed(counted({4, 6}), Layout::parse(mesh, "S1"));
    const Tensor w = placed(counted({6, 4}), Layout::parse(mesh, "S0"));
    const TraceLayouts outer;
    {
      const TraceLayouts trace(&text);
      const memory::Label label("encoder");
      const Tensor y = redistribute(ops::mm(x, w), Layout::parse(mesh, "R"));
      ops::softmax(x, 1);
      EXPECT_EQ(trace.events().size(), 5U);
      EXPECT_EQ(trace.counts().calls, 2U);
      EXPECT_EQ(trace.counts().collectives, 3U);
    }
    ops::softmax(x, 0);
    EXPECT_EQ(outer.events().size(), 6U);
    EXPECT_EQ(outer.counts().calls, 3U);
    const std::string lines = text.str();
    for (const char* line :
         {"mm(f32[4, 6] {Shard(1)}, f32[6, 4] {Shard(0)}) -> f32[4, 4] {Partial()} [encoder]\n",
          "move f32[4, 4] {Partial()} -> {Replicate()}: all-reduce over tp, 64 B, ", " us; requested [encoder]\n",
          "softmax(f32[4, 6] {Shard(1)}) -> f32[4, 6] {Shard(1)}", "softmax cooperates over tp: 16 B [encoder]\n"}) {
      EXPECT_NE(lines.find(line), std::string::npos) << line << "is missing in\n" << lines;
    }
  });
}

TEST(Visualize, DrawsWhoOwnsWhat) {
  const Mesh mesh = Mesh::parse("dp=2,tp=2");
  EXPECT_EQ(visualize(ops::empty({5, 4}, {.layout = Layout::parse(mesh, "S0,S1")})),
            "f32[5, 4] dp=2,tp=2 {Shard(0), Shard(1)}\n"
            "      | 0:2  2:4\n"
            "  0:3 | 0    1\n"
            "  3:5 | 2    3\n");
  EXPECT_EQ(visualize(ops::empty({6}, {.layout = Layout::parse(mesh, "R,S0")})),
            "f32[6] dp=2,tp=2 {Replicate(), Shard(0)}\n"
            "  0:3 | 0,2\n"
            "  3:6 | 1,3\n");
  EXPECT_EQ(visualize(ops::empty({4, 6}, {.layout = Layout::parse(mesh, "R,S1")})),
            "f32[4, 6] dp=2,tp=2 {Replicate(), Shard(1)}\n"
            "      | 0:3  3:6\n"
            "  0:4 | 0,2  1,3\n");
  const Tensor partial = Tensor::sharded({2}, DType::kF32, Layout::parse(mesh, "P,R"), {});
  EXPECT_EQ(visualize(partial),
            "f32[2] dp=2,tp=2 {Partial(), Replicate()}\n"
            "  0:2 | 0-3\n"
            "  partial: sum over dp\n");
}

TEST(Visualize, SaysWhoHoldsNothingAndWhatIsPartial) {
  EXPECT_EQ(visualize(ops::empty({5}, {.layout = Layout::parse("x=8 {Shard(0)}")})),
            "f32[5] x=8 {Shard(0)}\n"
            "  0:1 | 0\n"
            "  1:2 | 1\n"
            "  2:3 | 2\n"
            "  3:4 | 3\n"
            "  4:5 | 4\n"
            "  empty shards: 5-7\n");
  const Layout partial = Layout::parse("a=2,b=4,c=2 {Partial(), 2:Partial()*2:Replicate(), Replicate()}");
  EXPECT_EQ(visualize(Tensor::sharded({}, DType::kF32, partial, {})),
            "f32[] a=2,b=4,c=2 {Partial(), 2:Partial()*2:Replicate(), Replicate()}\n"
            "  scalar | 0-15\n"
            "  partial: sum over a and 2 of the 4 of b\n");
  EXPECT_EQ(visualize(ops::empty({0, 3}, {.layout = Layout::parse("x=2 {Shard(0)}")})),
            "f32[0, 3] x=2 {Shard(0)}\n  no elements\n");
}

TEST(Visualize, DrawsOfManyDimensionsThoseThatAreCut) {
  const Mesh mesh = Mesh::parse("dp=2,tp=2");
  EXPECT_EQ(visualize(ops::empty({4, 3, 6}, {.layout = Layout::parse(mesh, "S0,S2")})),
            "f32[4, 3, 6] dp=2,tp=2 {Shard(0), Shard(2)}\n"
            "  dim 0 \\ dim 2 | 0:3  3:6\n"
            "  0:2           | 0    1\n"
            "  2:4           | 2    3\n");
  EXPECT_EQ(visualize(ops::empty({4, 3, 6}, {.layout = Layout::parse(mesh, "R,S1")})),
            "f32[4, 3, 6] dp=2,tp=2 {Replicate(), Shard(1)}\n"
            "  dim 1 |\n"
            "  0:2   | 0,2\n"
            "  2:3   | 1,3\n");
  EXPECT_EQ(visualize(ops::empty({4, 3, 6}, {.layout = Layout::replicated(mesh)})),
            "f32[4, 3, 6] dp=2,tp=2 {Replicate(), Replicate()}\n"
            "  all | 0-3\n");
  expect_error<InvalidArgument>(
      [] {
        (void)visualize(ops::empty({2, 2, 2}, {.layout = Layout::parse("a=2,b=2,c=2 {Shard(0), Shard(1), Shard(2)}")}));
      },
      {"at most two dimensions may be sharded", "select()"});
}

}  // namespace
}  // namespace tessera::shard
