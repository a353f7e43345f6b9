// Graphs: inspection, replay and its order, update, clone, and lifetimes.
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "tessera/device/suite/device_suite.h"

namespace tessera::device::suite {

using Lines = std::vector<std::string>;

namespace {

/// Captures the work of `body` on the stream.
template <class F>
Graph captured(const Stream& stream, const F& body) {
  stream.begin_capture();
  body();
  return stream.end_capture();
}

}  // namespace

TEST_P(DeviceSuite, ReplaysOnOneStreamRunInOrder) {
  const GraphExec a = captured(stream, [&] { note(stream, "a"); }).instantiate();
  const GraphExec b = captured(stream, [&] { note(stream, "b"); }).instantiate();
  const Hold held = hold(stream);
  a.launch(stream);
  b.launch(stream);
  b.launch(stream);
  a.launch(stream);
  EXPECT_TRUE(is_stuck(stream));
  EXPECT_EQ(journal(), Lines{});
  held.release();
  finish(stream);
  EXPECT_EQ(journal(), (Lines{"a", "b", "b", "a"}));
}

TEST_P(DeviceSuite, AReplayRunsBetweenTheWorkBeforeAndAfterIt) {
  const DeviceInts a = ints(128), b = ints(128);
  const GraphExec exec = captured(stream, [&] { copy(stream, b, a); }).instantiate();
  const Hold held = hold(stream);
  fill(stream, a, 4);
  exec.launch(stream);
  fill(stream, a, 9);
  held.release();
  finish(stream);
  EXPECT_EQ(read(b), all(128, 4));
}

TEST_P(DeviceSuite, AReplayIsOrderedByEventsLikeOtherWork) {
  const Stream other = make_stream("other");
  const Event ready = device.create_event(), done = device.create_event();
  const GraphExec exec = captured(stream, [&] { note(stream, "replay"); }).instantiate();
  const Hold held = hold(other);
  note(other, "before");
  other.record(ready);
  stream.wait(ready);
  exec.launch(stream);
  stream.record(done);
  other.wait(done);
  note(other, "after");
  EXPECT_TRUE(is_stuck(stream));
  EXPECT_EQ(journal(), Lines{});
  held.release();
  finish(other);
  EXPECT_EQ(journal(), (Lines{"before", "replay", "after"}));
}

TEST_P(DeviceSuite, AReplayKeepsTheOrderOfEveryEdge) {
  const Stream side = make_stream("side");
  const Event fork = device.create_event(), join = device.create_event();
  const DeviceInts root = ints(256), left = ints(256), right = ints(256), sum = ints(256);
  const Graph graph = captured(stream, [&] {
    add(stream, root, 1);
    stream.record(fork);
    side.wait(fork);
    copy(stream, left, root);
    copy(side, right, root);
    add(side, right, 10);
    side.record(join);
    stream.wait(join);
    copy(stream, sum, right);
  });
  for (const auto parallel : {InstantiateOptions::Parallel::kAuto, InstantiateOptions::Parallel::kNever,
                              InstantiateOptions::Parallel::kAlways}) {
    fill(stream, root, 0);
    const GraphExec exec = graph.instantiate({.parallel = parallel});
    for (int i = 1; i <= 20; ++i) exec.launch(stream);
    finish(stream);
    EXPECT_EQ(read(root), all(256, 20));
    EXPECT_EQ(read(left), all(256, 20));
    EXPECT_EQ(read(sum), all(256, 30));
  }
}

TEST_P(DeviceSuite, AParallelReplayJoinsEveryBranch) {
  const Event fork = device.create_event();
  std::vector<Stream> sides;
  for (int i = 0; i < 4; ++i) sides.push_back(make_stream("side " + std::to_string(i)));
  const Graph graph = captured(stream, [&] {
    note(stream, "root");
    stream.record(fork);
    for (const Stream& side : sides) {
      side.wait(fork);
      note(side, "branch");
      const Event join = device.create_event();
      side.record(join);
      stream.wait(join);
    }
    note(stream, "end");
  });
  const GraphExec exec = graph.instantiate({.parallel = InstantiateOptions::Parallel::kAlways});
  Lines expected;
  for (int i = 0; i < 10; ++i) {
    exec.launch(stream);
    for (const char* line : {"root", "branch", "branch", "branch", "branch", "end"}) expected.emplace_back(line);
  }
  finish(stream);
  EXPECT_EQ(journal(), expected);
}

TEST_P(DeviceSuite, KernelArgumentsAreKeptByTheGraph) {
  const DeviceInts a = ints(16);
  Graph graph;
  {
    int value = 6;
    stream.begin_capture();
    stream.launch(subject().kernel("fill_ints"), {}, KernelArgs(a.data, a.count, value));
    value = 99;
    graph = stream.end_capture();
  }
  graph.instantiate().launch(stream);
  finish(stream);
  EXPECT_EQ(read(a), all(16, 6));
}

TEST_P(DeviceSuite, TwoGraphsRunAtOnceOnTwoStreams) {
  const Stream other = make_stream("other");
  std::uint64_t* const flag = word();
  const GraphExec stuck = captured(stream, [&] {
                            stream.wait_value(flag, 1);
                            note(stream, "first");
                          }).instantiate();
  const GraphExec quick = captured(other, [&] { note(other, "second"); }).instantiate();
  stuck.launch(stream);
  quick.launch(other);
  finish(other);
  EXPECT_TRUE(is_stuck(stream));
  EXPECT_EQ(journal(), Lines{"second"});
  store(flag, 1);
  finish(stream);
  EXPECT_EQ(journal(), (Lines{"second", "first"}));
}

TEST_P(DeviceSuite, AGraphLetsAnotherGoByAWord) {
  const Stream other = make_stream("other");
  std::uint64_t* const flag = word();
  const GraphExec waits = captured(stream, [&] {
                            stream.wait_value(flag, 1);
                            note(stream, "waited");
                          }).instantiate();
  const GraphExec writes = captured(other, [&] {
                             note(other, "writes");
                             other.write_value(flag, 1);
                           }).instantiate();
  waits.launch(stream);
  writes.launch(other);
  finish(stream);
  EXPECT_EQ(journal(), (Lines{"writes", "waited"}));
}

TEST_P(DeviceSuite, OneExecutableDoesNotOverlapItselfOnTwoStreams) {
  const Stream other = make_stream("other");
  std::uint64_t* const flag = word();
  const GraphExec exec = captured(stream, [&] {
                           note(stream, "in");
                           stream.wait_value(flag, 1);
                           note(stream, "out");
                         }).instantiate();
  exec.launch(stream);
  exec.launch(other);
  EXPECT_TRUE(is_stuck(stream));
  EXPECT_TRUE(is_stuck(other));
  EXPECT_LE(journal().size(), 1U);
  store(flag, 1);
  finish(stream);
  finish(other);
  EXPECT_EQ(journal(), (Lines{"in", "out", "in", "out"}));
}

TEST_P(DeviceSuite, UpdateReplacesTheWorkOfTheNodes) {
  const DeviceInts a = ints(32), b = ints(32);
  const GraphExec exec = captured(stream, [&] {
                           add(stream, a, 1);
                           note(stream, "old");
                         }).instantiate();
  const Graph fresh = captured(stream, [&] {
    add(stream, b, 5);
    note(stream, "new");
  });
  const UpdateResult result = exec.update(fresh);
  EXPECT_TRUE(result.updated) << result.reason;
  exec.launch(stream);
  finish(stream);
  EXPECT_EQ(read(a), all(32, 0));
  EXPECT_EQ(read(b), all(32, 5));
  EXPECT_EQ(journal(), Lines{"new"});
}

TEST_P(DeviceSuite, UpdateDoesNotTouchLaunchesMadeBefore) {
  const DeviceInts a = ints(32), b = ints(32);
  const GraphExec exec = captured(stream, [&] { add(stream, a, 1); }).instantiate();
  const Graph fresh = captured(stream, [&] { add(stream, b, 5); });
  const Hold held = hold(stream);
  exec.launch(stream);
  EXPECT_TRUE(exec.update(fresh).updated);
  exec.launch(stream);
  held.release();
  finish(stream);
  EXPECT_EQ(read(a), all(32, 1));
  EXPECT_EQ(read(b), all(32, 5));
}

TEST_P(DeviceSuite, UpdateByAGraphOfAnotherShapeSaysWhyAndChangesNothing) {
  const DeviceInts a = ints(32), b = ints(32);
  const GraphExec exec = captured(stream, [&] { add(stream, a, 1); }).instantiate();
  const Graph longer = captured(stream, [&] {
    add(stream, b, 5);
    add(stream, b, 5);
  });
  const Graph other_kind = captured(stream, [&] { stream.fill(b.data, 1, 4, 32); });
  for (const Graph& graph : {longer, other_kind}) {
    const UpdateResult result = exec.update(graph);
    EXPECT_FALSE(result.updated);
    EXPECT_FALSE(result.reason.empty());
  }
  exec.launch(stream);
  finish(stream);
  EXPECT_EQ(read(a), all(32, 1));
  EXPECT_EQ(read(b), all(32, 0));
}

TEST_P(DeviceSuite, UpdateByAGraphWithOtherEdgesIsRefused) {
  const Stream side = make_stream("side");
  const Event fork = device.create_event(), join = device.create_event();
  const DeviceInts a = ints(8), b = ints(8);
  auto chain = [&] {
    add(stream, a, 1, "root");
    add(stream, a, 1, "second");
    add(stream, b, 1, "third");
  };
  auto diamond = [&] {
    add(stream, a, 1, "root");
    stream.record(fork);
    side.wait(fork);
    add(stream, a, 1, "second");
    add(side, b, 1, "third");
    side.record(join);
    stream.wait(join);
  };
  const GraphExec exec = captured(stream, chain).instantiate();
  const UpdateResult result = exec.update(captured(stream, diamond));
  EXPECT_FALSE(result.updated);
  EXPECT_FALSE(result.reason.empty());
  exec.launch(stream);
  finish(stream);
  EXPECT_EQ(read(a), all(8, 2));
}

TEST_P(DeviceSuite, ACloneIsAGraphOfItsOwn) {
  const DeviceInts a = ints(32);
  Graph graph = captured(stream, [&] {
    add(stream, a, 1, "first");
    add(stream, a, 2, "second");
  });
  const Graph copy = graph.clone();
  ASSERT_EQ(copy.nodes().size(), 2U);
  EXPECT_EQ(copy.nodes()[0].label, "first");
  EXPECT_EQ(copy.nodes()[1].dependencies, std::vector{Dependency{copy.nodes()[0].id}});
  graph.reset();
  const GraphExec exec = copy.instantiate();
  exec.launch(stream);
  finish(stream);
  EXPECT_EQ(read(a), all(32, 3));
}

TEST_P(DeviceSuite, AnExecutableOutlivesItsGraph) {
  const DeviceInts a = ints(32);
  Graph graph = captured(stream, [&] { add(stream, a, 1); });
  const GraphExec exec = graph.instantiate();
  graph.reset();
  exec.launch(stream);
  finish(stream);
  EXPECT_EQ(read(a), all(32, 1));
}

TEST_P(DeviceSuite, TwoExecutablesOfOneGraphAreIndependent) {
  const DeviceInts a = ints(8), b = ints(8);
  const Graph graph = captured(stream, [&] { add(stream, a, 1); });
  const GraphExec first = graph.instantiate(), second = graph.instantiate();
  ASSERT_TRUE(second.update(captured(stream, [&] { add(stream, b, 1); })).updated);
  first.launch(stream);
  second.launch(stream);
  finish(stream);
  EXPECT_EQ(read(a), all(8, 1));
  EXPECT_EQ(read(b), all(8, 1));
}

TEST_P(DeviceSuite, LaunchesRunToTheirEndWhenTheExecutableIsGone) {
  const DeviceInts a = ints(32);
  Graph graph = captured(stream, [&] {
    add(stream, a, 1);
    note(stream, "ran");
  });
  GraphExec exec = graph.instantiate();
  const Hold held = hold(stream);
  exec.launch(stream);
  exec.launch(stream);
  exec.reset();
  graph.reset();
  held.release();
  finish(stream);
  EXPECT_EQ(read(a), all(32, 2));
  EXPECT_EQ(journal(), (Lines{"ran", "ran"}));
}

TEST_P(DeviceSuite, DestroyedGraphsAndExecutablesAreRefused) {
  Graph graph = captured(stream, [&] { note(stream, "never"); });
  GraphExec exec = graph.instantiate();
  const Graph kept = graph.clone();
  graph.reset();
  expect_refused([&] { (void)graph.instantiate(); }, {"destroyed"});
  expect_refused([&] { (void)graph.nodes(); }, {"destroyed"});
  expect_refused([&] { (void)graph.clone(); }, {"destroyed"});
  expect_refused([&] { (void)exec.update(graph); }, {"destroyed"});
  exec.reset();
  expect_refused([&] { exec.launch(stream); }, {"destroyed", "instantiate"});
  expect_refused([&] { (void)exec.update(kept); }, {"destroyed"});
  finish(stream);
  EXPECT_EQ(journal(), Lines{});
}

TEST_P(DeviceSuite, NodesComeAfterWhatTheyDependOn) {
  const Stream side = make_stream("side");
  const Event fork = device.create_event(), join = device.create_event();
  const Graph graph = captured(stream, [&] {
    note(stream, "0");
    stream.record(fork);
    side.wait(fork);
    for (int i = 1; i < 6; ++i) note(i % 2 == 0 ? stream : side, std::to_string(i));
    side.record(join);
    stream.wait(join);
    note(stream, "6");
  });
  std::map<NodeId, std::size_t> place;
  const std::vector<NodeInfo> nodes = graph.nodes();
  ASSERT_EQ(nodes.size(), 7U);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    EXPECT_TRUE(place.emplace(nodes[i].id, i).second) << "an id is used twice";
    for (const Dependency& edge : nodes[i].dependencies) {
      ASSERT_TRUE(place.contains(edge.node));
      EXPECT_LT(place.at(edge.node), i);
      EXPECT_EQ(edge.kind, EdgeKind::kFull);
    }
  }
}

TEST_P(DeviceSuite, JsonHoldsNodesAndEdges) {
  const DeviceInts a = ints(8);
  const Graph graph = captured(stream, [&] {
    add(stream, a, 1, "say \"hello\"");
    stream.fill(a.data, 1, 4, 8, "wipe");
  });
  const auto json = nlohmann::json::parse(graph.to_json());
  ASSERT_EQ(json.at("nodes").size(), 2U);
  const auto &first = json["nodes"][0], &second = json["nodes"][1];
  EXPECT_EQ(first.at("kind"), "kernel");
  EXPECT_EQ(first.at("label"), "say \"hello\"");
  EXPECT_TRUE(first.at("dependencies").empty());
  EXPECT_EQ(second.at("kind"), "fill");
  ASSERT_EQ(second.at("dependencies").size(), 1U);
  EXPECT_EQ(second["dependencies"][0].at("node"), first.at("id"));
  EXPECT_EQ(second["dependencies"][0].at("kind"), "full");
}

TEST_P(DeviceSuite, DotHoldsNodesAndEdges) {
  const DeviceInts a = ints(8);
  const Graph graph = captured(stream, [&] {
    add(stream, a, 1, "first");
    add(stream, a, 1, "second");
  });
  const std::string dot = graph.to_dot();
  EXPECT_EQ(dot.find("digraph"), 0U);
  for (const char* part : {"first", "second", "kernel", "->", "}"}) EXPECT_NE(dot.find(part), std::string::npos) << dot;
}

TEST_P(DeviceSuite, CoverIsNotChangedByAReplay) {
  const Stream other = make_stream("other");
  const Event done = device.create_event();
  const GraphExec exec = captured(stream, [&] { note(stream, "replay"); }).instantiate();
  exec.launch(stream);
  const Tick used = stream.stamp();
  stream.record(done);
  other.wait(done);
  EXPECT_TRUE(other.covers(stream.id(), used));
  exec.launch(stream);
  EXPECT_FALSE(other.covers(stream.id(), stream.stamp()));
}

TEST_P(DeviceSuite, AnEventRecordedByAReplayCoversWhatWasBeforeIt) {
  const Stream other = make_stream("other");
  const Event event = device.create_event();
  const GraphExec exec = captured(stream, [&] { stream.record(event, EventUse::kExternal); }).instantiate();
  const Tick before = stream.stamp();
  exec.launch(stream);
  const Tick after = stream.stamp();
  other.wait(event);
  EXPECT_TRUE(other.covers(stream.id(), before));
  EXPECT_FALSE(other.covers(stream.id(), after));
}

}  // namespace tessera::device::suite
