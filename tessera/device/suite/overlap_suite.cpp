// Overlapping launches prove no order: results of covers() inside a scope, and the edges of a capture.
#include <optional>

#include "tessera/device/suite/device_suite.h"

namespace tessera::device::suite {

TEST_P(DeviceSuite, TheLastLaunchBeforeAScopeIsNotCoveredInIt) {
  const DeviceInts a = ints(8), b = ints(8);
  fill(stream, a, 1);
  const Tick earlier = stream.stamp();
  fill(stream, b, 1);
  const Tick last = stream.stamp();
  EXPECT_TRUE(stream.covers(stream.id(), last));
  {
    const Stream::OverlapScope scope(stream);
    EXPECT_FALSE(stream.covers(stream.id(), last));
    EXPECT_TRUE(stream.covers(stream.id(), earlier));
  }
  EXPECT_TRUE(stream.covers(stream.id(), last));
}

TEST_P(DeviceSuite, LaunchesInAScopeAreNotCoveredInIt) {
  const DeviceInts a = ints(8), b = ints(8), c = ints(8);
  fill(stream, a, 1);
  Tick first, second;
  {
    const Stream::OverlapScope scope(stream);
    fill(stream, b, 2);
    first = stream.stamp();
    EXPECT_FALSE(stream.covers(stream.id(), first));
    fill(stream, c, 3);
    second = stream.stamp();
    EXPECT_FALSE(stream.covers(stream.id(), first));
    EXPECT_FALSE(stream.covers(stream.id(), second));
  }
  EXPECT_TRUE(stream.covers(stream.id(), first));
  EXPECT_TRUE(stream.covers(stream.id(), second));
  finish(stream);
  EXPECT_EQ(read(a), all(8, 1));
  EXPECT_EQ(read(b), all(8, 2));
  EXPECT_EQ(read(c), all(8, 3));
}

TEST_P(DeviceSuite, ScopesNest) {
  const DeviceInts a = ints(8);
  fill(stream, a, 1);
  const Tick used = stream.stamp();
  std::optional<Stream::OverlapScope> outer(std::in_place, stream);
  { const Stream::OverlapScope inner(stream); }
  EXPECT_FALSE(stream.covers(stream.id(), used));
  outer.reset();
  EXPECT_TRUE(stream.covers(stream.id(), used));
}

TEST_P(DeviceSuite, AScopeIsForItsOwnStream) {
  const Stream other = make_stream("other");
  const DeviceInts a = ints(8);
  fill(other, a, 1);
  const Tick used = other.stamp();
  const Stream::OverlapScope scope(stream);
  EXPECT_TRUE(other.covers(other.id(), used));
}

TEST_P(DeviceSuite, WorkAfterAScopeIsOrderedAfterAllInIt) {
  const DeviceInts a = ints(4096), b = ints(4096), c = ints(4096), d = ints(4096);
  const Hold held = hold(stream);
  fill(stream, a, 1);
  {
    const Stream::OverlapScope scope(stream);  // overlapping launches access different bytes
    slow_add(stream, b, 2, 100us);
    slow_add(stream, c, 3, 100us);
  }
  copy(stream, d, b);
  copy(stream, a, c);
  held.release();
  finish(stream);
  EXPECT_EQ(read(d), all(4096, 2));
  EXPECT_EQ(read(a), all(4096, 3));
}

TEST_P(DeviceSuite, AnEventRecordedInAScopeStandsForTheLaunchesBeforeIt) {
  const Stream other = make_stream("other");
  const Event event = device.create_event();
  const DeviceInts a = ints(64), b = ints(64);
  const Hold held = hold(stream);
  {
    const Stream::OverlapScope scope(stream);
    fill(stream, a, 4);
    stream.record(event);
  }
  other.wait(event);
  copy(other, b, a);
  EXPECT_TRUE(is_stuck(other));
  held.release();
  finish(other);
  EXPECT_EQ(read(b), all(64, 4));
}

TEST_P(DeviceSuite, OverlappingLaunchesAreWeakEdgesOfACapture) {
  const DeviceInts a = ints(8), b = ints(8);
  stream.begin_capture();
  fill(stream, a, 1, "first");
  {
    const Stream::OverlapScope scope(stream);
    fill(stream, b, 1, "second");
    const CaptureInfo info = stream.capture_info();
    ASSERT_EQ(info.dependencies.size(), 1U);
    const Dependencies edges = stream.capture_predecessors(info.dependencies[0].node);
    ASSERT_EQ(edges.size(), 1U);
    EXPECT_EQ(edges[0].kind, EdgeKind::kWeak);
  }
  fill(stream, b, 2, "third");
  const Graph graph = stream.end_capture();
  const std::vector<NodeInfo> nodes = graph.nodes();
  ASSERT_EQ(nodes.size(), 3U);
  ASSERT_EQ(nodes[1].dependencies.size(), 1U);
  ASSERT_EQ(nodes[2].dependencies.size(), 1U);
  EXPECT_EQ(nodes[1].dependencies[0].kind, EdgeKind::kWeak);
  EXPECT_EQ(nodes[2].dependencies[0].kind, EdgeKind::kFull);
  EXPECT_NE(graph.to_json().find("weak"), std::string::npos);
  graph.instantiate().launch(stream);
  finish(stream);
  EXPECT_EQ(read(a), all(8, 1));
  EXPECT_EQ(read(b), all(8, 2));
}

}  // namespace tessera::device::suite
