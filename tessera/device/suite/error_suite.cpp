// Errors of asynchronous work: parked, thrown at the next wait, kept until reset, inherited by waiting streams.
#include "tessera/device/suite/device_suite.h"

namespace tessera::device::suite {

using Lines = std::vector<std::string>;

TEST_P(DeviceSuite, FailedWorkIsThrownAtTheNextWaitAndNotBefore) {
  fail_host(stream, "one");  // does not throw, even if it ran immediately
  expect_error<DeviceError>([&] { finish(stream); }, {"on purpose: one"});
}

TEST_P(DeviceSuite, AParkedErrorIsThrownByEveryWaitUntilReset) {
  fail_host(stream);
  for (int i = 0; i < 3; ++i) expect_error<DeviceError>([&] { finish(stream); }, {"boom"});
  expect_error<DeviceError>([&] { (void)stream.query(); }, {"boom"});
  stream.reset_error();
  finish(stream);
  EXPECT_TRUE(stream.query());
}

TEST_P(DeviceSuite, AStreamWorksAgainAfterReset) {
  fail_host(stream);
  EXPECT_THROW(finish(stream), DeviceError);
  stream.reset_error();
  const DeviceInts a = ints(16);
  add(stream, a, 1);
  note(stream, "after");
  finish(stream);
  EXPECT_EQ(journal(), Lines{"after"});
  EXPECT_EQ(read(a), all(16, 1));
}

TEST_P(DeviceSuite, EnqueueingBehindAParkedErrorDoesNotThrow) {
  const DeviceInts a = ints(16);
  const Event event = device.create_event();
  const Hold held = hold(stream);
  fail_host(stream);
  add(stream, a, 1);
  stream.record(event);
  stream.wait(event);
  held.release();
  expect_error<DeviceError>([&] { finish(stream); }, {"boom"});
  add(stream, a, 1);
  expect_error<DeviceError>([&] { finish(stream); }, {"boom"});
}

TEST_P(DeviceSuite, TheFirstOfTwoErrorsIsKept) {
  const Hold held = hold(stream);
  fail_host(stream, "first");
  fail_host(stream, "second");
  held.release();
  expect_error<DeviceError>([&] { finish(stream); }, {"first"});
}

TEST_P(DeviceSuite, AnErrorOfAnyTypeKeepsItsText) {
  stream.run([] { throw std::runtime_error("plain words"); });
  try {
    finish(stream);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const std::exception& error) {
    EXPECT_NE(std::string(error.what()).find("plain words"), std::string::npos) << error.what();
  }
}

TEST_P(DeviceSuite, OtherStreamsDoNotSeeAnError) {
  const Stream other = make_stream("other");
  fail_host(stream);
  note(other, "fine");
  finish(other);
  EXPECT_TRUE(other.query());
  EXPECT_EQ(journal(), Lines{"fine"});
  EXPECT_THROW(finish(stream), DeviceError);
}

TEST_P(DeviceSuite, AnEventBehindAFailureThrowsIt) {
  const Event before = device.create_event(), behind = device.create_event();
  const Hold held = hold(stream);
  stream.record(before);
  fail_host(stream);
  stream.record(behind);
  held.release();
  expect_error<DeviceError>([&] { behind.synchronize(kSoon); }, {"boom"});
  expect_error<DeviceError>([&] { (void)behind.query(); }, {"boom"});
  before.synchronize(kSoon);
  EXPECT_TRUE(before.query());
}

TEST_P(DeviceSuite, AnEventRecordedAgainAfterResetIsClean) {
  const Event event = device.create_event();
  fail_host(stream);
  stream.record(event);
  EXPECT_THROW(event.synchronize(kSoon), DeviceError);
  EXPECT_THROW(finish(stream), DeviceError);
  stream.reset_error();
  stream.record(event);
  event.synchronize(kSoon);
  finish(stream);
}

TEST_P(DeviceSuite, AStreamThatWaitsBehindAFailureInheritsIt) {
  const Stream consumer = make_stream("consumer"), third = make_stream("third");
  const Event event = device.create_event(), next = device.create_event();
  const Hold held = hold(stream);
  fail_host(stream, "inherited");
  stream.record(event);
  consumer.wait(event);
  consumer.record(next);
  third.wait(next);
  held.release();
  expect_error<DeviceError>([&] { finish(consumer); }, {"inherited"});
  expect_error<DeviceError>([&] { finish(third); }, {"inherited"});
  consumer.reset_error();
  finish(consumer);
  expect_error<DeviceError>([&] { finish(stream); }, {"inherited"});
}

TEST_P(DeviceSuite, AStreamThatWaitsForAPointBeforeAFailureDoesNotInheritIt) {
  const Stream consumer = make_stream("consumer");
  const Event event = device.create_event();
  const Hold held = hold(stream);
  stream.record(event);
  fail_host(stream);
  consumer.wait(event);
  note(consumer, "fine");
  held.release();
  EXPECT_THROW(finish(stream), DeviceError);
  finish(consumer);
  EXPECT_EQ(journal(), Lines{"fine"});
}

TEST_P(DeviceSuite, DeviceSynchronizeThrowsWhatIsParkedOnAnyStream) {
  const Stream other = make_stream("other");
  fail_host(other, "somewhere");
  expect_error<DeviceError>([&] { device.synchronize(kSoon); }, {"somewhere"});
  other.reset_error();
  device.synchronize(kSoon);
}

TEST_P(DeviceSuite, WaitsEndThoughWorkFailed) {
  const Tick used = [&] {
    const Hold held = hold(stream);
    fail_host(stream);
    note(stream, "behind");
    const Tick tick = stream.publish();
    held.release();
    return tick;
  }();
  EXPECT_THROW(finish(stream), DeviceError);
  EXPECT_GE(stream.completed(), used);
}

TEST_P(DeviceSuite, WorkBehindAFailureIsSkippedWhereThatIsPromised) {
  if (!traits().skips_after_error) GTEST_SKIP() << "work behind a failure may run on this device";
  const Stream consumer = make_stream("consumer");
  const Event event = device.create_event();
  const Hold held = hold(stream);
  fail_host(stream);
  note(stream, "behind");
  stream.record(event);
  consumer.wait(event);
  note(consumer, "inherited");
  held.release();
  EXPECT_THROW(finish(stream), DeviceError);
  EXPECT_THROW(finish(consumer), DeviceError);
  note(stream, "still behind");
  EXPECT_THROW(finish(stream), DeviceError);
  EXPECT_EQ(journal(), Lines{});
}

TEST_P(DeviceSuite, ResettingWithNothingParkedDoesNothing) {
  stream.reset_error();
  note(stream, "fine");
  finish(stream);
  EXPECT_EQ(journal(), Lines{"fine"});
}

TEST_P(DeviceSuite, AFailureInAReplayIsParkedOnItsStream) {
  const Stream other = make_stream("other");
  stream.begin_capture();
  note(stream, "before");
  fail_host(stream, "in the graph");
  const GraphExec exec = stream.end_capture().instantiate();
  finish(stream);
  exec.launch(other);
  expect_error<DeviceError>([&] { finish(other); }, {"in the graph"});
  finish(stream);
  other.reset_error();
  finish(other);
  exec.launch(other);
  expect_error<DeviceError>([&] { finish(other); }, {"in the graph"});
  EXPECT_EQ(journal(), (Lines{"before", "before"}));
}

TEST_P(DeviceSuite, AFailedKernelIsThrownAtTheNextWait) {
  if (ran_in_child_if_lossy()) return;
  fail_kernel(stream);
  EXPECT_THROW(finish(stream), DeviceError);
  EXPECT_THROW(finish(stream), DeviceError);
}

TEST_P(DeviceSuite, AfterAFailedKernelTheStreamIsResetOrTheDeviceIsLost) {
  if (ran_in_child_if_lossy()) return;
  fail_kernel(stream);
  EXPECT_THROW(finish(stream), DeviceError);
  if (device.properties().is_lossy_on_error) {
    expect_error<DeviceError>([&] { stream.reset_error(); });
    EXPECT_THROW(finish(stream), DeviceError);
  } else {
    stream.reset_error();
    note(stream, "after");
    finish(stream);
    EXPECT_EQ(journal(), Lines{"after"});
  }
}

TEST_P(DeviceSuite, AKernelFailingOnOneStreamIsSeenByThoseThatWaitForIt) {
  if (ran_in_child_if_lossy()) return;
  const Stream consumer = make_stream("consumer");
  const Event event = device.create_event();
  const Hold held = hold(stream);
  fail_kernel(stream);
  stream.record(event);
  consumer.wait(event);
  held.release();
  EXPECT_THROW(finish(consumer), DeviceError);
  EXPECT_THROW(event.synchronize(kSoon), DeviceError);
}

}  // namespace tessera::device::suite
