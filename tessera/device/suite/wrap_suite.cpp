// Foreign streams and events, and work that the clocks did not see.
#include "tessera/device/suite/device_suite.h"

namespace tessera::device::suite {

using Lines = std::vector<std::string>;

TEST_P(DeviceSuite, WrappingAStreamTwiceGivesOne) {
  void* native = subject().foreign_stream();
  const Stream first = Stream::wrap(device, native, {.name = "foreign"});
  const Stream second = Stream::wrap(device, native);
  EXPECT_EQ(first.id(), second.id());
  EXPECT_EQ(first.native(), native);
  EXPECT_EQ(second.name(), "foreign");
  EXPECT_TRUE(second.covers(first.id(), first.stamp()));
}

TEST_P(DeviceSuite, WrappingAStreamOfOursGivesThatStream) {
  EXPECT_EQ(Stream::wrap(device, stream.native()).id(), stream.id());
  EXPECT_EQ(Stream::wrap(device, device.default_stream().native()).id(), device.default_stream().id());
}

TEST_P(DeviceSuite, AWrappedStreamRunsItsWorkInOrderWithForeignWork) {
  void* native = subject().foreign_stream();
  const Stream wrapped = Stream::wrap(device, native, {.name = "foreign"});
  note(wrapped, "one");
  unseen_note(native, "two");
  note(wrapped, "three");
  finish(wrapped);
  EXPECT_EQ(journal(), (Lines{"one", "two", "three"}));
}

TEST_P(DeviceSuite, AWrappedStreamOutlivesItsHandle) {
  void* native = subject().foreign_stream();
  {
    const Stream brief = Stream::wrap(device, native);
    note(brief, "one");
    finish(brief);
  }
  const Stream again = Stream::wrap(device, native);
  note(again, "two");
  finish(again);
  EXPECT_EQ(journal(), (Lines{"one", "two"}));
}

TEST_P(DeviceSuite, AWrappedStreamOrdersWithOurs) {
  const Stream wrapped = Stream::wrap(device, subject().foreign_stream());
  const Event event = device.create_event(), back = device.create_event();
  const Hold held = hold(stream);
  note(stream, "ours");
  const Tick used = stream.stamp();
  stream.record(event);
  wrapped.wait(event);
  note(wrapped, "foreign");
  wrapped.record(back);
  stream.wait(back);
  note(stream, "ours again");
  EXPECT_TRUE(wrapped.covers(stream.id(), used));
  EXPECT_TRUE(stream.covers(wrapped.id(), back.point().second));
  held.release();
  finish(stream);
  EXPECT_EQ(journal(), (Lines{"ours", "foreign", "ours again"}));
}

// The bug that the clock rules prevent: an event is recorded, a foreign library launches work on the stream, the block
// it uses is freed, and a stream that waited for the event reuses the block. The use is stamped at the free, so the
// stamp is newer than the event and the wait does not cover it.
TEST_P(DeviceSuite, WorkLaunchedUnseenAfterARecordIsNotCoveredByIt) {
  const Stream other = make_stream("other");
  const Event event = device.create_event(), later = device.create_event();
  stream.record(event);
  const Hold held = hold(stream);
  unseen_note(stream.native(), "unseen use");
  const Tick freed = stream.stamp();
  other.wait(event);
  EXPECT_FALSE(other.covers(stream.id(), freed));
  note(other, "reuse allowed too early");
  finish(other);
  EXPECT_EQ(journal(), Lines{"reuse allowed too early"});
  stream.record(later);
  other.wait(later);
  EXPECT_TRUE(other.covers(stream.id(), freed));
  note(other, "reuse");
  EXPECT_TRUE(is_stuck(other));
  held.release();
  finish(other);
  EXPECT_EQ(journal(), (Lines{"reuse allowed too early", "unseen use", "reuse"}));
}

TEST_P(DeviceSuite, CompletionWaitsForUnseenWork) {
  const Hold held = hold(stream);
  unseen_note(stream.native(), "unseen");
  const Tick used = stream.stamp();
  EXPECT_LT(stream.poll(), used);
  EXPECT_FALSE(stream.query());
  held.release();
  finish(stream);
  EXPECT_EQ(journal(), Lines{"unseen"});
  EXPECT_GE(stream.completed(), used);
}

TEST_P(DeviceSuite, WaitingForAForeignEventOrdersAndCoversNothing) {
  void* native = subject().foreign_stream();
  void* native_event = subject().foreign_event();
  const Stream producer = Stream::wrap(device, native, {.name = "foreign"});
  const Event event = Event::wrap(device, native_event);
  EXPECT_EQ(event.native(), native_event);
  const Hold held = hold(producer);
  note(producer, "produced");
  const Tick used = producer.stamp();
  subject().record_unseen(native_event, native);
  stream.wait(event);
  note(stream, "consumed");
  EXPECT_TRUE(is_stuck(stream));
  EXPECT_FALSE(stream.covers(producer.id(), used));
  held.release();
  finish(stream);
  EXPECT_EQ(journal(), (Lines{"produced", "consumed"}));
}

TEST_P(DeviceSuite, AForeignEventRecordedThroughUsCovers) {
  void* native_event = subject().foreign_event();
  const Event event = Event::wrap(device, native_event);
  const Stream other = make_stream("other");
  const Tick used = stream.stamp();
  stream.record(event);
  other.wait(event);
  EXPECT_TRUE(other.covers(stream.id(), used));
  event.synchronize(kSoon);
  EXPECT_TRUE(event.query());
}

TEST_P(DeviceSuite, AWaitMadeElsewhereCanBeNoted) {
  const Stream wrapped = Stream::wrap(device, subject().foreign_stream());
  const Event event = device.create_event();
  const Tick used = stream.stamp();
  stream.record(event);
  EXPECT_FALSE(wrapped.covers(stream.id(), used));
  wrapped.note_wait(event);
  EXPECT_TRUE(wrapped.covers(stream.id(), used));
  EXPECT_FALSE(wrapped.covers(stream.id(), stream.stamp()));
}

TEST_P(DeviceSuite, AWrappedStreamCanCapture) {
  const Stream wrapped = Stream::wrap(device, subject().foreign_stream(), {.name = "foreign"});
  wrapped.begin_capture();
  note(wrapped, "captured");
  const Graph graph = wrapped.end_capture();
  EXPECT_EQ(graph.nodes().size(), 1U);
  graph.instantiate().launch(wrapped);
  finish(wrapped);
  EXPECT_EQ(journal(), Lines{"captured"});
}

TEST_P(DeviceSuite, NullEventsAreNotWrapped) {
  expect_refused([&] { (void)Event::wrap(device, nullptr); }, {"null"});
  expect_refused([&] { (void)Stream::wrap(Device(), stream.native()); }, {"Device must not be empty"});
}

}  // namespace tessera::device::suite
