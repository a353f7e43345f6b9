// State of a stream that is read without its lock: its slot, which outlives it, and the state that the device keeps by
// slot id.
#include "tessera/device/suite/device_suite.h"

namespace tessera::device::suite {

using Lines = std::vector<std::string>;

TEST_P(DeviceSuite, UpcomingIsCoveredByARecordMadeAfterIt) {
  const Stream other = make_stream("other");
  const Event event = device.create_event();
  const Hold held = hold(stream);
  note(stream, "use");
  const Tick used = stream.slot().upcoming();
  EXPECT_FALSE(other.covers(stream.id(), used));
  stream.record(event);
  EXPECT_FALSE(other.covers(stream.id(), used));
  other.wait(event);
  EXPECT_TRUE(other.covers(stream.id(), used));
  note(other, "reuse");
  EXPECT_TRUE(is_stuck(other));
  held.release();
  finish(other);
  EXPECT_EQ(journal(), (Lines{"use", "reuse"}));
}

TEST_P(DeviceSuite, UpcomingIsNotCoveredByARecordMadeBefore) {
  const Stream other = make_stream("other");
  const Event event = device.create_event();
  stream.record(event);
  unseen_note(stream.native(), "unseen use");
  const Tick used = stream.slot().upcoming();
  other.wait(event);
  EXPECT_FALSE(other.covers(stream.id(), used));
  EXPECT_FALSE(stream.covers(stream.id(), used));
  EXPECT_TRUE(stream.covers(stream.id(), stream.stamp()));
  EXPECT_TRUE(stream.covers(stream.id(), used));
}

TEST_P(DeviceSuite, ReadingASlotTakesNoTick) {
  const StreamSlot& slot = stream.slot();
  const Tick stamped = stream.stamp();
  EXPECT_EQ(slot.id(), stream.id());
  EXPECT_EQ(slot.device(), device.state().get());
  EXPECT_EQ(slot.tick(), stamped);
  EXPECT_EQ(slot.upcoming(), Tick(stamped.value() + 1));
  EXPECT_EQ(slot.upcoming(), Tick(stamped.value() + 1));
  EXPECT_EQ(stream.stamp(), Tick(stamped.value() + 1));
}

TEST_P(DeviceSuite, ASlotShowsWhatIsKnownToHaveCompleted) {
  const Tick used = stream.stamp();
  finish(stream);
  EXPECT_GE(stream.slot().completed(), used);
  const Hold held = hold(stream);
  const Tick later = stream.stamp();
  (void)stream.poll();
  EXPECT_LT(stream.slot().completed(), later);
  held.release();
}

TEST_P(DeviceSuite, APlainStreamHasNoHazards) {
  EXPECT_EQ(make_stream("plain").slot().hazards(), 0U);
  EXPECT_EQ(device.default_stream().slot().hazards(), 0U);
}

TEST_P(DeviceSuite, CapturingShowsOnEveryStreamOfTheCapture) {
  const Stream side = make_stream("side"), other = make_stream("other");
  const Event fork = device.create_event(), join = device.create_event();
  stream.begin_capture();
  EXPECT_EQ(stream.slot().hazards(), StreamSlot::kCapturing);
  EXPECT_EQ(side.slot().hazards(), 0U);
  note(stream, "root");
  stream.record(fork);
  side.wait(fork);
  EXPECT_EQ(side.slot().hazards(), StreamSlot::kCapturing);
  note(side, "side");
  expect_refused([&] { (void)stream.end_capture(); }, {"side"});
  EXPECT_EQ(stream.slot().hazards(), StreamSlot::kCapturing);
  EXPECT_EQ(side.slot().hazards(), StreamSlot::kCapturing);
  EXPECT_EQ(other.slot().hazards(), 0U);
  side.record(join);
  stream.wait(join);
  (void)stream.end_capture();
  EXPECT_EQ(stream.slot().hazards(), 0U);
  EXPECT_EQ(side.slot().hazards(), 0U);
}

TEST_P(DeviceSuite, CapturingIsOverWhenTheCaptureIsDropped) {
  const Stream side = make_stream("side");
  const Event fork = device.create_event();
  stream.begin_capture();
  note(stream, "root");
  stream.record(fork);
  side.wait(fork);
  stream.abort_capture();
  EXPECT_EQ(stream.slot().hazards(), 0U);
  EXPECT_EQ(side.slot().hazards(), 0U);
}

TEST_P(DeviceSuite, OverlappingShowsWhileAnyScopeIsOpen) {
  {
    const Stream::OverlapScope outer(stream);
    {
      const Stream::OverlapScope inner(stream);
      EXPECT_EQ(stream.slot().hazards(), StreamSlot::kOverlapping);
    }
    EXPECT_EQ(stream.slot().hazards(), StreamSlot::kOverlapping);
    stream.begin_capture();
    EXPECT_EQ(stream.slot().hazards(), StreamSlot::kOverlapping | StreamSlot::kCapturing);
    stream.abort_capture();
    EXPECT_EQ(stream.slot().hazards(), StreamSlot::kOverlapping);
  }
  EXPECT_EQ(stream.slot().hazards(), 0U);
}

TEST_P(DeviceSuite, AWrappedStreamIsForeignForGood) {
  const Stream wrapped = Stream::wrap(device, subject().foreign_stream());
  EXPECT_EQ(wrapped.slot().hazards(), StreamSlot::kForeign);
  wrapped.begin_capture();
  EXPECT_EQ(wrapped.slot().hazards(), StreamSlot::kForeign | StreamSlot::kCapturing);
  note(wrapped, "captured");
  (void)wrapped.end_capture();
  EXPECT_EQ(wrapped.slot().hazards(), StreamSlot::kForeign);
  EXPECT_EQ(Stream::wrap(device, stream.native()).slot().hazards(), 0U);
}

TEST_P(DeviceSuite, TheSlotOfADestroyedStreamIsVacantAndItsLastTickCompletes) {
  const Event ready = device.create_event();
  const Hold held = hold(stream);
  stream.record(ready);
  Stream brief = device.create_stream();
  const StreamSlot& slot = brief.slot();
  const StreamId id = brief.id();
  brief.wait(ready);
  note(brief, "work");
  const Tick used = slot.upcoming();
  brief.reset();
  EXPECT_EQ(slot.hazards(), StreamSlot::kVacant);
  EXPECT_GE(slot.tick(), used);
  EXPECT_EQ(slot.upcoming(), slot.tick());
  EXPECT_LT(device.completed(id), used);
  EXPECT_LT(device.poll(id), used);
  held.release();
  device.synchronize(kSoon);
  EXPECT_GE(device.poll(id), used);
  EXPECT_GE(device.completed(id), slot.tick());
  EXPECT_GE(slot.completed(), slot.tick());
}

TEST_P(DeviceSuite, AVacantSlotThatWasIdleIsCompleteAtOnce) {
  Stream brief = device.create_stream();
  const StreamSlot& slot = brief.slot();
  const StreamId id = brief.id();
  note(brief, "work");
  finish(brief);
  const Tick used = slot.upcoming();
  brief.reset();
  EXPECT_GE(device.poll(id), used);
  EXPECT_GE(device.completed(id), used);
}

TEST_P(DeviceSuite, ASlotTakenOverIsAsGoodAsNew) {
  Stream brief = device.create_stream();
  const StreamSlot& slot = brief.slot();
  const StreamId id = brief.id();
  brief.reset();
  device.synchronize(kSoon);
  const Tick last = slot.tick();
  std::vector<Stream> fresh;
  while (fresh.size() < 64 && (fresh.empty() || fresh.back().id() != id)) fresh.push_back(device.create_stream());
  ASSERT_EQ(fresh.back().id(), id);
  EXPECT_EQ(&fresh.back().slot(), &slot);
  EXPECT_EQ(slot.hazards(), 0U);
  EXPECT_GT(slot.upcoming(), last);
}

TEST_P(DeviceSuite, AStreamIsFoundByItsId) {
  const Stream found = device.stream(stream.id());
  ASSERT_TRUE(static_cast<bool>(found));
  EXPECT_EQ(found.native(), stream.native());
  EXPECT_EQ(device.stream(device.default_stream().id()).native(), device.default_stream().native());
  Stream brief = device.create_stream();
  const StreamId id = brief.id();
  EXPECT_EQ(device.stream(id).native(), brief.native());
  brief.reset();
  EXPECT_FALSE(static_cast<bool>(device.stream(id)));
  expect_refused([&] { (void)device.stream(StreamId(100000)); }, {"no stream", "100000"});
}

TEST_P(DeviceSuite, CapturesUnderWayAreCounted) {
  const Stream other = make_stream("other");
  EXPECT_EQ(device.captures(), 0U);
  stream.begin_capture();
  EXPECT_EQ(device.captures(), 1U);
  other.begin_capture();
  EXPECT_EQ(device.captures(), 2U);
  note(stream, "captured");
  (void)stream.end_capture();
  EXPECT_EQ(device.captures(), 1U);
  other.abort_capture();
  EXPECT_EQ(device.captures(), 0U);
}

TEST_P(DeviceSuite, ThePublishedTickIsKnownToTheDeviceToo) {
  const Stream other = make_stream("other");
  const Event event = device.create_event();
  const Hold held = hold(stream);
  const Tick tick = stream.publish();
  stream.record(event);
  other.wait(event);
  const Hold second = hold(stream);
  EXPECT_LT(device.completed(stream.id()), tick);
  held.release();
  finish(other);  // after the publication; the stream itself is not queried
  EXPECT_GE(device.completed(stream.id()), tick);
  second.release();
}

TEST_P(DeviceSuite, SlotsAreReadWhileTheStreamWorks) {
  const StreamSlot& slot = stream.slot();
  constexpr int kRounds = 200;
  Tick latest, seen;
  bool only_rises = true;
  subject().run_together({[&] {
                            const Event event = device.create_event();
                            for (int i = 0; i < kRounds; ++i) {
                              stream.record(event);
                              latest = stream.stamp();
                            }
                          },
                          [&] {
                            for (int i = 0; i < kRounds; ++i) {
                              const Tick now = slot.upcoming();
                              only_rises = only_rises && now >= seen;
                              seen = now;
                            }
                          }});
  EXPECT_TRUE(only_rises);
  EXPECT_EQ(slot.tick(), latest);
  EXPECT_LE(seen, slot.upcoming());
}

}  // namespace tessera::device::suite
