// Run times of launches on a GPU, from its events, inside a profile window.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/base/probe/reader.h"
#include "tessera/base/probe/recorder.h"
#include "tessera/base/rank.h"
#include "tessera/device/device.h"
#include "tessera/device/launch_records.h"
#include "tessera/device/memory.h"

namespace tessera::device::cuda {
namespace {

constexpr std::size_t kBytes = 256 << 20;

TEST(LaunchTimesOnCuda, AreThoseOfTheDeviceOnTheClockOfTheHost) {
  const RankScope rank(std::make_shared<RankContext>(RankPlace{}));
  Device device;
  try {
    device = Device::get("cuda");
  } catch (const Error& error) {
    GTEST_SKIP() << error.what();
  }
  const Stream stream = device.create_stream();
  AddressRange range = device.reserve(kBytes);
  const Memory memory = device.create_memory(kBytes);
  range.map(0, memory);
  stream.fill(range.data(), 0, 4, kBytes / 4, "before");
  stream.synchronize();
  const std::uint64_t first = probe::recorder().now().value();
  {
    const ProfileWindow window;
    for (int i = 0; i < 100; ++i) stream.fill(range.data(), 1, 4, kBytes / 4, "filled");
    stream.synchronize();
  }
  const std::uint64_t last = probe::recorder().now().value();
  const probe::RecordFile file = probe::RecordFile::open(probe::recorder().path());
  const auto& clock = file.info().clock;
  std::vector<LaunchEndRecord> ends;
  for (const probe::RecordRef& ref : file.records()) {
    if (const auto end = file.as<LaunchEndRecord>(ref)) ends.push_back(*end);
  }
  ASSERT_EQ(ends.size(), 100U);
  const std::int64_t slack = 100'000;  // ns, accuracy of the relation between the clocks
  std::int64_t before = clock.wall_ns(first) - slack;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    EXPECT_EQ(ends[i].number, i + 2);
    const std::int64_t tied = clock.wall_ns(ends[i].when.value());
    EXPECT_GT(ends[i].ended_ns, ends[i].begun_ns);
    EXPECT_GE(tied + ends[i].begun_ns, before);
    before = tied + ends[i].ended_ns - 2000;  // events have a resolution of half a microsecond
  }
  EXPECT_LE(before, clock.wall_ns(last) + slack);
}

}  // namespace
}  // namespace tessera::device::cuda
