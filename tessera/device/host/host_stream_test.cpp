// Streams of the host device beyond the contract of all devices: which thread runs the work, and when the caller may
// continue.
#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <functional>
#include <future>
#include <latch>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/base/rank.h"
#include "tessera/base/testing/expect_error.h"
#include "tessera/device/host/host_device.h"

namespace tessera::device::host {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

Device make(Mode mode) { return make_host_device({.mode = mode}); }

TEST(InlineStream, RunsOnTheCallerBeforeTheCallReturns) {
  const Stream stream = make(Mode::kInline).default_stream();
  std::thread::id ran_on;
  stream.run([&] { ran_on = std::this_thread::get_id(); });
  EXPECT_EQ(ran_on, std::this_thread::get_id());
  EXPECT_TRUE(stream.query());
}

TEST(InlineStream, FoundByItsIdItKeepsItsDevice) {
  Stream stream;
  {
    const Device device = make(Mode::kInline);
    stream = device.stream(device.default_stream().id());
  }
  bool ran = false;
  stream.run([&] { ran = true; });
  stream.synchronize();
  EXPECT_TRUE(ran);
  EXPECT_EQ(stream.device().default_stream().id(), stream.id());
}

TEST(InlineStream, NestedWorkRunsAfterTheWorkThatLaunchedIt) {
  const Stream stream = make(Mode::kInline).default_stream();
  std::vector<int> order;
  stream.run([&] {
    stream.run([&] {
      stream.run([&] { order.push_back(3); });
      order.push_back(2);
    });
    order.push_back(1);
  });
  EXPECT_EQ(order, (std::vector{1, 2, 3}));
}

TEST(InlineStream, HandsItsQueueToAWorkerWhenItMustWaitAndTakesItBack) {
  const Device device = make(Mode::kInline);
  const Stream stream = device.default_stream();
  std::vector<int> order;
  std::thread::id ran_on;
  const Hold hold = stream.hold(hours(1));
  for (int i = 0; i < 10; ++i) stream.run([&order, i] { order.push_back(i); });
  stream.run([&] { ran_on = std::this_thread::get_id(); });
  EXPECT_FALSE(stream.query());
  hold.release();
  stream.synchronize();
  EXPECT_EQ(order, (std::vector{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  EXPECT_NE(ran_on, std::this_thread::get_id());
  while (true) {  // the worker releases the empty queue a moment after the last operation is complete
    stream.run([&] { ran_on = std::this_thread::get_id(); });
    stream.synchronize();
    if (ran_on == std::this_thread::get_id()) break;
  }
}

TEST(InlineStream, ParksErrorsInsteadOfThrowingThem) {
  const Stream stream = make(Mode::kInline).default_stream();
  bool ran = false;
  stream.run([] { throw std::runtime_error("broken"); });
  stream.run([&] { ran = true; });
  EXPECT_THROW(stream.synchronize(), std::runtime_error);
  EXPECT_FALSE(ran);
  stream.reset_error();
  stream.run([&] { ran = true; });
  stream.synchronize();
  EXPECT_TRUE(ran);
}

TEST(InlineStream, KeepsOrderWhenManyThreadsLaunch) {
  const Stream stream = make(Mode::kInline).default_stream();
  int count = 0;  // protected only by stream order
  {
    std::vector<Thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back("producer", [&] {
        for (int i = 0; i < 5000; ++i) stream.run([&count] { ++count; });
      });
    }
  }
  stream.synchronize();
  EXPECT_EQ(count, 20000);
}

TEST(ThreadedStream, RunsAHundredThousandOperationsInOrder) {
  const Stream stream = make(Mode::kThreaded).create_stream();
  constexpr int kCount = 100'000;
  int next = 0;
  int wrong = 0;
  for (int i = 0; i < kCount; ++i) {
    stream.run([&next, &wrong, i] { wrong += next++ != i; });
  }
  stream.synchronize();
  EXPECT_EQ(next, kCount);
  EXPECT_EQ(wrong, 0);
}

TEST(ThreadedStream, DestroysWhatWorkCapturedBeforeItCountsAsDone) {
  const Stream stream = make(Mode::kThreaded).create_stream();
  const auto held = std::make_shared<int>(0);
  for (int i = 0; i < 1000; ++i) {
    stream.run([held] { ++*held; });
    stream.synchronize();
    ASSERT_EQ(held.use_count(), 1);
  }
}

TEST(ThreadedStream, DropsSkippedWorkWithWhatItCaptured) {
  const Stream stream = make(Mode::kThreaded).create_stream();
  const auto held = std::make_shared<int>(0);
  stream.run([] { throw std::runtime_error("broken"); });
  stream.run([held] { ++*held; });
  EXPECT_THROW(stream.synchronize(), std::runtime_error);
  EXPECT_EQ(*held, 0);
  EXPECT_EQ(held.use_count(), 1);
}

TEST(ThreadedStream, MayNotBeWaitedForByItsOwnWork) {
  const Stream stream = make(Mode::kThreaded).create_stream();
  stream.run([&] { stream.synchronize(); });
  EXPECT_THROW(stream.synchronize(), InvalidArgument);
}

TEST(ThreadedStream, OutlivesItsHandleUntilItsWorkIsDone) {
  const Device device = make(Mode::kThreaded);
  std::atomic<int> ran{0};
  Hold hold;
  {
    const Stream stream = device.create_stream();
    hold = stream.hold(hours(1));
    stream.run([&] { ++ran; });
  }
  EXPECT_EQ(ran, 0);
  hold.release();
  while (ran == 0) std::this_thread::yield();
}

TEST(ThreadedStream, IsCheapToMakeAndDropManyTimes) {
  const Device device = make(Mode::kThreaded);
  std::atomic<int> ran{0};
  for (int i = 0; i < 500; ++i) {
    const Stream stream = device.create_stream();
    stream.run([&] { ++ran; });
    stream.synchronize();
  }
  EXPECT_EQ(ran, 500);
}

TEST(ThreadedStream, MayLetGoOfItsOwnDevice) {
  for (const Mode mode : {Mode::kInline, Mode::kThreaded}) {
    std::atomic<bool> ran{false};
    {
      Device device = make(mode);
      Stream stream = device.create_stream();
      Hold hold = stream.hold(hours(1));
      stream.run([device, stream, &ran] { ran = true; });
      stream.reset();
      device = {};
      hold.release();
    }
    while (!ran) std::this_thread::yield();
  }
}

TEST(ThreadedStream, WorksForTheRankThatMadeIt) {
  auto rank = std::make_shared<RankContext>(RankPlace{.rank = Rank(3), .world_size = 5});
  std::weak_ptr<RankContext> watch = rank;
  int seen = -1;
  {
    const RankScope scope(std::move(rank));
    const Device device = Device::get("host");
    const Stream stream = device.create_stream();
    stream.run([&] { seen = current_place().rank.value(); });
    stream.synchronize();
  }
  EXPECT_EQ(seen, 3);
  EXPECT_TRUE(watch.expired()) << "the device's threads keep their rank alive";
}

TEST(Points, StayFailedForTheStretchBetweenFailureAndReset) {
  const Device device = make(Mode::kThreaded);
  const Stream stream = device.create_stream();
  const Event before = device.create_event();
  const Event failed = device.create_event();
  const Event after = device.create_event();
  stream.record(before);
  stream.run([] { throw std::runtime_error("broken"); });
  stream.record(failed);
  EXPECT_THROW(stream.synchronize(), std::runtime_error);
  stream.reset_error();
  stream.record(after);
  stream.synchronize();
  EXPECT_TRUE(before.query());
  EXPECT_THROW((void)failed.query(), std::runtime_error);
  EXPECT_THROW(failed.synchronize(), std::runtime_error);
  EXPECT_TRUE(after.query());
}

TEST(Points, ResetAlsoCoversAFailureThatIsYetToHappen) {
  const Device device = make(Mode::kThreaded);
  const Stream stream = device.create_stream();
  bool skipped = true;
  bool ran = false;
  const Hold hold = stream.hold(hours(1));
  stream.run([] { throw std::runtime_error("broken"); });
  stream.run([&] { skipped = false; });
  stream.reset_error();
  stream.run([&] { ran = true; });
  hold.release();
  stream.synchronize();
  EXPECT_TRUE(skipped);
  EXPECT_TRUE(ran);
}

TEST(Faults, AStalledInlineStreamDoesNotBlockItsCaller) {
  const Device device = make(Mode::kInline);
  const Stream stream = device.default_stream();
  bool ran = false;
  device.stall_stream(stream, true);
  stream.run([&] { ran = true; });
  EXPECT_FALSE(stream.query());
  EXPECT_THROW(stream.synchronize(milliseconds(5)), TimeoutError);
  device.stall_stream(stream, false);
  stream.synchronize();
  EXPECT_TRUE(ran);
}

TEST(Faults, ADeviceGoesAwayWithAStreamStillStalled) {
  const Device device = make(Mode::kThreaded);
  const Stream stream = device.create_stream();
  device.stall_stream(stream, true);
  stream.run([] {});
}

TEST(Values, APlainStoreOfAnotherThreadIsNoticed) {
  const Device device = make(Mode::kThreaded);
  const Stream stream = device.create_stream();
  const PinnedMemory memory = device.allocate_pinned(64);
  auto* word = reinterpret_cast<std::uint64_t*>(memory.data());
  bool ran = false;
  stream.wait_value(word, 7, Compare::kEqual);
  stream.run([&] { ran = true; });
  EXPECT_THROW(stream.synchronize(milliseconds(2)), TimeoutError);
  __atomic_store_n(word, 7, __ATOMIC_RELEASE);
  stream.synchronize();
  EXPECT_TRUE(ran);
}

TEST(Unseen, WorkBehindTheClocksKeepsItsPlace) {
  for (const Mode mode : {Mode::kInline, Mode::kThreaded}) {
    const Device device = make(mode);
    const Stream stream = device.default_stream();
    std::vector<int> order;
    stream.run([&] { order.push_back(1); });
    launch_unseen(stream.native(), [&] { order.push_back(2); });
    stream.run([&] { order.push_back(3); });
    stream.synchronize();
    EXPECT_EQ(order, (std::vector{1, 2, 3}));
  }
}

// Nodes that wait for each other with a time limit: on one thread the others never arrive.
struct Meeting {
  std::atomic<int> running{0};
  std::atomic<int> most{0};
  std::atomic<int> patience_ms{5000};
  void come() {
    const int now = ++running;
    for (int seen = most; seen < now && !most.compare_exchange_weak(seen, now);) {
    }
    for (int spin = 0; spin < patience_ms && most < 2; ++spin) std::this_thread::sleep_for(milliseconds(1));
    --running;
  }
};

GraphExec wide_graph(const Device& device, int width, Meeting& meeting, InstantiateOptions::Parallel parallel) {
  std::vector<Stream> streams;
  for (int i = 0; i < width; ++i) streams.push_back(device.create_stream());
  const Event fork = device.create_event();
  streams[0].begin_capture();
  streams[0].record(fork);
  for (int i = 1; i < width; ++i) streams[i].wait(fork);
  for (const Stream& stream : streams) {
    stream.run([&meeting] { meeting.come(); });
  }
  for (int i = 1; i < width; ++i) {
    streams[i].record(fork);
    streams[0].wait(fork);
  }
  return streams[0].end_capture().instantiate({.parallel = parallel});
}

TEST(Replay, RunsBranchesSideBySideOnRequest) {
  const Device device = make(Mode::kThreaded);
  Meeting meeting;
  const GraphExec exec = wide_graph(device, 4, meeting, InstantiateOptions::Parallel::kAlways);
  const Stream stream = device.create_stream();
  exec.launch(stream);
  stream.synchronize();
  EXPECT_GE(meeting.most, 2);
}

TEST(Replay, StaysOnOneThreadOnRequest) {
  const Device device = make(Mode::kThreaded);
  Meeting meeting;
  meeting.patience_ms = 200;
  const GraphExec exec = wide_graph(device, 2, meeting, InstantiateOptions::Parallel::kNever);
  exec.launch(device.default_stream());
  device.default_stream().synchronize();
  EXPECT_EQ(meeting.most, 1);
}

TEST(Replay, GoesParallelWhereItPays) {
  const Device device = make(Mode::kThreaded);
  Meeting meeting;
  const GraphExec exec = wide_graph(device, 2, meeting, InstantiateOptions::Parallel::kAuto);
  const Stream stream = device.create_stream();
  for (const int patience_ms : {20, 20, 5000}) {  // the first ones run on one thread, to measure them
    meeting.patience_ms = patience_ms;
    exec.launch(stream);
    stream.synchronize();
  }
  EXPECT_GE(meeting.most, 2);
}

// Steps may wait for other ranks; this must not depend on the presence of a helper thread.
TEST(Replay, WithoutAHelperBranchesRunInTheOrderOfTheCapture) {
  const Device device = make(Mode::kThreaded);
  const auto two_branches = [&](const std::function<void(int)>& step) {
    const Stream a = device.create_stream();
    const Stream b = device.create_stream();
    const Event event = device.create_event();
    a.begin_capture();
    a.record(event);
    b.wait(event);
    for (const int number : {1, 3}) {
      a.run([step, number] { step(number); });
      b.run([step, number] { step(number + 1); });
    }
    b.record(event);
    a.wait(event);
    return a.end_capture().instantiate({.parallel = InstantiateOptions::Parallel::kAlways});
  };
  std::promise<void> end;
  const std::shared_future<void> ended = end.get_future().share();
  std::latch both(2);  // the only helper runs one of the first two steps, and stays there
  const GraphExec busy = two_branches([&](int number) {
    if (number > 2) return;
    both.count_down();
    ended.wait();
  });
  std::vector<int> order;
  const GraphExec alone = two_branches([&](int number) { order.push_back(number); });
  const Stream first = device.create_stream();
  const Stream second = device.create_stream();
  busy.launch(first);
  both.wait();
  alone.launch(second);
  second.synchronize();
  EXPECT_EQ(order, (std::vector{1, 2, 3, 4}));
  end.set_value();
  first.synchronize();
}

TEST(Replay, AFailingBranchSkipsTheRestAndParksItsError) {
  const Device device = make(Mode::kThreaded);
  for (const auto parallel : {InstantiateOptions::Parallel::kNever, InstantiateOptions::Parallel::kAlways}) {
    const Stream a = device.create_stream();
    const Stream b = device.create_stream();
    const Event event = device.create_event();
    const Event outside = device.create_event();
    std::atomic<bool> ran{false};
    a.begin_capture();
    a.record(event);
    b.wait(event);
    a.run([] { throw std::runtime_error("broken"); });
    b.record(event);
    a.wait(event);
    a.run([&] { ran = true; });
    a.record(outside, EventUse::kExternal);
    const GraphExec exec = a.end_capture().instantiate({.parallel = parallel});
    exec.launch(a);
    EXPECT_THROW(a.synchronize(), std::runtime_error);
    EXPECT_THROW(outside.synchronize(), std::runtime_error);
    EXPECT_FALSE(ran);
  }
}

TEST(HostStream, ReportsExceptionsThatAreNoStdException) {
  for (const Mode mode : {Mode::kInline, Mode::kThreaded}) {
    const Stream stream = make(mode).default_stream();
    stream.run([] { throw 7; });
    expect_error<AbortedError>([&] { stream.synchronize(); }, {"default stream", "std::exception", "type int"});
    stream.reset_error();
    stream.run([] { throw std::string("broken"); });
    expect_error<AbortedError>([&] { stream.synchronize(); }, {"broken"});
  }
}

TEST(HostStream, WorkThatEndsItsThreadFailsAndOthersRunTheRest) {
  for (const Mode mode : {Mode::kInline, Mode::kThreaded}) {
    const Device device = make(mode);
    const Stream stream = device.default_stream();
    const Event behind = device.create_event();
    bool ran = false;
    std::thread([&] {
      stream.run([&] {
        stream.record(behind);
        ::pthread_exit(nullptr);
      });
    }).join();
    expect_error<AbortedError>([&] { stream.synchronize(); }, {"default stream", "pthread_exit"});
    expect_error<AbortedError>([&] { behind.synchronize(); }, {"must return or throw, got pthread_exit"});
    stream.reset_error();
    stream.run([&] { ran = true; });
    stream.synchronize();
    EXPECT_TRUE(ran);
  }
}

TEST(HostStream, AReplayThatEndsItsThreadFailsItsEvents) {
  const Device device = make(Mode::kThreaded);
  const Stream stream = device.create_stream();
  const Event outside = device.create_event();
  stream.begin_capture();
  stream.run([] { ::pthread_exit(nullptr); });
  stream.record(outside, EventUse::kExternal);
  const GraphExec exec = stream.end_capture().instantiate();
  exec.launch(stream);
  expect_error<AbortedError>([&] { stream.synchronize(); }, {"pthread_exit"});
  expect_error<AbortedError>([&] { outside.synchronize(); }, {"pthread_exit"});
}

}  // namespace
}  // namespace tessera::device::host
