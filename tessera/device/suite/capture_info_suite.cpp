// The capture state if dependencies are many, or were replaced.
#include <algorithm>
#include <atomic>
#include <utility>

#include "tessera/device/suite/device_suite.h"

namespace tessera::device::suite {

namespace {

NodeId tip_of(const Stream& stream) { return stream.capture_info().dependencies.at(0).node; }

bool has(const Dependencies& dependencies, NodeId node) {
  return std::ranges::find(dependencies, Dependency{node}) != dependencies.end();
}

}  // namespace

TEST_P(DeviceSuite, ManyDependenciesAreAllReported) {
  constexpr std::size_t kSides = 12;
  const Event fork = device.create_event(), join = device.create_event();
  stream.begin_capture();
  note(stream, "root");
  const NodeId root = tip_of(stream);
  stream.record(fork);
  std::vector<NodeId> tips;
  for (std::size_t i = 0; i < kSides; ++i) {
    const Stream side = make_stream();
    side.wait(fork);
    note(side, "side");
    tips.push_back(tip_of(side));
    side.record(join);
    stream.wait(join);
  }
  const CaptureInfo joined = stream.capture_info();
  for (const NodeId tip : tips) EXPECT_TRUE(has(joined.dependencies, tip));
  EXPECT_TRUE(joined.dropped.empty());
  note(stream, "end");
  const Dependencies edges = stream.capture_predecessors(tip_of(stream));
  for (const NodeId tip : tips) {
    EXPECT_TRUE(has(edges, tip));
    EXPECT_EQ(stream.capture_predecessors(tip), (Dependencies{{root}}));
  }
  const std::vector<NodeInfo> nodes = stream.end_capture().nodes();
  EXPECT_EQ(nodes.size(), kSides + 2);
  EXPECT_GE(nodes.back().dependencies.size(), kSides);
}

// Users of the counter do not query again: an uncounted change would be missed.
TEST_P(DeviceSuite, ChangesOfACaptureAreCountedWhereAnyoneCounts) {
  const Stream side = make_stream();
  const std::atomic<std::uint64_t>* const changes = side.capture_changes();
  if (changes == nullptr) GTEST_SKIP() << "only asking tells";
  const Event fork = device.create_event(), later = device.create_event();
  std::uint64_t seen = changes->load();
  const auto has_changed = [&] {
    const std::uint64_t before = std::exchange(seen, changes->load());
    return seen != before;
  };
  stream.begin_capture();
  note(stream, "root");
  stream.record(fork);
  EXPECT_FALSE(has_changed());
  side.wait(fork);
  EXPECT_TRUE(has_changed()) << "it joined";
  note(side, "work");
  EXPECT_TRUE(has_changed());
  note(stream, "more");
  EXPECT_FALSE(has_changed()) << "another stream did";
  stream.record(later);
  side.wait(later);
  EXPECT_TRUE(has_changed());
  side.set_capture_dependencies({tip_of(stream)});
  EXPECT_TRUE(has_changed());
  note(Stream::wrap(device, side.native()), "through another handle");
  EXPECT_TRUE(has_changed());
  stream.abort_capture();
}

TEST_P(DeviceSuite, DependenciesThatWereReplacedAreRemembered) {
  stream.begin_capture();
  note(stream, "one");
  const NodeId one = tip_of(stream);
  note(stream, "two");
  const NodeId two = tip_of(stream);
  EXPECT_TRUE(stream.capture_info().dropped.empty());
  stream.set_capture_dependencies({one});
  EXPECT_EQ(stream.capture_info().dropped, (Dependencies{{two}}));
  note(stream, "three");
  const NodeId three = tip_of(stream);
  EXPECT_EQ(stream.capture_info().dropped, (Dependencies{{two}}));
  stream.set_capture_dependencies({three, two});  // this one removes nothing
  EXPECT_EQ(stream.capture_info().dropped, (Dependencies{{two}}));
  stream.set_capture_dependencies({});
  EXPECT_TRUE(stream.capture_info().dependencies.empty());
  const CaptureInfo info = stream.capture_info();
  EXPECT_EQ(info.dropped.size(), 2U);
  EXPECT_TRUE(has(info.dropped, two));
  EXPECT_TRUE(has(info.dropped, three));
  stream.abort_capture();
}

TEST_P(DeviceSuite, WhatWasDroppedIsForgottenWithTheCapture) {
  for (const bool ends : {true, false}) {
    stream.begin_capture();
    note(stream, "dropped");
    stream.set_capture_dependencies({});
    EXPECT_EQ(stream.capture_info().dropped.size(), 1U);
    if (ends) {
      (void)stream.end_capture();
    } else {
      stream.abort_capture();
    }
    EXPECT_TRUE(stream.capture_info().dropped.empty());
    stream.begin_capture();
    note(stream, "again");
    EXPECT_TRUE(stream.capture_info().dropped.empty());
    stream.set_capture_dependencies({});
    EXPECT_EQ(stream.capture_info().dropped.size(), 1U);
    stream.abort_capture();
  }
}

TEST_P(DeviceSuite, EachStreamRemembersWhatItDroppedItself) {
  const Stream side = make_stream("side");
  const Event fork = device.create_event(), join = device.create_event();
  stream.begin_capture();
  note(stream, "root");
  const NodeId root = tip_of(stream);
  stream.record(fork);
  side.wait(fork);
  note(side, "side");
  const NodeId dropped = tip_of(side);
  side.record(join);
  side.set_capture_dependencies({root});
  EXPECT_EQ(side.capture_info().dropped, (Dependencies{{dropped}}));
  EXPECT_TRUE(stream.capture_info().dropped.empty());
  stream.wait(join);
  (void)stream.end_capture();
  side.begin_capture();
  EXPECT_TRUE(side.capture_info().dropped.empty());
  side.abort_capture();
}

TEST_P(DeviceSuite, DependenciesThatAreRefusedDropNothing) {
  stream.begin_capture();
  note(stream, "kept");
  const NodeId kept = tip_of(stream);
  expect_error<Error>([&] { stream.set_capture_dependencies({NodeId(~std::uint64_t{0} - 7)}); });
  EXPECT_EQ(stream.capture_info().dependencies, (Dependencies{{kept}}));
  EXPECT_TRUE(stream.capture_info().dropped.empty());
  expect_error<Error>([&] { (void)stream.capture_predecessors(NodeId(~std::uint64_t{0} - 7)); });
  stream.abort_capture();
}

}  // namespace tessera::device::suite
