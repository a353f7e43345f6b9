// Rejected replays of graphs that share memory, and their messages, by example and from seeds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "tessera/base/error.h"
#include "tessera/memory/detail/replay_order.h"
#include "tessera/memory/testing/replay_program.h"

namespace tessera::memory::suite {
namespace {

using memory::detail::GraphInput;
using memory::detail::GraphKey;
using memory::detail::ReplayOrder;
using memory::detail::ReplayRange;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr StreamId kOne(1);
constexpr StreamId kTwo(2);

struct ReplayOrderTest : ::testing::Test {
  // Announces and adds a graph.
  GraphKey add(std::string name, std::vector<ReplayRange> writes, const std::vector<GraphInput>& inputs) {
    const GraphKey key = order.announce(std::move(name));
    order.add(key, std::move(writes), inputs);
    return key;
  }
  // Returns the reason of a rejection; "" if it was replayed.
  std::string replay(GraphKey graph, StreamId on = kOne) {
    const auto why = order.refusal(graph, on, [&](StreamId, Tick tick) { return over.contains(tick.value()); });
    if (why.has_value()) return *why;
    order.replayed(graph, on, Tick(++ticks));
    return "";
  }

  ReplayOrder order;
  std::uint64_t ticks = 0;       // of all streams together
  std::set<std::uint64_t> over;  // ticks ordered before all replays
};

TEST_F(ReplayOrderTest, IndependentGraphsReplayInAnyOrder) {
  std::vector<GraphKey> graphs;
  for (std::uintptr_t i = 1; i <= 32; ++i) {
    graphs.push_back(add("size " + std::to_string(i), {{0x10000, 0x10000 + i * 512}}, {}));
  }
  std::mt19937 random(1);
  for (int round = 0; round < 20; ++round) {
    std::shuffle(graphs.begin(), graphs.end(), random);
    for (const GraphKey graph : graphs) ASSERT_EQ(replay(graph), "");
  }
}

TEST_F(ReplayOrderTest, AnInputMustHaveBeenWritten) {
  const GraphKey writer = add("prefill", {{0x1000, 0x3000}}, {});
  const GraphKey reader = add("decode", {{0x8000, 0x9000}}, {{{0x1800, 0x2000}, writer}});
  EXPECT_THAT(replay(reader), AllOf(HasSubstr("'decode' reads 2048 bytes at 0x1800"), HasSubstr("never replayed"),
                                    HasSubstr("replay graph 'prefill' first")));
  EXPECT_EQ(replay(writer), "");
  EXPECT_EQ(replay(reader), "");
  EXPECT_EQ(replay(reader), "");
}

TEST_F(ReplayOrderTest, AnOverwrittenInputIsRefusedUntilItIsWrittenAgain) {
  const GraphKey writer = add("prefill", {{0x1000, 0x3000}}, {});
  const GraphKey beside = add("beside", {{0x1000, 0x1800}, {0x2000, 0x4000}}, {});
  const GraphKey over_it = add("other", {{0x1FFF, 0x2001}}, {});
  const GraphKey reader = add("decode", {{0x8000, 0x9000}}, {{{0x1800, 0x2000}, writer}});
  ASSERT_EQ(replay(over_it), "");
  ASSERT_EQ(replay(writer), "");
  EXPECT_EQ(replay(beside), "");
  EXPECT_EQ(replay(reader), "");
  EXPECT_EQ(replay(over_it), "");
  EXPECT_THAT(replay(reader), AllOf(HasSubstr("'prefill'"), HasSubstr("graph 'other' has overwritten since"),
                                    HasSubstr("replay graph 'prefill' again")));
  EXPECT_EQ(replay(writer), "");
  EXPECT_EQ(replay(reader), "");
}

TEST_F(ReplayOrderTest, AGraphThatOverwritesItsOwnInputNeedsItAnew) {
  const GraphKey writer = add("prefill", {{0x1000, 0x2000}}, {});
  const GraphKey reader = add("decode", {{0x1800, 0x1900}}, {{{0x1000, 0x2000}, writer}});
  ASSERT_EQ(replay(writer), "");
  EXPECT_EQ(replay(reader), "");
  EXPECT_THAT(replay(reader), HasSubstr("overwritten"));
  EXPECT_EQ(replay(writer), "");
  EXPECT_EQ(replay(reader), "");
}

TEST_F(ReplayOrderTest, AConcurrentReplayOverSharedMemoryIsRefused) {
  const GraphKey a = add("a", {{0x1000, 0x2000}}, {});
  const GraphKey b = add("b", {{0x1F00, 0x3000}}, {});
  const GraphKey apart = add("apart", {{0x4000, 0x5000}}, {});
  ASSERT_EQ(replay(a, kOne), "");
  EXPECT_EQ(replay(apart, kTwo), "");
  EXPECT_THAT(replay(b, kTwo), AllOf(HasSubstr("graph 'b' shares 256 bytes at 0x1f00 with graph 'a'"),
                                     HasSubstr("on stream 1"), HasSubstr("let stream 2 wait")));
  EXPECT_EQ(replay(b, kOne), "") << "one stream is in order";
}

TEST_F(ReplayOrderTest, OrderOrCompletionLetsAReplayPass) {
  const GraphKey a = add("a", {{0x1000, 0x2000}}, {});
  const GraphKey b = add("b", {{0x1000, 0x2000}}, {});
  ASSERT_EQ(replay(a, kOne), "");
  ASSERT_NE(replay(b, kTwo), "");
  over.insert(ticks);
  EXPECT_EQ(replay(b, kTwo), "");
  EXPECT_NE(replay(a, kOne), "") << "now b may still run";
}

TEST_F(ReplayOrderTest, ReplaysOfOneGraphFollowEachOtherOnAnyStreams) {
  const GraphKey other = add("other", {{0x1000, 0x2000}}, {});
  const GraphKey a = add("a", {{0x1000, 0x2000}}, {});
  ASSERT_EQ(replay(other, kOne), "");
  ASSERT_EQ(replay(a, kOne), "");
  EXPECT_EQ(replay(a, kTwo), "") << "after its own latest replay, which came after the other graph's";
}

TEST_F(ReplayOrderTest, AWriterWaitsForReadersAndReadersForTheWriter) {
  const GraphKey writer = add("writer", {{0x1000, 0x2000}}, {});
  const GraphKey left = add("left", {{0x3000, 0x4000}}, {{{0x1000, 0x2000}, writer}});
  const GraphKey right = add("right", {{0x5000, 0x6000}}, {{{0x1000, 0x2000}, writer}});
  ASSERT_EQ(replay(writer, kOne), "");
  EXPECT_THAT(replay(left, kTwo), HasSubstr("may still run"));
  over.insert(ticks);
  EXPECT_EQ(replay(left, kTwo), "");
  EXPECT_EQ(replay(right, kOne), "") << "two readers run together";
  EXPECT_THAT(replay(writer, kOne), HasSubstr("'left'"));
}

TEST_F(ReplayOrderTest, TheOutputOfARemovedGraphIsGoodUntilOverwritten) {
  const GraphKey writer = add("writer", {{0x1000, 0x2000}}, {});
  const GraphKey before = add("before", {{0x3000, 0x4000}}, {{{0x1000, 0x1800}, writer}});
  const GraphKey other = add("other", {{0x17FF, 0x1900}}, {});
  ASSERT_EQ(replay(writer), "");
  order.remove(writer);
  EXPECT_EQ(replay(before), "");
  const GraphKey after = add("after", {{0x5000, 0x6000}}, {{{0x1400, 0x2000}, writer}});
  EXPECT_EQ(replay(after), "");
  EXPECT_EQ(replay(other), "");
  EXPECT_THAT(replay(before), AllOf(HasSubstr("graph 'writer'"), HasSubstr("'other' has overwritten")));
  order.remove(other);
  EXPECT_THAT(replay(after), AllOf(HasSubstr("graph 'writer'"), HasSubstr("'other' has overwritten")));
  EXPECT_THROW((void)replay(writer), InvalidArgument);
  EXPECT_EQ(order.size(), 2U);
}

TEST_F(ReplayOrderTest, AGraphRemovedBeforeItWasReplayedHasNoOutput) {
  const GraphKey writer = add("writer", {{0x1000, 0x2000}}, {});
  const GraphKey reader = add("reader", {{0x3000, 0x4000}}, {{{0x1000, 0x1800}, writer}});
  order.remove(writer);
  EXPECT_THAT(replay(reader), AllOf(HasSubstr("graph 'writer'"), HasSubstr("removed before")));
}

TEST_F(ReplayOrderTest, TheLastReplayOfARemovedGraphMayStillRun) {
  const GraphKey writer = add("writer", {{0x1000, 0x2000}}, {});
  const GraphKey reader = add("reader", {{0x3000, 0x4000}}, {{{0x1000, 0x1800}, writer}});
  ASSERT_EQ(replay(writer, kOne), "");
  ASSERT_EQ(replay(reader, kOne), "");
  order.remove(reader);
  const GraphKey later = add("later", {{0x1700, 0x1710}}, {});
  EXPECT_THAT(replay(later, kTwo), HasSubstr("'writer'"));
  over.insert(1);
  EXPECT_THAT(replay(later, kTwo), AllOf(HasSubstr("'reader'"), HasSubstr("may still run")));
  over.insert(2);
  EXPECT_EQ(replay(later, kTwo), "");
}

TEST_F(ReplayOrderTest, AGraphMayReadWhatOneWritesThatIsStillBeingCaptured) {
  const GraphKey writer = order.announce("writer");
  const GraphKey reader = add("reader", {{0x3000, 0x4000}}, {{{0x1000, 0x1800}, writer}});
  EXPECT_THAT(replay(reader), HasSubstr("replay graph 'writer' first"));
  order.add(writer, {{0x1000, 0x2000}}, {});
  EXPECT_THAT(replay(reader), HasSubstr("replay graph 'writer' first"));
  ASSERT_EQ(replay(writer, kTwo), "");
  EXPECT_THAT(replay(reader, kOne), HasSubstr("may still run"));
  EXPECT_EQ(replay(reader, kTwo), "");
  EXPECT_TRUE(order.remove(writer));
  EXPECT_EQ(replay(reader, kTwo), "");
}

TEST_F(ReplayOrderTest, WhatNoGraphWroteIsGoodUntilOneOverwritesIt) {
  const GraphKey dropped = order.announce("dropped");
  const GraphKey before = add("before", {{0x3000, 0x4000}}, {{{0x1000, 0x1800}, dropped}});
  const GraphKey other = add("other", {{0x17FF, 0x1900}}, {});
  EXPECT_THAT(replay(before), HasSubstr("replay graph 'dropped' first"));
  EXPECT_FALSE(order.remove(dropped));
  EXPECT_EQ(replay(before, kOne), "");
  EXPECT_THAT(replay(other, kTwo), AllOf(HasSubstr("1 bytes at 0x17ff with graph 'before'"), HasSubstr("still run")));
  EXPECT_EQ(replay(other, kOne), "");
  EXPECT_THAT(replay(before), AllOf(HasSubstr("no graph wrote"), HasSubstr("graph 'other' has overwritten"),
                                    HasSubstr("capture 'before' again")));
  const GraphKey after = add("after", {{0x5000, 0x6000}}, {{{0x1000, 0x1800}, GraphKey()}});
  EXPECT_EQ(replay(after), "") << "what was in it when it was captured is what it wants";
  ASSERT_EQ(replay(other), "");
  order.remove(other);
  EXPECT_THAT(replay(after), HasSubstr("graph 'other' has overwritten"));
}

TEST_F(ReplayOrderTest, WhatCannotBeIsRefused) {
  const GraphKey writer = add("writer", {{0x1000, 0x2000}, {0x2000, 0x3000}}, {});
  EXPECT_THROW((void)add("empty", {{0x1000, 0x1000}}, {}), InvalidArgument);
  EXPECT_THROW((void)add("empty input", {}, {{{0x1000, 0x1000}, writer}}), InvalidArgument);
  EXPECT_THROW((void)add("outside", {}, {{{0x2F00, 0x3001}, writer}}), InvalidArgument);
  EXPECT_THROW(order.remove(GraphKey()), InvalidArgument);
  EXPECT_THROW(order.add(writer, {}, {}), InvalidArgument) << "it was added before";
  EXPECT_NO_THROW((void)add("across", {}, {{{0x1800, 0x2800}, writer}}));
}

TEST(ReplayOrder, AgreesWithTheModelOfBytesOnRandomPrograms) {
  memory::testing::ReplayCounts counts;
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    ASSERT_EQ(memory::testing::check_replay_program(seed, &counts), "") << "seed " << seed;
  }
  EXPECT_GT(counts.accepted, 500U);
  EXPECT_GT(counts.refused, 500U);
}

}  // namespace
}  // namespace tessera::memory::suite
