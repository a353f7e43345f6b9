// Capture: work becomes nodes and does not run; every kind of node can be replayed; forks and joins become edges.
#include <algorithm>

#include "tessera/device/suite/device_suite.h"

namespace tessera::device::suite {

using Lines = std::vector<std::string>;

namespace {

std::vector<NodeKind> kinds(const Graph& graph) {
  std::vector<NodeKind> found;
  for (const NodeInfo& node : graph.nodes()) found.push_back(node.kind);
  return found;
}

const NodeInfo& by_label(const std::vector<NodeInfo>& nodes, std::string_view label) {
  const auto it = std::find_if(nodes.begin(), nodes.end(), [&](const NodeInfo& node) { return node.label == label; });
  if (it == nodes.end()) throw std::runtime_error("no node is labelled " + std::string(label));
  return *it;
}

bool depends_on(const NodeInfo& node, const NodeInfo& earlier) {
  return std::any_of(node.dependencies.begin(), node.dependencies.end(),
                     [&](const Dependency& edge) { return edge.node == earlier.id; });
}

}  // namespace

TEST_P(DeviceSuite, CapturedWorkDoesNotRunUntilTheGraphIsLaunched) {
  const DeviceInts a = ints(64);
  stream.begin_capture();
  EXPECT_TRUE(stream.is_capturing());
  fill(stream, a, 5);
  note(stream, "ran");
  const Graph graph = stream.end_capture();
  EXPECT_FALSE(stream.is_capturing());
  const GraphExec exec = graph.instantiate();
  finish(stream);
  EXPECT_EQ(read(a), all(64, 0));
  EXPECT_EQ(journal(), Lines{});
  exec.launch(stream);
  finish(stream);
  EXPECT_EQ(read(a), all(64, 5));
  EXPECT_EQ(journal(), Lines{"ran"});
}

TEST_P(DeviceSuite, CapturesKernels) {
  const DeviceInts a = ints(64);
  stream.begin_capture();
  add(stream, a, 2, "twice");
  const Graph graph = stream.end_capture();
  EXPECT_EQ(kinds(graph), std::vector{NodeKind::kKernel});
  EXPECT_EQ(graph.nodes()[0].label, "twice");
  const GraphExec exec = graph.instantiate();
  exec.launch(stream);
  exec.launch(stream);
  finish(stream);
  EXPECT_EQ(read(a), all(64, 4));
}

TEST_P(DeviceSuite, CapturesHostFunctions) {
  stream.begin_capture();
  note(stream, "host");
  const Graph graph = stream.end_capture();
  EXPECT_EQ(kinds(graph), std::vector{NodeKind::kHost});
  const GraphExec exec = graph.instantiate();
  exec.launch(stream);
  exec.launch(stream);
  finish(stream);
  EXPECT_EQ(journal(), (Lines{"host", "host"}));
}

TEST_P(DeviceSuite, CapturesCopies) {
  const DeviceInts a = ints(64), b = ints(64);
  int* pinned = pinned_ints(64);
  stream.begin_capture();
  stream.copy(a.data, pinned, a.nbytes());
  stream.copy(b.data, a.data, a.nbytes());
  const Graph graph = stream.end_capture();
  EXPECT_EQ(kinds(graph), std::vector(2, NodeKind::kCopy));
  const GraphExec exec = graph.instantiate();
  std::fill(pinned, pinned + 64, 3);  // a replay reads the values at that time
  exec.launch(stream);
  finish(stream);
  EXPECT_EQ(read(b), all(64, 3));
}

TEST_P(DeviceSuite, CapturesStridedCopies) {
  const DeviceInts a = ints(8, 7), b = ints(8);
  stream.begin_capture();
  stream.copy_2d(b.data, 16, a.data, 16, 8, 2);
  const Graph graph = stream.end_capture();
  EXPECT_EQ(kinds(graph), std::vector{NodeKind::kCopy});
  graph.instantiate().launch(stream);
  finish(stream);
  EXPECT_EQ(read(b), (std::vector<int>{7, 7, 0, 0, 7, 7, 0, 0}));
}

TEST_P(DeviceSuite, CapturesFills) {
  const DeviceInts a = ints(6);
  stream.begin_capture();
  stream.fill(a.data + 1, 0x01020304, 4, 2);
  stream.fill(a.data + 3, 0xFF, 1, 2);
  const Graph graph = stream.end_capture();
  EXPECT_EQ(kinds(graph), std::vector(2, NodeKind::kFill));
  graph.instantiate().launch(stream);
  finish(stream);
  EXPECT_EQ(read(a), (std::vector<int>{0, 0x01020304, 0x01020304, 0xFFFF, 0, 0}));
}

TEST_P(DeviceSuite, CapturesRecordsOfEventsSeenOutside) {
  const Event event = device.create_event();
  stream.begin_capture();
  note(stream, "before");
  stream.record(event, EventUse::kExternal);
  const Graph graph = stream.end_capture();
  EXPECT_EQ(kinds(graph), (std::vector{NodeKind::kHost, NodeKind::kEventRecord}));
  EXPECT_TRUE(event.query());
  const GraphExec exec = graph.instantiate();
  const Stream other = make_stream("other");
  const Hold held = hold(stream);
  exec.launch(stream);
  EXPECT_FALSE(event.query());
  other.wait(event);
  note(other, "after");
  EXPECT_TRUE(is_stuck(other));
  held.release();
  event.synchronize(kSoon);
  finish(other);
  EXPECT_EQ(journal(), (Lines{"before", "after"}));
}

TEST_P(DeviceSuite, CapturesWaitsForEventsRecordedOutside) {
  const Event event = device.create_event();
  const Stream producer = make_stream("producer");
  stream.begin_capture();
  stream.wait(event, EventUse::kExternal);
  note(stream, "replayed");
  const Graph graph = stream.end_capture();
  EXPECT_EQ(kinds(graph), (std::vector{NodeKind::kEventWait, NodeKind::kHost}));
  const GraphExec exec = graph.instantiate();
  const Hold held = hold(producer);
  note(producer, "produced");
  producer.record(event);
  exec.launch(stream);
  EXPECT_TRUE(is_stuck(stream));
  held.release();
  finish(stream);
  EXPECT_EQ(journal(), (Lines{"produced", "replayed"}));
  const Hold again = hold(producer);  // each replay waits for the latest record at that time
  note(producer, "produced again");
  producer.record(event);
  exec.launch(stream);
  EXPECT_TRUE(is_stuck(stream));
  again.release();
  finish(stream);
  EXPECT_EQ(journal(), (Lines{"produced", "replayed", "produced again", "replayed"}));
}

TEST_P(DeviceSuite, CapturesGraphsAsNodes) {
  const DeviceInts a = ints(16);
  stream.begin_capture();
  add(stream, a, 1);
  note(stream, "inner");
  const GraphExec inner = stream.end_capture().instantiate();
  stream.begin_capture();
  note(stream, "first");
  inner.launch(stream);
  note(stream, "second");
  inner.launch(stream);
  const Graph graph = stream.end_capture();
  EXPECT_EQ(kinds(graph), (std::vector{NodeKind::kHost, NodeKind::kGraph, NodeKind::kHost, NodeKind::kGraph}));
  EXPECT_EQ(journal(), Lines{});
  graph.instantiate().launch(stream);
  finish(stream);
  EXPECT_EQ(journal(), (Lines{"first", "inner", "second", "inner"}));
  EXPECT_EQ(read(a), all(16, 2));
}

TEST_P(DeviceSuite, CapturesWritesOfWords) {
  std::uint64_t* const flag = word();
  stream.begin_capture();
  note(stream, "before");
  stream.write_value(flag, 11);
  const Graph graph = stream.end_capture();
  EXPECT_EQ(kinds(graph), (std::vector{NodeKind::kHost, NodeKind::kMemoryValue}));
  EXPECT_EQ(load(flag), 0U);
  graph.instantiate().launch(stream);
  finish(stream);
  EXPECT_EQ(load(flag), 11U);
}

TEST_P(DeviceSuite, CapturesWaitsForWords) {
  std::uint64_t* const flag = word();
  stream.begin_capture();
  stream.wait_value(flag, 2);
  note(stream, "let go");
  const Graph graph = stream.end_capture();
  EXPECT_EQ(kinds(graph), (std::vector{NodeKind::kMemoryValue, NodeKind::kHost}));
  const GraphExec exec = graph.instantiate();
  exec.launch(stream);
  EXPECT_TRUE(is_stuck(stream));
  EXPECT_EQ(journal(), Lines{});
  store(flag, 2);
  finish(stream);
  EXPECT_EQ(journal(), Lines{"let go"});
}

TEST_P(DeviceSuite, AnEmptyCaptureReplays) {
  stream.begin_capture();
  const Graph graph = stream.end_capture();
  EXPECT_TRUE(graph.nodes().empty());
  const GraphExec exec = graph.instantiate();
  note(stream, "before");
  exec.launch(stream);
  note(stream, "after");
  finish(stream);
  EXPECT_EQ(journal(), (Lines{"before", "after"}));
}

TEST_P(DeviceSuite, ForksAndJoinsBecomeEdges) {
  const Stream side = make_stream("side");
  const Event fork = device.create_event(), join = device.create_event();
  stream.begin_capture();
  note(stream, "root");
  stream.record(fork);
  side.wait(fork);
  EXPECT_TRUE(side.is_capturing());
  note(stream, "left");
  note(side, "right");
  side.record(join);
  stream.wait(join);
  note(stream, "joined");
  const Graph graph = stream.end_capture();
  EXPECT_FALSE(side.is_capturing());
  const std::vector<NodeInfo> nodes = graph.nodes();
  const NodeInfo &root = by_label(nodes, "root"), &left = by_label(nodes, "left"), &right = by_label(nodes, "right"),
                 &joined = by_label(nodes, "joined");
  EXPECT_TRUE(root.dependencies.empty());
  EXPECT_EQ(left.dependencies, (std::vector{Dependency{root.id}}));
  EXPECT_EQ(right.dependencies, (std::vector{Dependency{root.id}}));
  EXPECT_EQ(joined.dependencies.size(), 2U);
  EXPECT_TRUE(depends_on(joined, left));
  EXPECT_TRUE(depends_on(joined, right));
}

TEST_P(DeviceSuite, AJoinWithNothingAfterItIsPartOfTheReplay) {
  const Stream side = make_stream("side");
  const Event fork = device.create_event(), join = device.create_event();
  std::uint64_t* const flag = word();
  stream.begin_capture();
  note(stream, "root");
  stream.record(fork);
  side.wait(fork);
  side.wait_value(flag, 1);
  note(side, "side");
  side.record(join);
  stream.wait(join);
  const Graph graph = stream.end_capture();
  const GraphExec exec = graph.instantiate();
  exec.launch(stream);
  note(stream, "after");
  EXPECT_TRUE(is_stuck(stream));
  EXPECT_LE(journal().size(), 1U);
  store(flag, 1);
  finish(stream);
  EXPECT_EQ(journal(), (Lines{"root", "side", "after"}));
}

TEST_P(DeviceSuite, AWaitInACaptureKeepsThePointItWasMadeFor) {
  const Stream side = make_stream("side");
  const Event event = device.create_event(), join = device.create_event();
  stream.begin_capture();
  note(stream, "one");
  stream.record(event);
  side.wait(event);
  note(stream, "two");
  stream.record(event);
  note(side, "side");
  side.record(join);
  stream.wait(join);
  const std::vector<NodeInfo> nodes = stream.end_capture().nodes();
  EXPECT_EQ(by_label(nodes, "side").dependencies, std::vector{Dependency{by_label(nodes, "one").id}});
}

TEST_P(DeviceSuite, NestedForksJoinThroughOneAnother) {
  const Stream middle = make_stream("middle"), far = make_stream("far");
  const Event a = device.create_event(), b = device.create_event(), c = device.create_event(),
              d = device.create_event();
  stream.begin_capture();
  note(stream, "root");
  stream.record(a);
  middle.wait(a);
  note(middle, "middle");
  middle.record(b);
  far.wait(b);
  note(far, "far");
  far.record(c);
  middle.wait(c);
  note(middle, "middle again");
  middle.record(d);
  stream.wait(d);
  note(stream, "end");
  const GraphExec exec = stream.end_capture().instantiate();
  exec.launch(stream);
  finish(stream);
  EXPECT_EQ(journal(), (Lines{"root", "middle", "far", "middle again", "end"}));
}

TEST_P(DeviceSuite, CaptureInfoSaysWhereACaptureStands) {
  EXPECT_EQ(stream.capture_info().id, CaptureId(0));
  EXPECT_FALSE(stream.is_capturing());
  stream.begin_capture();
  const CaptureInfo empty = stream.capture_info();
  EXPECT_NE(empty.id, CaptureId(0));
  EXPECT_TRUE(empty.dependencies.empty());
  note(stream, "one");
  const CaptureInfo one = stream.capture_info();
  EXPECT_EQ(one.id, empty.id);
  ASSERT_EQ(one.dependencies.size(), 1U);
  note(stream, "two");
  const CaptureInfo two = stream.capture_info();
  ASSERT_EQ(two.dependencies.size(), 1U);
  EXPECT_NE(two.dependencies[0].node, one.dependencies[0].node);
  EXPECT_EQ(stream.capture_predecessors(two.dependencies[0].node), one.dependencies);
  EXPECT_TRUE(stream.capture_predecessors(one.dependencies[0].node).empty());
  const Graph graph = stream.end_capture();
  EXPECT_EQ(stream.capture_info().id, CaptureId(0));
  EXPECT_EQ(graph.nodes().size(), 2U);
}

TEST_P(DeviceSuite, StreamsOfOneCaptureReportTheSameId) {
  const Stream side = make_stream("side"), other = make_stream("other");
  const Event fork = device.create_event();
  stream.begin_capture();
  note(stream, "root");
  stream.record(fork);
  side.wait(fork);
  other.begin_capture();
  EXPECT_EQ(side.capture_info().id, stream.capture_info().id);
  EXPECT_EQ(side.capture_info().dependencies, stream.capture_info().dependencies);
  EXPECT_NE(other.capture_info().id, stream.capture_info().id);
  other.abort_capture();
  stream.abort_capture();
}

TEST_P(DeviceSuite, CaptureDependenciesCanBeReplaced) {
  stream.begin_capture();
  note(stream, "one");
  const NodeId one = stream.capture_info().dependencies.at(0).node;
  note(stream, "two");
  const NodeId two = stream.capture_info().dependencies.at(0).node;
  stream.set_capture_dependencies({one});
  EXPECT_EQ(stream.capture_info().dependencies, std::vector{Dependency{one}});
  note(stream, "beside two");
  const NodeId three = stream.capture_info().dependencies.at(0).node;
  stream.set_capture_dependencies({two, three});
  note(stream, "last");
  const std::vector<NodeInfo> nodes = stream.end_capture().nodes();
  EXPECT_EQ(by_label(nodes, "beside two").dependencies, std::vector{Dependency{by_label(nodes, "one").id}});
  EXPECT_EQ(by_label(nodes, "last").dependencies.size(), 2U);
}

TEST_P(DeviceSuite, TwoCapturesAtOnceAreIndependent) {
  const Stream other = make_stream("other");
  stream.begin_capture();
  other.begin_capture();
  note(stream, "stream");
  note(other, "other");
  note(stream, "stream");
  const Graph first = stream.end_capture();
  EXPECT_TRUE(other.is_capturing());
  note(other, "other");
  note(other, "other");
  const Graph second = other.end_capture();
  EXPECT_EQ(first.nodes().size(), 2U);
  EXPECT_EQ(second.nodes().size(), 3U);
}

TEST_P(DeviceSuite, StreamsOutsideACaptureRunOn) {
  const Stream other = make_stream("other");
  stream.begin_capture();
  note(stream, "captured");
  note(other, "eager");
  finish(other);
  EXPECT_EQ(journal(), Lines{"eager"});
  (void)stream.end_capture();
}

TEST_P(DeviceSuite, PendingWorkOfACapturingStreamRunsOn) {
  const Hold held = hold(stream);
  note(stream, "eager");
  stream.begin_capture();
  note(stream, "captured");
  held.release();
  const Graph graph = stream.end_capture();
  finish(stream);
  EXPECT_EQ(journal(), Lines{"eager"});
}

TEST_P(DeviceSuite, AnAbortedCaptureLeavesItsStreamsAsBefore) {
  const Stream side = make_stream("side");
  const Event fork = device.create_event();
  stream.abort_capture();  // has no effect without a capture
  stream.begin_capture();
  note(stream, "captured");
  stream.record(fork);
  side.wait(fork);
  note(side, "captured");
  stream.abort_capture();
  EXPECT_FALSE(stream.is_capturing());
  EXPECT_FALSE(side.is_capturing());
  EXPECT_EQ(side.capture_info().id, CaptureId(0));
  note(stream, "eager");
  finish(stream);
  note(side, "eager too");
  finish(side);
  EXPECT_EQ(journal(), (Lines{"eager", "eager too"}));
  stream.begin_capture();
  note(stream, "again");
  EXPECT_EQ(stream.end_capture().nodes().size(), 1U);
}

TEST_P(DeviceSuite, AnEventOfACaptureCanBeRecordedEagerlyAfterwards) {
  const Event event = device.create_event();
  const Stream other = make_stream("other");
  stream.begin_capture();
  note(stream, "captured");
  stream.record(event);
  (void)stream.end_capture();
  const Hold held = hold(stream);
  stream.record(event);
  EXPECT_FALSE(event.query());
  other.wait(event);
  EXPECT_TRUE(is_stuck(other));
  held.release();
  finish(other);
  EXPECT_TRUE(event.query());
}

TEST_P(DeviceSuite, AnEdgeOfACaptureDoesNotTouchTheEvent) {
  const Event event = device.create_event();
  const Stream producer = make_stream("producer");
  const Hold held = hold(producer);
  note(producer, "produced");
  producer.record(event);
  stream.begin_capture();
  stream.wait(event, EventUse::kExternal);
  note(stream, "replayed");
  const GraphExec exec = stream.end_capture().instantiate();
  stream.begin_capture();
  note(stream, "captured");
  stream.record(event);
  (void)stream.end_capture();
  exec.launch(stream);  // waits for the record outside, which is still the latest one of the event there
  EXPECT_TRUE(is_stuck(stream));
  held.release();
  finish(stream);
  EXPECT_EQ(journal(), (Lines{"produced", "replayed"}));
}

TEST_P(DeviceSuite, ACaptureOrdersNothingOutsideIt) {
  const Stream side = make_stream("side");
  const Event fork = device.create_event(), join = device.create_event();
  const Tick used = stream.stamp();
  stream.begin_capture();
  note(stream, "root");
  stream.record(fork);
  side.wait(fork);
  note(side, "side");
  EXPECT_FALSE(side.covers(stream.id(), used));
  side.record(join);
  stream.wait(join);
  (void)stream.end_capture();
  EXPECT_FALSE(side.covers(stream.id(), used));
}

}  // namespace tessera::device::suite
