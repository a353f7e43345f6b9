// Events: when they are reached, the effect of recording again, and the time between two.
#include "tessera/device/suite/device_suite.h"

namespace tessera::device::suite {

using Lines = std::vector<std::string>;

TEST_P(DeviceSuite, AnEventNeverRecordedIsComplete) {
  const Event event = device.create_event();
  EXPECT_TRUE(event.query());
  event.synchronize(kSoon);
  stream.wait(event);
  note(stream, "ran");
  finish(stream);
  EXPECT_EQ(journal(), Lines{"ran"});
}

TEST_P(DeviceSuite, AnEventIsReachedWhenTheWorkBeforeItIsDone) {
  const Event event = device.create_event();
  const Hold held = hold(stream);
  note(stream, "work");
  stream.record(event);
  EXPECT_FALSE(event.query());
  EXPECT_TRUE(is_stuck(event));
  held.release();
  event.synchronize(kSoon);
  EXPECT_TRUE(event.query());
  EXPECT_EQ(journal(), Lines{"work"});
}

TEST_P(DeviceSuite, WaitingForAnEventOnTheHostIsNotForLaterWork) {
  const Event event = device.create_event();
  note(stream, "before");
  stream.record(event);
  const Hold held = hold(stream);
  note(stream, "after");
  event.synchronize(kSoon);
  EXPECT_TRUE(event.query());
  EXPECT_EQ(journal(), Lines{"before"});
  held.release();
}

TEST_P(DeviceSuite, RecordingAgainMovesThePoint) {
  const Event event = device.create_event();
  stream.record(event);
  finish(stream);
  EXPECT_TRUE(event.query());
  const Hold held = hold(stream);
  stream.record(event);
  EXPECT_FALSE(event.query());
  held.release();
  event.synchronize(kSoon);
}

TEST_P(DeviceSuite, AWaitKeepsThePointItWasMadeForWhenAReachedOneFollows) {
  const Event event = device.create_event();
  const Stream consumer = make_stream("consumer"), other = make_stream("other");
  const Hold held = hold(stream);
  note(stream, "producer");
  stream.record(event);
  consumer.wait(event);
  note(consumer, "consumer");
  other.record(event);
  finish(other);
  event.synchronize(kSoon);
  EXPECT_TRUE(is_stuck(consumer));
  EXPECT_EQ(journal(), Lines{});
  held.release();
  finish(consumer);
  EXPECT_EQ(journal(), (Lines{"producer", "consumer"}));
}

TEST_P(DeviceSuite, AWaitKeepsThePointItWasMadeForWhenAPendingOneFollows) {
  const Event event = device.create_event(), gate_passed = device.create_event();
  const Stream consumer = make_stream("consumer"), gate = make_stream("gate");
  const Hold gate_held = hold(gate);
  gate.record(gate_passed);
  stream.record(event);
  consumer.wait(gate_passed);  // so that the wait below is still pending when the event moves
  consumer.wait(event);
  note(consumer, "consumer");
  const Hold held = hold(stream);
  stream.record(event);
  gate_held.release();
  finish(consumer);
  EXPECT_EQ(journal(), Lines{"consumer"});
  EXPECT_FALSE(event.query());
  held.release();
}

TEST_P(DeviceSuite, AWaitMadeAfterRecordingAgainIsForTheNewPoint) {
  const Event event = device.create_event();
  const Stream consumer = make_stream("consumer");
  stream.record(event);
  finish(stream);
  const Hold held = hold(stream);
  note(stream, "producer");
  stream.record(event);
  consumer.wait(event);
  note(consumer, "consumer");
  EXPECT_TRUE(is_stuck(consumer));
  held.release();
  finish(consumer);
  EXPECT_EQ(journal(), (Lines{"producer", "consumer"}));
}

TEST_P(DeviceSuite, AnEventRecordedOnAnotherStreamStandsForThatOne) {
  const Event event = device.create_event();
  const Stream other = make_stream("other");
  const Hold held = hold(stream);
  stream.record(event);
  other.record(event);
  event.synchronize(kSoon);
  EXPECT_EQ(event.point().first, other.id());
  const Hold other_held = hold(other);
  held.release();
  finish(stream);
  other.record(event);
  EXPECT_FALSE(event.query());
  other_held.release();
}

TEST_P(DeviceSuite, AnEventOutlivesItsStream) {
  const Event event = device.create_event();
  {
    const Stream brief = device.create_stream();
    note(brief, "done");
    brief.record(event);
  }
  event.synchronize(kSoon);
  stream.wait(event);
  finish(stream);
  EXPECT_EQ(journal(), Lines{"done"});
}

TEST_P(DeviceSuite, AStreamMayWaitForAnEventWhoseHandleIsGone) {
  const Stream consumer = make_stream("consumer");
  const Hold held = hold(stream);
  note(stream, "producer");
  {
    const Event brief = device.create_event();
    stream.record(brief);
    consumer.wait(brief);
  }
  note(consumer, "consumer");
  EXPECT_TRUE(is_stuck(consumer));
  held.release();
  finish(consumer);
  EXPECT_EQ(journal(), (Lines{"producer", "consumer"}));
}

TEST_P(DeviceSuite, TimingEventsMeasureTheWorkBetweenThem) {
  const Event start = device.create_event({.timing = true}), end = device.create_event({.timing = true});
  const DeviceInts a = ints(4);
  stream.record(start);
  slow_add(stream, a, 1, 2ms);
  stream.record(end);
  finish(stream);
  EXPECT_GE(Event::elapsed(start, end), 0ns);
  if (traits().has_real_time) {
    // The kernel is busy for at least that long by its own clock.
    EXPECT_GE(Event::elapsed(start, end), 1500us);
  }
  EXPECT_EQ(Event::elapsed(start, start), 0ns);
}

TEST_P(DeviceSuite, TimingEventsAlsoOrder) {
  const Event event = device.create_event({.timing = true});
  const Stream consumer = make_stream("consumer");
  const Hold held = hold(stream);
  stream.record(event);
  consumer.wait(event);
  EXPECT_TRUE(is_stuck(consumer));
  held.release();
  finish(consumer);
  EXPECT_TRUE(event.query());
}

TEST_P(DeviceSuite, ElapsedIsRefusedForEventsMadeWithoutTiming) {
  const Event start = device.create_event({.timing = true}), end = device.create_event();
  stream.record(start);
  stream.record(end);
  finish(stream);
  expect_refused([&] { (void)Event::elapsed(start, end); }, {"timing"});
  expect_refused([&] { (void)Event::elapsed(end, start); }, {"timing"});
}

TEST_P(DeviceSuite, ElapsedIsRefusedUntilBothPointsAreReached) {
  const Event start = device.create_event({.timing = true}), end = device.create_event({.timing = true});
  expect_refused([&] { (void)Event::elapsed(start, end); }, {"recorded"});
  stream.record(start);
  const Hold held = hold(stream);
  stream.record(end);
  expect_refused([&] { (void)Event::elapsed(start, end); }, {"reached"});
  held.release();
  end.synchronize(kSoon);
  EXPECT_GE(Event::elapsed(start, end), 0ns);
}

TEST_P(DeviceSuite, AnEventNamesTheStreamAndTickOfItsLatestRecord) {
  const Event event = device.create_event();
  EXPECT_EQ(event.point().second, Tick(0));
  stream.record(event);
  const auto [where, tick] = event.point();
  EXPECT_EQ(where, stream.id());
  EXPECT_GT(tick, Tick(0));
  stream.record(event);
  EXPECT_GT(event.point().second, tick);
}

}  // namespace tessera::device::suite
