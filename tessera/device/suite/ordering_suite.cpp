// Order: within a stream, across streams through events, and the effect of a held stream.
#include <array>

#include "tessera/device/suite/device_suite.h"

namespace tessera::device::suite {

using Lines = std::vector<std::string>;

TEST_P(DeviceSuite, WorkOnOneStreamRunsInOrder) {
  Lines expected;
  for (int i = 0; i < 100; ++i) {
    note(stream, std::to_string(i));
    expected.push_back(std::to_string(i));
  }
  finish(stream);
  EXPECT_EQ(journal(), expected);
}

TEST_P(DeviceSuite, WorkQueuedBehindAHoldRunsInOrder) {
  constexpr int kQueued = 16;  // a CUDA driver accepts a few dozen host functions after a stopped stream, then blocks
  const DeviceInts sum = ints(64);
  const Hold held = hold(stream);
  Lines expected;
  for (int i = 0; i < kQueued; ++i) {
    note(stream, std::to_string(i));
    expected.push_back(std::to_string(i));
    add(stream, sum, i);
  }
  EXPECT_TRUE(is_stuck(stream));
  EXPECT_EQ(journal(), Lines{});
  held.release();
  finish(stream);
  EXPECT_EQ(journal(), expected);
  EXPECT_EQ(read(sum), all(64, kQueued * (kQueued - 1) / 2));
}

TEST_P(DeviceSuite, KernelsSeeWhatEarlierKernelsOfTheStreamWrote) {
  const DeviceInts a = ints(1000), b = ints(1000);
  fill(stream, a, 5);
  add(stream, a, 2);
  copy(stream, b, a);
  add(stream, b, 10);
  add(stream, a, 1);
  finish(stream);
  EXPECT_EQ(read(a), all(1000, 8));
  EXPECT_EQ(read(b), all(1000, 17));
}

TEST_P(DeviceSuite, KernelArgumentsAreCopiedByTheCall) {
  const DeviceInts a = ints(16);
  const Hold held = hold(stream);
  {
    int value = 3;
    stream.launch(subject().kernel("fill_ints"), {}, KernelArgs(a.data, a.count, value));
    value = 99;
    std::array<volatile char, 512> other_frame{};  // overwrites the previous stack frame
    other_frame[0] = 1;
  }
  held.release();
  finish(stream);
  EXPECT_EQ(read(a), all(16, 3));
}

TEST_P(DeviceSuite, EveryThreadOfAGridRuns) {
  const DeviceInts marks = ints(2 * 3 * 2 * 4 * 2 * 2 + 1);
  const LaunchConfig config{.grid = {2, 3, 2}, .block = {4, 2, 2}, .shared_nbytes = 0, .spins = false};
  stream.launch(subject().kernel("mark_grid"), config, KernelArgs(marks.data));
  finish(stream);
  std::vector<int> expected;
  for (int i = 1; i < marks.count; ++i) expected.push_back(i);
  expected.push_back(0);
  EXPECT_EQ(read(marks), expected);
}

TEST_P(DeviceSuite, AHeldStreamDoesNotStopAnother) {
  const Stream other = make_stream("other");
  const Hold held = hold(stream);
  note(stream, "held");
  note(other, "free");
  finish(other);
  EXPECT_EQ(journal(), Lines{"free"});
  held.release();
  finish(stream);
  EXPECT_EQ(journal(), (Lines{"free", "held"}));
}

TEST_P(DeviceSuite, WorkAfterAWaitSeesWorkBeforeTheRecord) {
  const DeviceInts a = ints(512), b = ints(512);
  const Stream consumer = make_stream("consumer");
  const Event ready = device.create_event();
  const Hold held = hold(stream);
  fill(stream, a, 4);
  stream.record(ready);
  consumer.wait(ready);
  copy(consumer, b, a);
  EXPECT_TRUE(is_stuck(consumer));
  EXPECT_EQ(read(b), all(512, 0));
  held.release();
  finish(consumer);
  EXPECT_EQ(read(b), all(512, 4));
}

TEST_P(DeviceSuite, AWaitIsNotForWorkAfterTheRecord) {
  const Stream consumer = make_stream("consumer");
  const Event ready = device.create_event();
  note(stream, "before");
  stream.record(ready);
  const Hold held = hold(stream);
  note(stream, "after");
  consumer.wait(ready);
  note(consumer, "consumer");
  finish(consumer);
  EXPECT_EQ(journal(), (Lines{"before", "consumer"}));
  held.release();
  finish(stream);
}

TEST_P(DeviceSuite, AWaitHoldsBackOnlyTheWorkAfterIt) {
  const Stream consumer = make_stream("consumer");
  const Event ready = device.create_event(), before = device.create_event();
  const Hold held = hold(stream);
  stream.record(ready);
  note(consumer, "before");
  consumer.record(before);
  consumer.wait(ready);
  note(consumer, "after");
  before.synchronize(kSoon);
  EXPECT_TRUE(is_stuck(consumer));
  EXPECT_EQ(journal(), Lines{"before"});
  held.release();
  finish(consumer);
  EXPECT_EQ(journal(), (Lines{"before", "after"}));
}

TEST_P(DeviceSuite, AForkIsJoinedBack) {
  const DeviceInts root = ints(256), left = ints(256), right = ints(256);
  const Stream l = make_stream("left"), r = make_stream("right");
  const Event fork = device.create_event(), left_done = device.create_event(), right_done = device.create_event();
  const Hold held = hold(stream);
  fill(stream, root, 1);
  stream.record(fork);
  l.wait(fork);
  r.wait(fork);
  copy(l, left, root);
  add(l, left, 10);
  copy(r, right, root);
  add(r, right, 100);
  l.record(left_done);
  r.record(right_done);
  stream.wait(left_done);
  stream.wait(right_done);
  copy(stream, root, left);
  held.release();
  finish(stream);
  EXPECT_EQ(read(root), all(256, 11));
  EXPECT_EQ(read(right), all(256, 101));
}

TEST_P(DeviceSuite, AJoinWaitsForEveryBranch) {
  const Stream l = make_stream("left"), r = make_stream("right");
  const Event left_done = device.create_event(), right_done = device.create_event();
  const Hold held_left = hold(l), held_right = hold(r);
  l.record(left_done);
  r.record(right_done);
  stream.wait(left_done);
  stream.wait(right_done);
  note(stream, "joined");
  held_right.release();
  finish(r);
  EXPECT_TRUE(is_stuck(stream));
  EXPECT_EQ(journal(), Lines{});
  held_left.release();
  finish(stream);
  EXPECT_EQ(journal(), Lines{"joined"});
}

TEST_P(DeviceSuite, OrderPassesThroughAThirdStream) {
  const DeviceInts a = ints(128), b = ints(128);
  const Stream second = make_stream("second"), third = make_stream("third");
  const Event first_done = device.create_event(), second_done = device.create_event();
  const Hold held = hold(stream);
  fill(stream, a, 6);
  stream.record(first_done);
  second.wait(first_done);
  second.record(second_done);
  third.wait(second_done);
  copy(third, b, a);
  EXPECT_TRUE(is_stuck(third));
  held.release();
  finish(third);
  EXPECT_EQ(read(b), all(128, 6));
}

TEST_P(DeviceSuite, OneEventLetsManyStreamsGo) {
  const Event ready = device.create_event();
  const Hold held = hold(stream);
  stream.record(ready);
  std::vector<Stream> waiting;
  for (int i = 0; i < 5; ++i) {
    waiting.push_back(make_stream("waiting " + std::to_string(i)));
    waiting.back().wait(ready);
    note(waiting.back(), "let go");
  }
  EXPECT_TRUE(is_stuck(waiting.back()));
  EXPECT_EQ(journal(), Lines{});
  held.release();
  for (const Stream& each : waiting) finish(each);
  EXPECT_EQ(journal(), Lines(5, "let go"));
}

TEST_P(DeviceSuite, HostFunctionsRunAfterTheKernelsBeforeThem) {
  int* pinned = pinned_ints(8);
  int* seen = pinned_ints(1);
  const Hold held = hold(stream);
  fill(stream, {pinned, 8}, 7);
  stream.run([pinned, seen] { *seen = pinned[7] + 1; });
  held.release();
  finish(stream);
  EXPECT_EQ(*seen, 8);
}

TEST_P(DeviceSuite, KernelsSeeWhatHostFunctionsWrote) {
  const DeviceInts a = ints(8);
  int* pinned = pinned_ints(8);
  stream.run([pinned] { std::fill(pinned, pinned + 8, 12); });
  copy(stream, a, {pinned, 8});
  finish(stream);
  EXPECT_EQ(read(a), all(8, 12));
}

TEST_P(DeviceSuite, HostFunctionsMayCaptureMuch) {
  std::array<int, 200> many{};
  many[199] = 31;
  int* seen = pinned_ints(1);
  const auto owned = std::make_shared<int>(11);
  stream.run([many, seen, owned] { *seen = many[199] + *owned; });
  finish(stream);
  EXPECT_EQ(*seen, 42);
}

TEST_P(DeviceSuite, TheDefaultStreamIsAlwaysTheSame) {
  const Stream first = device.default_stream(), second = device.default_stream();
  EXPECT_EQ(first.id(), second.id());
  EXPECT_EQ(first.state(), second.state());
  EXPECT_NE(first.id(), make_stream().id());
}

TEST_P(DeviceSuite, TheDefaultStreamQueuesBehindWhatIsPending) {
  const Stream usual = device.default_stream();
  const Event ready = device.create_event(), first_done = device.create_event();
  const Stream producer = make_stream("producer");
  const Hold held = hold(producer);
  producer.record(ready);
  note(usual, "first");
  usual.record(first_done);
  first_done.synchronize(kSoon);
  usual.wait(ready);
  note(usual, "second");
  note(usual, "third");
  EXPECT_TRUE(is_stuck(usual));
  EXPECT_EQ(journal(), Lines{"first"});
  held.release();
  finish(usual);
  note(usual, "fourth");
  finish(usual);
  EXPECT_EQ(journal(), (Lines{"first", "second", "third", "fourth"}));
}

TEST_P(DeviceSuite, StreamsHaveNamesIdsAndTheirDevice) {
  const Stream named = make_stream("loader"), plain = make_stream();
  EXPECT_EQ(named.name(), "loader");
  EXPECT_FALSE(plain.name().empty());
  EXPECT_NE(named.id(), plain.id());
  EXPECT_TRUE(named.device() == device);
  EXPECT_NE(named.native(), nullptr);
  EXPECT_NE(named.native(), plain.native());
}

TEST_P(DeviceSuite, StreamsOfEveryPriorityRun) {
  for (const int priority : {-1000, -1, 0, 1, 1000})
    note(make_stream("priority " + std::to_string(priority), {.priority = priority}), "ran");
  device.synchronize(kSoon);
  EXPECT_EQ(journal(), Lines(5, "ran"));
}

TEST_P(DeviceSuite, AStreamWhoseHandleIsGoneStillDoesItsWork) {
  const Event ready = device.create_event(), done = device.create_event();
  const Hold held = hold(stream);
  stream.record(ready);
  {
    const Stream brief = device.create_stream({.name = "brief"});
    brief.wait(ready);
    note(brief, "done");
    brief.record(done);
  }
  EXPECT_EQ(journal(), Lines{});
  held.release();
  done.synchronize(kSoon);
  EXPECT_EQ(journal(), Lines{"done"});
}

TEST_P(DeviceSuite, DeviceSynchronizeWaitsForAllStreams) {
  const Stream other = make_stream("other");
  const Hold held = hold(other);
  note(other, "other");
  note(stream, "stream");
  expect_error<TimeoutError>([&] { device.synchronize(kGlimpse); });
  held.release();
  device.synchronize(kSoon);
  EXPECT_EQ(journal().size(), 2U);
}

TEST_P(DeviceSuite, DeviceSynchronizeWaitsForStreamsWhoseHandleIsGone) {
  const Event ready = device.create_event();
  const Hold held = hold(stream);
  stream.record(ready);
  {
    const Stream brief = device.create_stream({.name = "brief"});
    brief.wait(ready);
    note(brief, "done");
  }
  held.release();
  device.synchronize(kSoon);
  EXPECT_EQ(journal(), Lines{"done"});
}

TEST_P(DeviceSuite, QueryIsFalseWhileWorkIsPending) {
  EXPECT_TRUE(stream.query());
  const Hold held = hold(stream);
  note(stream, "work");
  EXPECT_FALSE(stream.query());
  held.release();
  finish(stream);
  EXPECT_TRUE(stream.query());
}

}  // namespace tessera::device::suite
