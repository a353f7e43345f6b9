// Operations that a capture rejects. Each error suggests an alternative and leaves the capture unchanged: every case
// continues, ends the capture and replays it.
#include "tessera/device/suite/device_suite.h"

namespace tessera::device::suite {

using Lines = std::vector<std::string>;

namespace {

/// Expects an active capture on `stream`: `nodes` nodes so far, one more can be added, it ends and replays.
template <class Note>
void expect_goes_on(const Stream& stream, std::size_t nodes, const Note& note) {
  ASSERT_TRUE(stream.is_capturing());
  note();
  const Graph graph = stream.end_capture();
  EXPECT_EQ(graph.nodes().size(), nodes + 1);
  graph.instantiate().launch(stream);
  stream.synchronize(kSoon);
}

}  // namespace

#define EXPECT_CAPTURE_GOES_ON(nodes) expect_goes_on(stream, nodes, [&] { note(stream, "goes on"); })

TEST_P(DeviceSuite, SynchronizingACapturingStreamIsRefused) {
  stream.begin_capture();
  expect_refused([&] { stream.synchronize(kSoon); }, {"synchronize", stream.name(), "captur", "end the capture"});
  EXPECT_CAPTURE_GOES_ON(0);
}

TEST_P(DeviceSuite, QueryingACapturingStreamIsRefused) {
  stream.begin_capture();
  expect_refused([&] { (void)stream.query(); }, {"query", stream.name(), "captur", "end the capture"});
  EXPECT_CAPTURE_GOES_ON(0);
}

TEST_P(DeviceSuite, SynchronizingADeviceWithACapturingStreamIsRefused) {
  stream.begin_capture();
  expect_refused([&] { device.synchronize(kSoon); }, {stream.name(), "captur"});
  EXPECT_CAPTURE_GOES_ON(0);
}

TEST_P(DeviceSuite, WaitingOnTheHostForACapturedEventIsRefused) {
  const Event event = device.create_event();
  stream.begin_capture();
  note(stream, "one");
  stream.record(event);
  expect_refused([&] { event.synchronize(kSoon); }, {"synchronize", "capture", "kExternal"});
  expect_refused([&] { (void)event.query(); }, {"query", "capture", "kExternal"});
  EXPECT_CAPTURE_GOES_ON(1);
}

TEST_P(DeviceSuite, AskingForTheTimeOfACapturedEventIsRefused) {
  const Event start = device.create_event({.timing = true}), end = device.create_event({.timing = true});
  stream.record(start);
  finish(stream);
  stream.begin_capture();
  stream.record(end);
  expect_refused([&] { (void)Event::elapsed(start, end); }, {"capture"});
  EXPECT_CAPTURE_GOES_ON(0);
}

TEST_P(DeviceSuite, HoldingACapturingStreamIsRefused) {
  stream.begin_capture();
  expect_refused([&] { (void)stream.hold(1s); }, {"hold", stream.name(), "wait_value"});
  EXPECT_CAPTURE_GOES_ON(0);
}

TEST_P(DeviceSuite, StampingACapturingStreamIsRefused) {
  stream.begin_capture();
  expect_refused([&] { (void)stream.stamp(); }, {"stamp", "captur", "capture_info"});
  EXPECT_CAPTURE_GOES_ON(0);
}

TEST_P(DeviceSuite, PublishingOnACapturingStreamIsRefused) {
  stream.begin_capture();
  expect_refused([&] { (void)stream.publish(); }, {"publish", "captur", "after the graph is launched"});
  EXPECT_CAPTURE_GOES_ON(0);
}

TEST_P(DeviceSuite, BeginningACaptureTwiceIsRefused) {
  stream.begin_capture();
  note(stream, "one");
  expect_refused([&] { stream.begin_capture(); }, {stream.name(), "already capturing", "end"});
  EXPECT_CAPTURE_GOES_ON(1);
}

TEST_P(DeviceSuite, BeginningACaptureOnAStreamThatJoinedOneIsRefused) {
  const Stream side = make_stream("side");
  const Event fork = device.create_event(), join = device.create_event();
  stream.begin_capture();
  note(stream, "one");
  stream.record(fork);
  side.wait(fork);
  expect_refused([&] { side.begin_capture(); }, {"side", "already capturing"});
  side.record(join);
  stream.wait(join);
  EXPECT_CAPTURE_GOES_ON(1);
}

TEST_P(DeviceSuite, EndingACaptureOnAStreamThatJoinedItIsRefused) {
  const Stream side = make_stream("side");
  const Event fork = device.create_event(), join = device.create_event();
  stream.begin_capture();
  note(stream, "one");
  stream.record(fork);
  side.wait(fork);
  expect_refused([&] { (void)side.end_capture(); }, {"side", "started on", stream.name()});
  expect_refused([&] { side.abort_capture(); }, {"side", "started on", stream.name()});
  side.record(join);
  stream.wait(join);
  EXPECT_CAPTURE_GOES_ON(1);
}

TEST_P(DeviceSuite, EndingACaptureThatWasNotBegunIsRefused) {
  expect_refused([&] { (void)stream.end_capture(); }, {stream.name(), "not capturing", "begin_capture"});
  note(stream, "eager");
  finish(stream);
  EXPECT_EQ(journal(), Lines{"eager"});
}

TEST_P(DeviceSuite, WaitingInACaptureForAnEventRecordedOutsideIsRefused) {
  const Event event = device.create_event();
  const Stream other = make_stream("other");
  other.record(event);
  stream.begin_capture();
  expect_refused([&] { stream.wait(event); }, {stream.name(), "outside the capture", "kExternal"});
  EXPECT_CAPTURE_GOES_ON(0);
}

TEST_P(DeviceSuite, WaitingInACaptureForAnEventOfAnotherCaptureIsRefused) {
  const Event event = device.create_event();
  const Stream other = make_stream("other");
  other.begin_capture();
  note(other, "other");
  other.record(event);
  stream.begin_capture();
  expect_refused([&] { stream.wait(event); }, {stream.name(), "two captures"});
  EXPECT_CAPTURE_GOES_ON(0);
  EXPECT_EQ(other.end_capture().nodes().size(), 1U);
}

TEST_P(DeviceSuite, WaitingForAnEventOfAnEndedCaptureIsRefused) {
  const Event event = device.create_event();
  stream.begin_capture();
  note(stream, "one");
  stream.record(event);
  (void)stream.end_capture();
  const Stream other = make_stream("other");
  expect_refused([&] { other.wait(event); }, {"other", "ended", "record the event again"});
  EXPECT_FALSE(other.is_capturing());
  stream.begin_capture();
  expect_refused([&] { stream.wait(event); }, {"ended"});
  EXPECT_CAPTURE_GOES_ON(0);
}

TEST_P(DeviceSuite, WaitingForAnEventOfAnAbortedCaptureIsRefused) {
  const Event event = device.create_event();
  stream.begin_capture();
  note(stream, "one");
  stream.record(event);
  stream.abort_capture();
  const Stream other = make_stream("other");
  expect_refused([&] { other.wait(event); }, {"other", "ended"});
  note(other, "eager");
  finish(other);
  EXPECT_EQ(journal(), Lines{"eager"});
}

TEST_P(DeviceSuite, AnExternalWaitForAnEventOfTheCaptureIsRefused) {
  const Event event = device.create_event();
  stream.begin_capture();
  note(stream, "one");
  stream.record(event);
  expect_refused([&] { stream.wait(event, EventUse::kExternal); }, {"external", "kEdge"});
  EXPECT_CAPTURE_GOES_ON(1);
}

TEST_P(DeviceSuite, CopyingPlainHostMemoryInACaptureIsRefusedWhereItCannotBe) {
  const DeviceInts a = ints(16);
  std::vector<int> plain(16, 3);
  stream.begin_capture();
  if (traits().captures_pageable) {
    stream.copy(a.data, plain.data(), a.nbytes());
    EXPECT_CAPTURE_GOES_ON(1);
    EXPECT_EQ(read(a), all(16, 3));
    return;
  }
  auto copy_plain = [&] { stream.copy(a.data, plain.data(), a.nbytes()); };
  auto copy_rows = [&] { stream.copy_2d(plain.data(), 16, a.data, 16, 8, 2); };
  expect_error<NotSupported>(copy_plain, {"pageable", "allocate_pinned"});
  expect_error<NotSupported>(copy_rows, {"pageable", "allocate_pinned"});
  EXPECT_CAPTURE_GOES_ON(0);
}

TEST_P(DeviceSuite, AForkThatWasNotJoinedIsNamedAndCanStillBeJoined) {
  const Stream side = make_stream("straggler");
  const Event fork = device.create_event(), join = device.create_event();
  stream.begin_capture();
  note(stream, "root");
  stream.record(fork);
  side.wait(fork);
  note(side, "side");
  expect_refused([&] { (void)stream.end_capture(); },
                 {"straggler", "not joined back", "record an event", stream.name()});
  EXPECT_TRUE(stream.is_capturing());
  EXPECT_TRUE(side.is_capturing());
  note(side, "side again");
  expect_refused([&] { (void)stream.end_capture(); }, {"straggler"});
  side.record(join);
  stream.wait(join);
  EXPECT_CAPTURE_GOES_ON(3);
  EXPECT_EQ(journal(), (Lines{"root", "side", "side again", "goes on"}));
  EXPECT_FALSE(side.is_capturing());
}

TEST_P(DeviceSuite, WorkAfterTheJoinIsUnjoinedAgain) {
  const Stream side = make_stream("straggler");
  const Event fork = device.create_event(), join = device.create_event();
  stream.begin_capture();
  note(stream, "root");
  stream.record(fork);
  side.wait(fork);
  note(side, "side");
  side.record(join);
  stream.wait(join);
  note(side, "late");
  expect_refused([&] { (void)stream.end_capture(); }, {"straggler"});
  side.record(join);
  stream.wait(join);
  EXPECT_CAPTURE_GOES_ON(3);
}

TEST_P(DeviceSuite, AJoinBroughtByAnotherForkCounts) {
  const Stream middle = make_stream("middle"), far = make_stream("far");
  const Event a = device.create_event(), b = device.create_event(), c = device.create_event();
  stream.begin_capture();
  note(stream, "root");
  stream.record(a);
  middle.wait(a);
  far.wait(a);
  note(far, "far");
  far.record(b);
  middle.wait(b);
  note(middle, "middle");
  expect_refused([&] { (void)stream.end_capture(); });
  middle.record(c);
  stream.wait(c);
  EXPECT_CAPTURE_GOES_ON(3);
}

TEST_P(DeviceSuite, CaptureCallsOnAStreamThatIsNotCapturingAreRefused) {
  expect_refused([&] { stream.set_capture_dependencies({}); }, {stream.name(), "not capturing"});
  expect_refused([&] { (void)stream.capture_predecessors(NodeId(1)); }, {stream.name(), "not capturing"});
}

TEST_P(DeviceSuite, NodesThatAreNotOfTheCaptureAreRefused) {
  const Stream other = make_stream("other");
  other.begin_capture();
  for (int i = 0; i < 8; ++i) note(other, "other");
  const NodeId stranger = other.capture_info().dependencies.at(0).node;
  stream.begin_capture();
  expect_error<Error>([&] { stream.set_capture_dependencies({stranger}); });
  EXPECT_CAPTURE_GOES_ON(0);
  other.abort_capture();
}

#undef EXPECT_CAPTURE_GOES_ON

}  // namespace tessera::device::suite
