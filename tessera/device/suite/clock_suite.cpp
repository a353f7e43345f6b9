// Clocks: which waits prove order, which do not, and when a tick is known to have completed.
#include "tessera/device/suite/device_suite.h"

namespace tessera::device::suite {

TEST_P(DeviceSuite, AStreamCoversItsOwnStamps) {
  const Tick tick = stream.stamp();
  EXPECT_TRUE(stream.covers(stream.id(), tick));
  EXPECT_FALSE(stream.covers(stream.id(), Tick(tick.value() + 1)));
}

TEST_P(DeviceSuite, StampsAndRecordsTakeNewTicks) {
  const Event event = device.create_event();
  const Tick first = stream.stamp();
  stream.record(event);
  const Tick second = event.point().second;
  const Tick third = stream.stamp();
  EXPECT_LT(first, second);
  EXPECT_LT(second, third);
}

TEST_P(DeviceSuite, RecordAndWaitCoverWhatCameBefore) {
  const Stream other = make_stream();
  const Event event = device.create_event();
  const Tick used = stream.stamp();
  EXPECT_FALSE(other.covers(stream.id(), used));
  stream.record(event);
  EXPECT_FALSE(other.covers(stream.id(), used));
  other.wait(event);
  EXPECT_TRUE(other.covers(stream.id(), used));
  EXPECT_TRUE(other.covers(stream.id(), event.point().second));
}

TEST_P(DeviceSuite, AStampAfterTheRecordIsNotCovered) {
  const Stream other = make_stream();
  const Event event = device.create_event();
  stream.record(event);
  const Tick used = stream.stamp();
  other.wait(event);
  EXPECT_FALSE(other.covers(stream.id(), used));
}

TEST_P(DeviceSuite, CoverPassesThroughAThirdStream) {
  const Stream second = make_stream(), third = make_stream();
  const Event first_done = device.create_event(), second_done = device.create_event();
  const Tick used = stream.stamp();
  stream.record(first_done);
  second.wait(first_done);
  second.record(second_done);
  third.wait(second_done);
  EXPECT_TRUE(third.covers(stream.id(), used));
  EXPECT_TRUE(third.covers(second.id(), second_done.point().second));
}

TEST_P(DeviceSuite, CoverDoesNotPassThroughAnEventRecordedBeforeTheWait) {
  const Stream second = make_stream(), third = make_stream();
  const Event first_done = device.create_event(), second_early = device.create_event();
  const Tick used = stream.stamp();
  stream.record(first_done);
  second.record(second_early);
  second.wait(first_done);
  third.wait(second_early);
  EXPECT_TRUE(second.covers(stream.id(), used));
  EXPECT_FALSE(third.covers(stream.id(), used));
}

TEST_P(DeviceSuite, WaitingCoversInOneDirectionOnly) {
  const Stream other = make_stream();
  const Event event = device.create_event();
  const Tick used_there = other.stamp();
  stream.record(event);
  other.wait(event);
  EXPECT_FALSE(stream.covers(other.id(), used_there));
}

TEST_P(DeviceSuite, UnrelatedStreamsCoverNothingOfEachOther) {
  const Stream other = make_stream();
  const Tick used = stream.stamp();
  const Tick used_there = other.stamp();
  EXPECT_FALSE(other.covers(stream.id(), used));
  EXPECT_FALSE(stream.covers(other.id(), used_there));
}

TEST_P(DeviceSuite, WaitingForAnEventNeverRecordedCoversNothing) {
  const Stream other = make_stream();
  const Tick used = stream.stamp();
  other.wait(device.create_event());
  EXPECT_FALSE(other.covers(stream.id(), used));
}

TEST_P(DeviceSuite, TheClockOfAnEventIsThatOfItsRecord) {
  const Stream other = make_stream();
  const Event event = device.create_event(), later = device.create_event();
  stream.record(event);
  other.record(later);
  stream.wait(later);
  EXPECT_TRUE(event.clock().covers(stream.id(), event.point().second));
  EXPECT_FALSE(event.clock().covers(other.id(), later.point().second));
  EXPECT_TRUE(stream.clock().covers(other.id(), later.point().second));
}

TEST_P(DeviceSuite, RecordingAgainReplacesTheClockOfAnEvent) {
  const Stream second = make_stream(), third = make_stream();
  const Event event = device.create_event();
  const Tick used = stream.stamp();
  stream.record(event);
  second.record(event);
  third.wait(event);
  EXPECT_FALSE(third.covers(stream.id(), used));
  EXPECT_TRUE(third.covers(second.id(), event.point().second));
}

TEST_P(DeviceSuite, ANotedWaitCoversAndMakesNoWait) {
  const Stream other = make_stream("other");
  const Event event = device.create_event();
  const Hold held = hold(stream);
  const Tick used = stream.stamp();
  stream.record(event);
  other.note_wait(event);
  EXPECT_TRUE(other.covers(stream.id(), used));
  note(other, "ran");
  finish(other);
  EXPECT_EQ(journal(), std::vector<std::string>{"ran"});
  held.release();
}

TEST_P(DeviceSuite, OrderIsNotCompletion) {
  const Stream other = make_stream();
  const Event event = device.create_event();
  const Hold held = hold(stream);
  note(stream, "work");
  const Tick used = stream.stamp();
  stream.record(event);
  other.wait(event);
  EXPECT_TRUE(other.covers(stream.id(), used));
  EXPECT_LT(stream.completed(), used);
  EXPECT_LT(stream.poll(), used);
  EXPECT_LT(device.completed(stream.id()), used);
  held.release();
  finish(other);
}

TEST_P(DeviceSuite, CompletedRisesAfterSynchronize) {
  const Hold held = hold(stream);
  const Tick used = stream.stamp();
  EXPECT_LT(stream.completed(), used);
  held.release();
  finish(stream);
  EXPECT_GE(stream.completed(), used);
  EXPECT_GE(device.completed(stream.id()), used);
}

TEST_P(DeviceSuite, CompletedDoesNotRiseForTicksTakenAfterTheWait) {
  finish(stream);
  const Hold held = hold(stream);
  const Tick used = stream.stamp();
  EXPECT_LT(stream.completed(), used);
  EXPECT_LT(stream.poll(), used);
  held.release();
}

TEST_P(DeviceSuite, CompletedRisesWhenQueryOrPollFindTheStreamIdle) {
  finish(stream);
  const Tick first = stream.stamp();
  EXPECT_TRUE(stream.query());
  EXPECT_GE(stream.completed(), first);
  const Tick second = stream.stamp();
  EXPECT_GE(stream.poll(), second);
  EXPECT_GE(stream.completed(), second);
}

TEST_P(DeviceSuite, CompletedRisesWhenAnEventOfTheStreamIsSeenReached) {
  const Event event = device.create_event();
  const Tick used = stream.stamp();
  stream.record(event);
  const Tick point = event.point().second;
  const Hold held = hold(stream);
  const Tick later = stream.stamp();
  event.synchronize(kSoon);
  EXPECT_GE(stream.slot().completed(), point);  // before a query of the stream or of its progress word
  EXPECT_GE(device.completed(stream.id()), point);
  EXPECT_GE(stream.completed(), used);
  EXPECT_GE(stream.poll(), used);
  EXPECT_LT(stream.completed(), later);
  held.release();
}

TEST_P(DeviceSuite, CompletedRisesWhenAnEventOfTheStreamIsFoundReached) {
  const Event event = device.create_event();
  const Stream other = make_stream("other");
  stream.record(event);
  other.wait(event);
  finish(other);
  const Hold held = hold(stream);
  EXPECT_TRUE(event.query());
  EXPECT_GE(stream.slot().completed(), event.point().second);
  held.release();
}

TEST_P(DeviceSuite, APublishedTickIsSeenWithNoFurtherCall) {
  const Stream other = make_stream("other");
  const Event event = device.create_event();
  const Hold held = hold(stream);
  const Tick tick = stream.publish();
  stream.record(event);
  other.wait(event);
  EXPECT_LT(stream.completed(), tick);
  const Hold second = hold(stream);
  held.release();
  finish(other);  // after the publication; the stream itself is not queried
  EXPECT_GE(stream.completed(), tick);
  EXPECT_GE(device.completed(stream.id()), tick);
  second.release();
}

TEST_P(DeviceSuite, APublishedTickWaitsForTheWorkBeforeIt) {
  const Hold held = hold(stream);
  note(stream, "work");
  const Tick tick = stream.publish();
  EXPECT_TRUE(is_stuck(stream));
  EXPECT_LT(stream.completed(), tick);
  held.release();
  finish(stream);
  EXPECT_GE(stream.completed(), tick);
}

TEST_P(DeviceSuite, TheCompletedTickOfADestroyedStreamIsKnown) {
  Stream brief = device.create_stream();
  note(brief, "work");
  const Tick used = brief.stamp();
  const StreamId id = brief.id();
  finish(brief);
  brief.reset();
  EXPECT_GE(device.completed(id), used);
}

TEST_P(DeviceSuite, TheWorkOfADestroyedStreamIsKnownToCompleteInTheEnd) {
  const Event ready = device.create_event(), done = device.create_event();
  const Hold held = hold(stream);
  stream.record(ready);
  Stream brief = device.create_stream();
  brief.wait(ready);
  note(brief, "work");
  const Tick used = brief.stamp();
  const StreamId id = brief.id();
  brief.record(done);
  brief.reset();
  EXPECT_LT(device.completed(id), used);
  held.release();
  done.synchronize(kSoon);
  device.synchronize(kSoon);
  EXPECT_GE(device.completed(id), used);
}

TEST_P(DeviceSuite, ASlotUsedAgainIsNotCoveredByOldWaits) {
  const Event event = device.create_event();
  Stream brief = device.create_stream();
  const StreamId id = brief.id();
  brief.record(event);
  const Tick old = event.point().second;
  stream.wait(event);
  finish(stream);
  finish(brief);
  brief.reset();
  std::vector<Stream> fresh;
  while (fresh.size() < 64 && (fresh.empty() || fresh.back().id() != id)) fresh.push_back(device.create_stream());
  for (const Stream& each : fresh) {
    const Tick tick = each.stamp();
    if (each.id() == id) {
      EXPECT_GT(tick, old);
    }
    EXPECT_FALSE(stream.covers(each.id(), tick));
  }
}

TEST_P(DeviceSuite, ASlotIsNotUsedAgainWhileItsWorkIsPending) {
  const Event ready = device.create_event();
  const Hold held = hold(stream);
  stream.record(ready);
  Stream brief = device.create_stream();
  const StreamId id = brief.id();
  brief.wait(ready);
  brief.reset();
  for (int i = 0; i < 8; ++i) {
    const Stream fresh = device.create_stream();
    EXPECT_NE(fresh.id(), id);
  }
  held.release();
  device.synchronize(kSoon);
}

}  // namespace tessera::device::suite
