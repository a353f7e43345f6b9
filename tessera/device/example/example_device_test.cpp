#include "tessera/device/example/example_device.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <stdexcept>

#include "tessera/base/error.h"
#include "tessera/base/probe/reader.h"
#include "tessera/base/probe/recorder.h"
#include "tessera/base/rank.h"
#include "tessera/device/launch_records.h"

namespace tessera::device::example {
namespace {

TEST(ExampleDevice, RunsWorkInOrder) {
  const Device device = make_example_device();
  const Stream stream = device.create_stream();
  PinnedMemory memory = device.allocate_pinned(64);
  stream.fill(memory.data(), 0x5a, 1, 64);
  int seen = 0;
  stream.run([&] { seen = std::to_integer<int>(memory.data()[63]); });
  stream.synchronize();
  EXPECT_EQ(seen, 0x5a);
}

TEST(ExampleDevice, ParksErrorsUntilTheNextWait) {
  const Device device = make_example_device();
  const Stream stream = device.create_stream();
  stream.run([] { throw std::runtime_error("broken"); });
  EXPECT_THROW(stream.synchronize(), std::runtime_error);
  EXPECT_THROW(stream.synchronize(), std::runtime_error);
  stream.reset_error();
  stream.synchronize();
}

TEST(ExampleDevice, OrdersByTheCommonClocks) {
  const Device device = make_example_device();
  const Stream one = device.create_stream();
  const Stream two = device.create_stream();
  const Event event = device.create_event();
  const Tick before = one.stamp();
  one.record(event);
  const Tick after = one.stamp();
  two.wait(event);
  EXPECT_TRUE(two.covers(one.id(), before));
  EXPECT_FALSE(two.covers(one.id(), after));
}

TEST(ExampleDevice, SaysWhatItCannotDo) {
  const Device device = make_example_device();
  EXPECT_THROW(device.create_stream().begin_capture(), NotSupported);
  EXPECT_THROW(static_cast<void>(device.create_memory(4096)), NotSupported);
}

// Measured with events around each launch, as on every device except the host.
TEST(ExampleDevice, InsideAProfileWindowItIsRecordedWhenLaunchesRan) {
  const RankScope rank(std::make_shared<RankContext>(RankPlace{}));
  const Device device = make_example_device();
  const Stream stream = device.create_stream();
  stream.run([] {}, {.label = "before"});
  {
    const ProfileWindow window;
    for (int i = 0; i < 200; ++i) stream.run([] {}, {.label = "inside"});
  }
  stream.run([] {}, {.label = "after"});
  stream.synchronize();
  const probe::RecordFile file = probe::RecordFile::open(probe::recorder().path());
  std::uint64_t next = 2;
  std::int64_t latest = std::numeric_limits<std::int64_t>::min();
  for (const probe::RecordRef& ref : file.records()) {
    const auto end = file.as<LaunchEndRecord>(ref);
    if (!end) continue;
    EXPECT_EQ(end->number, next++);
    EXPECT_EQ(file.string(end->device), "example");
    EXPECT_NE(end->when.value(), 0U);
    EXPECT_LE(latest, end->begun_ns);
    EXPECT_LE(end->begun_ns, end->ended_ns);
    latest = end->ended_ns;
  }
  EXPECT_EQ(next, 202U);
}

// Launches of one rank are not written to the record of another rank that waits for the stream.
TEST(ExampleDevice, TimesGoIntoTheRecordOfWhoeverLaunched) {
  const Device device = make_example_device();
  const Stream stream = device.create_stream();
  const auto own = std::make_shared<RankContext>(RankPlace{});
  {
    const RankScope rank(own);
    const ProfileWindow window;
    stream.run([] {}, {.label = "mine"});
  }
  const auto ends = [] {
    const probe::RecordFile file = probe::RecordFile::open(probe::recorder().path());
    return std::ranges::count_if(
        file.records(), [&](const probe::RecordRef& ref) { return file.as<LaunchEndRecord>(ref).has_value(); });
  };
  {
    const RankScope rank(std::make_shared<RankContext>(RankPlace{}));
    stream.synchronize();
    EXPECT_EQ(ends(), 0);
  }
  const RankScope rank(own);
  stream.synchronize();
  EXPECT_EQ(ends(), 1);
}

}  // namespace
}  // namespace tessera::device::example
