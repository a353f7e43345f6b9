// The reuse prover: proofs and marks, by example and from seeds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <stdexcept>

#include "tessera/base/error.h"
#include "tessera/memory/detail/capture_order.h"
#include "tessera/memory/testing/capture_program.h"

namespace tessera::memory::suite {
namespace {

using device::Dependency;
using device::EdgeKind;
using memory::detail::CaptureMoment;
using memory::detail::CaptureOrder;
using memory::detail::Marks;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using Dependencies = std::vector<Dependency>;

constexpr StreamId kOne(1);
constexpr StreamId kTwo(2);

Dependency weak(NodeId node) { return {node, EdgeKind::kWeak}; }
Dependency full(NodeId node) { return {node, EdgeKind::kFull}; }

// A capture with explicit nodes.
struct CaptureOrderTest : ::testing::Test {
  NodeId node(Dependencies on = {}) {
    const NodeId id(nodes.size() + 1);
    nodes[id] = std::move(on);
    return id;
  }
  NodeId after(NodeId before) { return node({full(before)}); }
  // Returns the marks of a block freed with this dependency set of the stream.
  Marks marks(StreamId stream, const Dependencies& set, CaptureMoment since = 0) {
    Marks made;
    order.advance(stream, set);
    order.mark(stream, made, since);
    return made;
  }
  bool proves(StreamId stream, const Dependencies& set, const Marks& made) {
    order.advance(stream, set);
    return order.proves(stream, made);
  }

  std::map<NodeId, Dependencies> nodes;
  int asked = 0;
  CaptureOrder order{[this](NodeId id, Dependencies& out) {
    ++asked;
    const Dependencies& edges = nodes.at(id);
    out.insert(out.end(), edges.begin(), edges.end());
  }};
};

TEST_F(CaptureOrderTest, TheOwnStreamMayReuseAtOnce) {
  const NodeId a = node();
  const Marks made = marks(kOne, {full(a)});
  EXPECT_THAT(made, ElementsAre(a));
  EXPECT_TRUE(order.proves(kOne, made));
  EXPECT_TRUE(proves(kOne, {full(after(after(a)))}, made));
}

TEST_F(CaptureOrderTest, AnotherStreamMayReuseOnceItHasJoined) {
  const NodeId root = node();
  const NodeId a = after(root);
  const NodeId b = after(root);
  const Marks made = marks(kOne, {full(a)});
  EXPECT_FALSE(proves(kTwo, {full(b)}, made));
  EXPECT_TRUE(proves(kTwo, {full(b), full(a)}, made));
  EXPECT_TRUE(proves(kTwo, {full(node({full(b), full(a)}))}, made));
  EXPECT_FALSE(proves(kOne, {full(a)}, marks(kTwo, {full(b)})));
}

TEST_F(CaptureOrderTest, AllStreamsThatUsedABlockMustBeOver) {
  const NodeId a = node();
  const NodeId b = node();
  Marks made = marks(kOne, {full(a)});
  order.advance(kTwo, Dependencies{full(b)});
  order.mark(kTwo, made);
  EXPECT_THAT(made, ElementsAre(a, b));
  EXPECT_FALSE(order.proves(kOne, made));
  EXPECT_TRUE(proves(kOne, {full(node({full(a), full(b)}))}, made));
}

TEST_F(CaptureOrderTest, NothingCapturedIsOverAtOnce) {
  const Marks made = marks(kOne, {});
  EXPECT_TRUE(made.empty());
  EXPECT_TRUE(proves(kTwo, {}, made));
}

TEST_F(CaptureOrderTest, AWeakEdgeProvesNothing) {
  const NodeId a = node();
  const NodeId b = node({weak(a)});
  const Marks made = marks(kOne, {full(a)});
  EXPECT_TRUE(order.proves(kOne, made));
  EXPECT_FALSE(proves(kOne, {full(b)}, made));
  EXPECT_FALSE(proves(kOne, {full(after(b))}, made)) << "b is over, a may not be";
  EXPECT_TRUE(proves(kTwo, {full(a)}, made));
}

TEST_F(CaptureOrderTest, AWeakDependencyProvesNothingAndIsMarked) {
  const NodeId a = node();
  const Marks made = marks(kOne, {weak(a)});
  EXPECT_THAT(made, ElementsAre(a));
  EXPECT_FALSE(order.proves(kOne, made));
  EXPECT_FALSE(proves(kOne, {full(node({weak(a)}))}, made));
  EXPECT_TRUE(proves(kOne, {full(node({full(a)}))}, made));
}

TEST_F(CaptureOrderTest, OfAWeakAndAFullEdgeTheFullOneCounts) {
  const NodeId a = node();
  const NodeId b = after(a);
  const NodeId c = node({weak(a), full(b)});
  EXPECT_TRUE(proves(kOne, {full(c)}, marks(kTwo, {full(a)})));
  EXPECT_THAT(marks(kOne, {full(c)}), ElementsAre(c));
}

TEST_F(CaptureOrderTest, MarksOfOrdinaryWorkAreTheDependencySet) {
  NodeId last = node();
  const NodeId side = after(last);
  for (int i = 0; i < 100; ++i) last = after(last);
  EXPECT_THAT(marks(kOne, {full(last), full(side)}), ElementsAre(side, last));
}

TEST_F(CaptureOrderTest, MarksHoldTheSourcesOfWeakEdges) {
  const NodeId a = node();
  const NodeId b = node({weak(a)});
  const NodeId c = after(b);
  const NodeId d = node({weak(c)});
  EXPECT_THAT(marks(kOne, {full(d)}), ElementsAre(a, c, d)) << "b is covered by c";
  EXPECT_THAT(marks(kTwo, {full(node({full(a), full(d)}))}), ElementsAre(c, NodeId(5))) << "a is covered";
}

TEST_F(CaptureOrderTest, ANodeProvenLateProvesWhatIsBehindIt) {
  const NodeId a = node();
  const NodeId b = after(a);
  const NodeId c = node({weak(b)});
  const Marks made = marks(kTwo, {full(a)});
  EXPECT_FALSE(proves(kOne, {full(c)}, made));
  EXPECT_TRUE(proves(kOne, {full(node({full(c), full(b)}))}, made));
}

TEST_F(CaptureOrderTest, ReplacedDependenciesStayMarked) {
  const NodeId a = node();
  const NodeId b = after(a);
  order.advance(kOne, Dependencies{full(a)});
  order.replaced(kOne, Dependencies{full(b)});  // b was captured since
  const NodeId c = after(a);
  const Marks made = marks(kOne, {full(c)});
  EXPECT_THAT(made, ElementsAre(b, c));
  EXPECT_FALSE(order.proves(kOne, made)) << "b may still run";
  EXPECT_TRUE(proves(kOne, {full(node({full(b), full(c)}))}, made));
}

TEST_F(CaptureOrderTest, DependenciesReplacedUnseenAreFoundOut) {
  const NodeId a = node();
  const NodeId b = after(a);
  const Marks of_a = marks(kOne, {full(a)});
  const Marks of_b = marks(kOne, {full(b)});
  const NodeId c = node();
  EXPECT_FALSE(proves(kOne, {full(c)}, of_a));
  EXPECT_FALSE(order.proves(kOne, of_b));
  EXPECT_THAT(marks(kOne, {full(c)}), ElementsAre(b, c));
  EXPECT_TRUE(proves(kOne, {full(c), full(a)}, of_a));
  EXPECT_FALSE(order.proves(kOne, of_b));
}

TEST_F(CaptureOrderTest, DependenciesReplacedByLaterOnesDropNothing) {
  const NodeId a = node();
  const NodeId b = after(a);
  order.advance(kOne, Dependencies{full(a)});
  order.replaced(kOne, Dependencies{full(a)});
  EXPECT_THAT(marks(kOne, {full(b)}), ElementsAre(b));
}

TEST_F(CaptureOrderTest, WorkBeforeABlockNeedsNoMark) {
  const NodeId a = node();
  const NodeId b = node({weak(a)});
  order.advance(kOne, Dependencies{full(b)});
  const CaptureMoment handed_out = order.now();
  const NodeId c = after(b);
  const Marks made = marks(kOne, {full(c)}, handed_out);
  EXPECT_THAT(made, ElementsAre(c)) << "a overlapped b, and neither can have used the block";
  EXPECT_TRUE(order.proves(kOne, made));
  EXPECT_THAT(marks(kOne, {full(c)}), ElementsAre(a, c));
}

TEST_F(CaptureOrderTest, MarksCoverEarlierLivesOfABlockAcrossAnOverlap) {
  const NodeId a = node();  // used the block in its first life
  const Marks first = marks(kOne, {full(a)});
  ASSERT_TRUE(order.proves(kOne, first));
  const CaptureMoment handed_out = order.now();
  const NodeId b = node({weak(a)});  // second life
  const Marks second = marks(kOne, {full(b)}, handed_out);
  EXPECT_FALSE(proves(kTwo, {full(b)}, second)) << "a may still run";
  EXPECT_TRUE(proves(kTwo, {full(b), full(a)}, second));
}

TEST_F(CaptureOrderTest, MarksCoverEarlierLivesOfABlockAcrossAReplacement) {
  const NodeId a = node();
  const Marks first = marks(kOne, {full(a)});
  ASSERT_TRUE(order.proves(kOne, first));
  const CaptureMoment handed_out = order.now();
  const NodeId b = node();
  const Marks second = marks(kOne, {full(b)}, handed_out);
  EXPECT_FALSE(proves(kTwo, {full(b)}, second)) << "a may still run";
}

TEST_F(CaptureOrderTest, MoreStreamsThanAWordHasBits) {
  constexpr std::uint32_t kStreams = 200;
  const NodeId root = node();
  std::vector<Marks> made;
  std::vector<NodeId> own;
  for (std::uint32_t s = 0; s < kStreams; ++s) {
    own.push_back(after(root));
    made.push_back(marks(StreamId(s), {full(own[s])}));
  }
  const Marks of_root = marks(StreamId(kStreams), {full(root)});
  for (std::uint32_t s = 0; s < kStreams; ++s) {
    EXPECT_TRUE(order.proves(StreamId(s), of_root));
    EXPECT_TRUE(order.proves(StreamId(s), made[s]));
    EXPECT_FALSE(order.proves(StreamId(s), made[(s + 64) % kStreams]));
  }
  const Dependencies joined{full(own[3]), full(own[190])};
  EXPECT_TRUE(proves(StreamId(70), joined, made[190]));
  EXPECT_TRUE(proves(StreamId(70), joined, made[3]));
  EXPECT_FALSE(order.proves(StreamId(70), made[70]));
}

TEST_F(CaptureOrderTest, TheDriverIsAskedOnceANode) {
  NodeId last = node();
  for (int i = 0; i < 20'000; ++i) {
    last = after(last);
    if (i % 7 == 0) order.advance(kOne, Dependencies{full(last)});
  }
  order.advance(kTwo, Dependencies{full(last)});
  order.advance(kOne, Dependencies{full(last)});
  EXPECT_EQ(asked, 20'001);
  EXPECT_TRUE(proves(kTwo, {full(last)}, marks(StreamId(9), {full(NodeId(1))})));
  EXPECT_FALSE(order.advance(kOne, Dependencies{full(last)})) << "nothing changed";
  EXPECT_EQ(asked, 20'001);
}

TEST_F(CaptureOrderTest, ManyOverlappingLaunchesAreAllMarked) {
  NodeId last = node();
  std::vector<NodeId> all{last};
  for (int i = 0; i < 1000; ++i) {
    all.push_back(last = node({weak(last)}));
    order.advance(kOne, Dependencies{full(last)});
  }
  EXPECT_THAT(marks(kOne, {full(last)}), ElementsAreArray(all));
  Dependencies everything;
  for (const NodeId id : all) everything.push_back(full(id));
  EXPECT_THAT(marks(kOne, {full(node(everything))}), ElementsAre(NodeId(1002)));
}

TEST_F(CaptureOrderTest, AStreamWhoseNodesCannotBeAskedForProvesNothing) {
  const NodeId a = node();
  const Marks made = marks(kTwo, {full(a)});
  EXPECT_THROW(order.advance(kOne, Dependencies{full(after(NodeId(77))), full(a)}), std::out_of_range);
  EXPECT_FALSE(order.proves(kOne, made));
  EXPECT_FALSE(proves(kOne, {full(a)}, made));
  Marks none;
  EXPECT_THROW(order.mark(kOne, none), InvalidArgument);
  EXPECT_THROW(order.mark(StreamId(5), none), InvalidArgument) << "never advanced";
  EXPECT_FALSE(order.proves(StreamId(5), made));
  EXPECT_TRUE(order.proves(kTwo, made)) << "other streams go on";
}

TEST_F(CaptureOrderTest, AnotherCaptureStartsFromNothing) {
  for (std::uint32_t s = 0; s < 70; ++s) order.advance(StreamId(s), Dependencies{full(node({weak(node())}))});
  const Marks made = marks(StreamId(69), {weak(node())});
  order.reset();
  EXPECT_FALSE(order.proves(StreamId(69), made));
  nodes.clear();
  const NodeId a = node();
  EXPECT_FALSE(proves(StreamId(69), {full(a)}, made));
  EXPECT_THAT(marks(StreamId(69), {full(a)}), ElementsAre(a));
  EXPECT_TRUE(proves(StreamId(68), {full(after(a))}, marks(StreamId(69), {full(a)})));
}

TEST(Marks, HoldEachNodeOnceInOrder) {
  Marks made;
  for (const std::uint64_t id : {7, 3, 7, 9, 1, 3, 1, 8, 9, 2, 8}) made.add(NodeId(id));
  EXPECT_THAT(made, ElementsAre(NodeId(1), NodeId(2), NodeId(3), NodeId(7), NodeId(8), NodeId(9)));
  const Marks copy = made;
  made.clear();
  EXPECT_TRUE(made.empty());
  made.add(NodeId(5));
  EXPECT_THAT(made, ElementsAre(NodeId(5)));
  EXPECT_EQ(copy.size(), 6U);
}

TEST(CaptureOrder, AgreesWithTheOracleOnRandomCaptures) {
  memory::testing::CaptureCounts counts;
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    ASSERT_EQ(memory::testing::check_capture_program(seed, &counts), "") << "seed " << seed;
  }
  EXPECT_GT(counts.proven, 500U);
  EXPECT_GT(counts.refused, 500U);
}

}  // namespace
}  // namespace tessera::memory::suite
