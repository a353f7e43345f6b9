// Many threads, many streams.
#include <algorithm>

#include "tessera/device/suite/device_suite.h"

namespace tessera::device::suite {

using Lines = std::vector<std::string>;

namespace {
constexpr int kThreads = 4;
}  // namespace

TEST_P(DeviceSuite, ManyThreadsMayUseOneStream) {
  const DeviceInts sum = ints(64);
  std::vector<std::function<void()>> bodies;
  for (int thread = 0; thread < kThreads; ++thread) {
    bodies.emplace_back([&, thread] {
      for (int i = 0; i < 20; ++i) {
        add(stream, sum, 1);
        note(stream, std::to_string(thread) + ":" + std::to_string(i));
      }
    });
  }
  subject().run_together(std::move(bodies));
  finish(stream);
  EXPECT_EQ(read(sum), all(64, kThreads * 20));
  std::vector<int> next(kThreads, 0);
  for (const std::string& line : journal()) {  // work of one thread keeps its order
    const int thread = line[0] - '0';
    EXPECT_EQ(std::stoi(line.substr(2)), next[static_cast<std::size_t>(thread)]++);
  }
}

TEST_P(DeviceSuite, ManyStreamsAreDrivenByManyThreads) {
  std::vector<Stream> streams;
  std::vector<DeviceInts> sums;
  std::vector<std::function<void()>> bodies;
  for (int i = 0; i < kThreads; ++i) {
    streams.push_back(make_stream("worker " + std::to_string(i)));
    sums.push_back(ints(64));
  }
  for (std::size_t i = 0; i < kThreads; ++i) {
    bodies.emplace_back([&, i] {
      for (int k = 0; k < 25; ++k) add(streams[i], sums[i], 1);
      finish(streams[i]);
    });
  }
  subject().run_together(std::move(bodies));
  for (const DeviceInts& sum : sums) EXPECT_EQ(read(sum), all(64, 25));
}

TEST_P(DeviceSuite, ARingOfStreamsPassesWorkOn) {
  constexpr int kStreams = 4, kLaps = 8;
  std::vector<Stream> streams;
  for (int i = 0; i < kStreams; ++i) streams.push_back(make_stream("ring " + std::to_string(i)));
  const DeviceInts baton = ints(256);
  Lines expected;
  for (int i = 0; i < kStreams * kLaps; ++i) {
    const Stream &here = streams[static_cast<std::size_t>(i % kStreams)],
                 &next = streams[static_cast<std::size_t>((i + 1) % kStreams)];
    const Event event = device.create_event();
    add(here, baton, 1);
    note(here, std::to_string(i));
    expected.push_back(std::to_string(i));
    here.record(event);
    next.wait(event);
  }
  device.synchronize(kSoon);
  EXPECT_EQ(read(baton), all(256, kStreams * kLaps));
  EXPECT_EQ(journal(), expected);
}

TEST_P(DeviceSuite, OneEventMayBeRecordedAndWaitedForByManyThreads) {
  const Event event = device.create_event();
  std::vector<Stream> streams;
  for (int i = 0; i < kThreads; ++i) streams.push_back(make_stream());
  std::vector<std::function<void()>> bodies;
  for (std::size_t i = 0; i < kThreads; ++i) {
    bodies.emplace_back([&, i] {
      for (int k = 0; k < 20; ++k) {
        note(streams[i], "work");
        streams[i].record(event);
        streams[(i + 1) % kThreads].wait(event);
        (void)event.query();
      }
    });
  }
  subject().run_together(std::move(bodies));
  device.synchronize(kSoon);
  EXPECT_EQ(journal(), Lines(kThreads * 20, "work"));
  EXPECT_TRUE(event.query());
}

TEST_P(DeviceSuite, ManyThreadsMayWaitForOneStream) {
  const Hold held = hold(stream);
  note(stream, "work");
  const Event event = device.create_event();
  stream.record(event);
  std::atomic<int> woken{0};
  std::vector<std::function<void()>> bodies;
  for (int i = 0; i < kThreads; ++i) {
    bodies.emplace_back([&, i] {
      if (i % 2 == 0) {
        finish(stream);
      } else {
        event.synchronize(kSoon);
      }
      ++woken;
    });
  }
  bodies.emplace_back([&] { held.release(); });
  subject().run_together(std::move(bodies));
  EXPECT_EQ(woken, kThreads);
  EXPECT_EQ(journal(), Lines{"work"});
}

TEST_P(DeviceSuite, TicksStampedByManyThreadsAreAllDifferent) {
  std::vector<std::vector<Tick>> taken(kThreads);
  std::vector<std::function<void()>> bodies;
  for (std::size_t i = 0; i < kThreads; ++i) {
    bodies.emplace_back([&, i] {
      for (int k = 0; k < 50; ++k) taken[i].push_back(stream.stamp());
    });
  }
  subject().run_together(std::move(bodies));
  std::vector<Tick> sorted;
  for (const auto& ticks : taken) {
    EXPECT_TRUE(std::is_sorted(ticks.begin(), ticks.end()));
    sorted.insert(sorted.end(), ticks.begin(), ticks.end());
  }
  std::sort(sorted.begin(), sorted.end());
  EXPECT_EQ(std::adjacent_find(sorted.begin(), sorted.end()), sorted.end());
}

TEST_P(DeviceSuite, StreamsComeAndGoOnManyThreads) {
  std::vector<std::function<void()>> bodies;
  for (int i = 0; i < kThreads; ++i) {
    bodies.emplace_back([&] {
      for (int k = 0; k < 8; ++k) {
        const Event event = device.create_event();
        {
          const Stream brief = device.create_stream();
          note(brief, "brief");
          brief.record(event);
        }
        event.synchronize(kSoon);
      }
    });
  }
  subject().run_together(std::move(bodies));
  EXPECT_EQ(journal(), Lines(kThreads * 8, "brief"));
}

TEST_P(DeviceSuite, GraphsAreReplayedByManyThreads) {
  const DeviceInts sum = ints(64);
  stream.begin_capture();
  add(stream, sum, 1);
  note(stream, "replay");
  const GraphExec exec = stream.end_capture().instantiate();
  std::vector<Stream> streams;
  for (int i = 0; i < kThreads; ++i) streams.push_back(make_stream());
  std::vector<std::function<void()>> bodies;
  for (std::size_t i = 0; i < kThreads; ++i) {
    bodies.emplace_back([&, i] {
      for (int k = 0; k < 10; ++k) exec.launch(streams[i]);
      finish(streams[i]);
    });
  }
  subject().run_together(std::move(bodies));
  EXPECT_EQ(read(sum), all(64, kThreads * 10));
  EXPECT_EQ(journal().size(), static_cast<std::size_t>(kThreads * 10));
}

TEST_P(DeviceSuite, ThreadsMayCaptureAtTheSameTime) {
  std::vector<std::size_t> counts(kThreads);
  std::vector<Stream> streams;
  for (int i = 0; i < kThreads; ++i) streams.push_back(make_stream());
  std::vector<std::function<void()>> bodies;
  for (std::size_t i = 0; i < kThreads; ++i) {
    bodies.emplace_back([&, i] {
      streams[i].begin_capture();
      for (std::size_t k = 0; k <= i; ++k) note(streams[i], "node");
      const Graph graph = streams[i].end_capture();
      counts[i] = graph.nodes().size();
      graph.instantiate().launch(streams[i]);
      finish(streams[i]);
    });
  }
  subject().run_together(std::move(bodies));
  EXPECT_EQ(counts, (std::vector<std::size_t>{1, 2, 3, 4}));
  EXPECT_EQ(journal().size(), 10U);
}

}  // namespace tessera::device::suite
