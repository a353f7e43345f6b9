// Words in memory that streams write and wait for, holds, and timeouts.
#include "tessera/device/suite/device_suite.h"

namespace tessera::device::suite {

using Lines = std::vector<std::string>;

TEST_P(DeviceSuite, AWordIsWrittenAfterTheWorkBeforeIt) {
  std::uint64_t* const flag = word();
  const Hold held = hold(stream);
  note(stream, "work");
  stream.write_value(flag, 0x1122334455667788);
  EXPECT_TRUE(is_stuck(stream));
  EXPECT_EQ(load(flag), 0U);
  held.release();
  finish(stream);
  EXPECT_EQ(load(flag), 0x1122334455667788U);
  EXPECT_EQ(journal(), Lines{"work"});
}

TEST_P(DeviceSuite, WordsCanLieInDeviceMemory) {
  const DeviceInts a = ints(4);
  auto* flag = reinterpret_cast<std::uint64_t*>(a.data);
  const Stream other = make_stream("other");
  const Hold held = hold(stream);
  stream.write_value(flag, 5);
  other.wait_value(flag, 5, Compare::kEqual);
  note(other, "let go");
  EXPECT_TRUE(is_stuck(other));
  held.release();
  finish(other);
  EXPECT_EQ(read(a), (std::vector<int>{5, 0, 0, 0}));
}

TEST_P(DeviceSuite, AWaitForAWordStopsTheStreamUntilTheHostWrites) {
  std::uint64_t* const flag = word();
  stream.wait_value(flag, 3);
  note(stream, "let go");
  EXPECT_TRUE(is_stuck(stream));
  store(flag, 2);
  EXPECT_TRUE(is_stuck(stream));
  EXPECT_EQ(journal(), Lines{});
  store(flag, 3);
  finish(stream);
  EXPECT_EQ(journal(), Lines{"let go"});
}

TEST_P(DeviceSuite, AStreamLetsAnotherGoByWritingAWord) {
  std::uint64_t* const flag = word();
  const DeviceInts a = ints(32), b = ints(32);
  const Stream consumer = make_stream("consumer");
  const Hold held = hold(stream);
  fill(stream, a, 4);
  stream.write_value(flag, 1);
  consumer.wait_value(flag, 1);
  copy(consumer, b, a);
  EXPECT_TRUE(is_stuck(consumer));
  held.release();
  finish(consumer);
  EXPECT_EQ(read(b), all(32, 4));
}

TEST_P(DeviceSuite, AWaitForAWordThatIsThereDoesNotStop) {
  std::uint64_t* const flag = word();
  store(flag, 9);
  stream.wait_value(flag, 9, Compare::kEqual);
  stream.wait_value(flag, 8, Compare::kGreaterEqual);
  stream.wait_value(flag, 1, Compare::kAnd);
  finish(stream);
}

TEST_P(DeviceSuite, EqualWaitsForExactlyTheValue) {
  std::uint64_t* const flag = word(4);
  store(flag, 5);
  stream.wait_value(flag, 4, Compare::kEqual);
  EXPECT_TRUE(is_stuck(stream));
  store(flag, 4);
  finish(stream);
}

TEST_P(DeviceSuite, GreaterEqualIsACyclicDifference) {
  std::uint64_t* const flag = word(2);
  const std::uint64_t near_the_end = ~std::uint64_t{0} - 2;
  store(flag, near_the_end);
  stream.wait_value(flag, 2);  // the word is 5 behind
  EXPECT_TRUE(is_stuck(stream));
  store(flag, 2);
  finish(stream);
  stream.wait_value(flag, near_the_end);  // the word is 5 ahead
  finish(stream);
}

TEST_P(DeviceSuite, AndWaitsForAnyOfTheBits) {
  std::uint64_t* const flag = word(6);
  store(flag, 9);
  stream.wait_value(flag, 6, Compare::kAnd);
  EXPECT_TRUE(is_stuck(stream));
  store(flag, 4);
  finish(stream);
}

TEST_P(DeviceSuite, StreamsThatMayStopAreMarked) {
  EXPECT_FALSE(make_stream().may_spin());
  EXPECT_TRUE(make_stream("spins", {.may_spin = true}).may_spin());
  const Stream waits = make_stream(), held = make_stream(), writes = make_stream();
  std::uint64_t* const flag = word();
  writes.write_value(flag, 1);
  waits.wait_value(flag, 1);
  hold(held).release();
  EXPECT_TRUE(waits.may_spin());
  EXPECT_TRUE(held.may_spin());
  EXPECT_FALSE(writes.may_spin());
}

TEST_P(DeviceSuite, AHoldStopsUntilReleased) {
  const Hold held = hold(stream);
  note(stream, "after");
  EXPECT_TRUE(is_stuck(stream));
  EXPECT_EQ(journal(), Lines{});
  held.release();
  finish(stream);
  EXPECT_EQ(journal(), Lines{"after"});
  EXPECT_FALSE(held.timed_out());
}

TEST_P(DeviceSuite, AHoldIsForWorkAfterItOnly) {
  const Event event = device.create_event();
  note(stream, "before");
  stream.record(event);
  const Hold held = hold(stream);
  event.synchronize(kSoon);
  EXPECT_EQ(journal(), Lines{"before"});
  held.release();
}

TEST_P(DeviceSuite, ReleasingAHoldTwiceIsReleasingItOnce) {
  const Hold held = hold(stream);
  held.release();
  held.release();
  finish(stream);
  const Hold next = hold(stream);
  held.release();  // releases the first hold, not this one
  EXPECT_TRUE(is_stuck(stream));
  next.release();
  finish(stream);
}

TEST_P(DeviceSuite, AHoldReleasedBeforeItIsReachedDoesNotStop) {
  const Hold first = hold(stream), second = hold(stream);
  note(stream, "after");
  second.release();
  EXPECT_TRUE(is_stuck(stream));
  first.release();
  finish(stream);
  EXPECT_FALSE(second.timed_out());
  EXPECT_EQ(journal(), Lines{"after"});
}

TEST_P(DeviceSuite, AHoldPastItsDeadlineParksATimeout) {
  const Hold held = stream.hold(1ms);
  expect_error<TimeoutError>([&] { finish(stream); }, {"hold"});
  EXPECT_TRUE(held.timed_out());
  EXPECT_THROW(finish(stream), TimeoutError);
  held.release();
  EXPECT_TRUE(held.timed_out());
  stream.reset_error();
  note(stream, "after");
  finish(stream);
  EXPECT_EQ(journal(), Lines{"after"});
}

TEST_P(DeviceSuite, TheDeadlineOfAHoldCountsFromWhenItIsReached) {
  const Event ready = device.create_event();
  const Stream gate = make_stream("gate");
  const Hold gate_held = hold(gate);
  gate.record(ready);
  stream.wait(ready);
  const Hold held = stream.hold(1ms);
  EXPECT_TRUE(is_stuck(stream));
  EXPECT_TRUE(is_stuck(stream));
  EXPECT_FALSE(held.timed_out());
  held.release();
  gate_held.release();
  finish(stream);
  EXPECT_FALSE(held.timed_out());
}

TEST_P(DeviceSuite, SynchronizePastItsDeadlineThrowsAndTheWorkGoesOn) {
  const Hold held = hold(stream);
  note(stream, "work");
  expect_error<TimeoutError>([&] { stream.synchronize(kGlimpse); });
  expect_error<TimeoutError>([&] { stream.synchronize(0ns); });
  EXPECT_EQ(journal(), Lines{});
  held.release();
  finish(stream);  // the timeout parked nothing
  EXPECT_EQ(journal(), Lines{"work"});
}

TEST_P(DeviceSuite, ADeadlineMessageNamesTheStream) {
  const Stream slow = make_stream("slowpoke");
  const Hold held = hold(slow);
  expect_error<TimeoutError>([&] { slow.synchronize(kGlimpse); }, {"slowpoke"});
  held.release();
}

TEST_P(DeviceSuite, SynchronizingWithADeadlineOfZeroIsAskingOnce) {
  finish(stream);
  stream.synchronize(0ns);
  const Event event = device.create_event();
  stream.record(event);
  finish(stream);
  event.synchronize(0ns);
}

TEST_P(DeviceSuite, EventDeadlinesThrowAndTheWorkGoesOn) {
  const Event event = device.create_event();
  const Hold held = hold(stream);
  note(stream, "work");
  stream.record(event);
  expect_error<TimeoutError>([&] { event.synchronize(kGlimpse); });
  held.release();
  event.synchronize(kSoon);
  finish(stream);
  EXPECT_EQ(journal(), Lines{"work"});
}

TEST_P(DeviceSuite, AKernelMaySpinOnAWord) {
  std::uint64_t* const flag = word();
  store(flag, 1);
  const std::uint64_t* at = flag;
  const std::uint64_t value = 1;
  LaunchConfig config;
  config.spins = true;
  stream.launch(subject().kernel("spin_until"), config, KernelArgs(at, value));
  note(stream, "after");
  finish(stream);
  EXPECT_EQ(journal(), Lines{"after"});
}

TEST_P(DeviceSuite, SpinningLaunchesThatCouldNotAllRunAtOnceAreRefused) {
  if (!traits().has_spin_budget) GTEST_SKIP() << "launches of this device do not compete for room";
  std::uint64_t* const flag = word();
  store(flag, 1);  // it would end immediately
  const std::uint64_t* at = flag;
  const std::uint64_t value = 1;
  LaunchConfig config;
  config.grid[0] = 1U << 20;
  config.spins = true;
  auto launch = [&] { stream.launch(subject().kernel("spin_until"), config, KernelArgs(at, value)); };
  expect_error<NotSupported>(launch, {"spin"});
  config.spins = false;
  launch();
  finish(stream);
}

}  // namespace tessera::device::suite
