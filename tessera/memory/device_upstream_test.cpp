// Upstreams over a host device: chunks keep their bytes when they move, wrong calls are rejected, and a driver failure
// at any call changes nothing.
#include "tessera/memory/device_upstream.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/device/host/host_device.h"

namespace tessera::memory {
namespace {

using device::DriverCall;

Device make_device(std::size_t capacity = 0) {
  return device::host::make_host_device({.capacity_nbytes = capacity, .name = "host under test"});
}

template <class F>
std::string message_of(F&& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.message();
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

class DeviceUpstreamTest : public ::testing::Test {
 protected:
  Device device = make_device();
  std::shared_ptr<ExpandableUpstream> upstream = device_upstream(device);
  std::size_t unit = upstream->granularity();
};

TEST_F(DeviceUpstreamTest, DescribesItsDevice) {
  EXPECT_EQ(upstream->name(), "host under test");
  EXPECT_EQ(unit, device.properties().granularity);
  EXPECT_EQ(upstream->capacity_nbytes(), device.memory_use().total_nbytes);
  EXPECT_EQ(upstream->as_expandable(), upstream.get());
}

TEST_F(DeviceUpstreamTest, OnlyMappedPiecesTakeMemory) {
  std::byte* const base = upstream->reserve(8 * unit);
  EXPECT_EQ(device.memory_use().own_nbytes, 0u);
  upstream->map(base + 2 * unit, 3 * unit);
  EXPECT_EQ(device.memory_use().own_nbytes, 3 * unit);
  std::memset(base + 2 * unit, 1, 3 * unit);
  upstream->unmap(base + 2 * unit, 3 * unit);
  EXPECT_EQ(device.memory_use().own_nbytes, 0u);
  upstream->release(base, 8 * unit);
}

TEST_F(DeviceUpstreamTest, AMovedPieceKeepsItsBytes) {
  std::byte* const first = upstream->reserve(4 * unit);
  std::byte* const second = upstream->reserve(4 * unit);
  upstream->map(first + unit, 2 * unit);
  std::memset(first + unit, 7, 2 * unit);
  upstream->move(first + unit, second + 2 * unit, 2 * unit);
  EXPECT_EQ(second[2 * unit], std::byte{7});
  EXPECT_EQ(second[4 * unit - 1], std::byte{7});
  EXPECT_EQ(device.memory_use().own_nbytes, 2 * unit);
  upstream->map(first + unit, unit);  // the old address is free again
  upstream->unmap(second + 2 * unit, 2 * unit);
  EXPECT_EQ(device.memory_use().own_nbytes, unit);
}

TEST_F(DeviceUpstreamTest, AllocateReservesAndMaps) {
  std::byte* const segment = upstream->allocate(2 * unit);
  std::memset(segment, 1, 2 * unit);
  EXPECT_EQ(device.memory_use().own_nbytes, 2 * unit);
  upstream->free(segment, 2 * unit);
  EXPECT_EQ(device.memory_use().own_nbytes, 0u);
}

TEST_F(DeviceUpstreamTest, RefusesWrongCallsWithoutChange) {
  std::byte* const base = upstream->reserve(8 * unit);
  upstream->map(base + 2 * unit, 2 * unit);
  const auto refused = [&](auto&& body, const std::string& part) {
    const std::string message = message_of(body);
    EXPECT_NE(message.find(part), std::string::npos) << message;
    EXPECT_EQ(device.memory_use().own_nbytes, 2 * unit) << message;
  };
  refused([&] { upstream->map(base + 3 * unit, unit); }, "is already mapped");
  refused([&] { upstream->map(base + unit, 2 * unit); }, "is already mapped");
  refused([&] { upstream->map(base + 7 * unit, 2 * unit); }, "exceeds its reservation");
  refused([&] { upstream->map(base + 4 * unit, unit / 2); }, "must be a multiple of the granularity");
  refused([&] { upstream->map(nullptr, unit); }, "must be in a reservation of host under test");
  refused([&] { upstream->unmap(base, unit); }, "must be the start of a mapped chunk");
  refused([&] { upstream->unmap(base + 3 * unit, unit); }, "must be the start of a mapped chunk");
  refused([&] { upstream->unmap(base + 2 * unit, unit); }, "size must be that of the chunk mapped at");
  refused([&] { upstream->move(base, base + 4 * unit, unit); }, "must be the start of a mapped chunk");
  refused([&] { upstream->move(base + 2 * unit, base + 3 * unit, 2 * unit); }, "is already mapped");
  refused([&] { upstream->release(base, 8 * unit); }, "has 1 mapped chunks; unmap them first");
  refused([&] { upstream->release(base, 4 * unit); }, "size must be that of the reservation");
  refused([&] { upstream->release(base + unit, unit); }, "must be the start of a reservation of host under test");
  upstream->unmap(base + 2 * unit, 2 * unit);
  upstream->release(base, 8 * unit);
}

TEST_F(DeviceUpstreamTest, AMapThatFailsLeavesNothing) {
  std::byte* const base = upstream->reserve(2 * unit);
  for (const DriverCall call : {DriverCall::kCreateMemory, DriverCall::kMap}) {
    device.faults().fail(call, 1, ErrorKind::kOutOfMemory);
    EXPECT_THROW(upstream->map(base, unit), OutOfMemory);
    EXPECT_EQ(device.memory_use().own_nbytes, 0u);
  }
  upstream->map(base, unit);
  EXPECT_THROW(upstream->map(base, unit), InvalidArgument);
}

TEST_F(DeviceUpstreamTest, AnUnmapThatFailsLeavesThePiece) {
  std::byte* const base = upstream->reserve(unit);
  upstream->map(base, unit);
  std::memset(base, 5, unit);
  device.faults().fail(DriverCall::kUnmap, 1);
  EXPECT_THROW(upstream->unmap(base, unit), DeviceError);
  EXPECT_EQ(base[unit - 1], std::byte{5});
  upstream->unmap(base, unit);
}

TEST_F(DeviceUpstreamTest, AMoveThatFailsLeavesThePieceWhereItWas) {
  std::byte* const base = upstream->reserve(4 * unit);
  upstream->map(base, unit);
  std::memset(base, 9, unit);
  for (const DriverCall call : {DriverCall::kMap, DriverCall::kUnmap}) {
    device.faults().fail(call, 1);
    EXPECT_THROW(upstream->move(base, base + 2 * unit, unit), DeviceError) << to_string(call);
    EXPECT_EQ(base[0], std::byte{9});
    EXPECT_EQ(device.memory_use().own_nbytes, unit);
    EXPECT_THROW(upstream->unmap(base + 2 * unit, unit), InvalidArgument);
    upstream->map(base + 2 * unit, unit);  // nothing was left at the new address
    std::memset(base + 2 * unit, 1, unit);
    EXPECT_EQ(base[0], std::byte{9});
    upstream->unmap(base + 2 * unit, unit);
  }
  upstream->move(base, base + 2 * unit, unit);
  EXPECT_EQ(base[2 * unit], std::byte{9});
}

TEST_F(DeviceUpstreamTest, AReservationThatFailsLeavesNothing) {
  device.faults().fail(DriverCall::kReserve, 1);
  EXPECT_THROW(upstream->reserve(unit), DeviceError);
  device.faults().fail(DriverCall::kCreateMemory, 1, ErrorKind::kOutOfMemory);
  EXPECT_THROW(upstream->allocate(unit), OutOfMemory);
  EXPECT_EQ(device.memory_use().own_nbytes, 0u);
}

TEST(DeviceUpstream, RunsOutAtTheLimitOfTheDevice) {
  const auto upstream = device_upstream(make_device(std::size_t{4} << 20));
  const std::size_t unit = upstream->granularity();
  const std::size_t all = upstream->capacity_nbytes() / unit * unit;
  EXPECT_EQ(upstream->capacity_nbytes(), std::size_t{4} << 20);
  std::byte* const base = upstream->reserve(all + unit);
  upstream->map(base, all);
  EXPECT_THROW(upstream->map(base + all, unit), OutOfMemory);
  upstream->unmap(base, all);
  upstream->map(base + all, unit);
}

TEST(DeviceUpstream, FreesWhatIsLeftWhenItGoes) {
  const Device device = make_device();
  auto upstream = device_upstream(device);
  upstream->allocate(upstream->granularity());
  upstream.reset();
  EXPECT_EQ(device.memory_use().own_nbytes, 0u);
}

TEST(DeviceUpstream, ServesManyThreads) {
  const Device device = make_device();
  const auto upstream = device_upstream(device);
  const std::size_t unit = upstream->granularity();
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const auto mark = static_cast<std::byte>(t + 1);
      for (int i = 0; i < 25; ++i) {
        std::byte* const base = upstream->reserve(2 * unit);
        upstream->map(base, unit);
        base[0] = mark;
        upstream->move(base, base + unit, unit);
        if (base[unit] != mark) ++wrong;
        upstream->unmap(base + unit, unit);
        upstream->release(base, 2 * unit);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(device.memory_use().own_nbytes, 0u);
}

TEST(FixedUpstream, GivesWholeSegmentsOnly) {
  const Device device = make_device();
  const auto upstream = fixed_upstream(device);
  const std::size_t unit = upstream->granularity();
  EXPECT_EQ(upstream->as_expandable(), nullptr);
  EXPECT_EQ(upstream->name(), "host under test");
  std::byte* const first = upstream->allocate(unit);
  std::byte* const second = upstream->allocate(2 * unit);
  std::memset(first, 1, unit);
  std::memset(second, 2, 2 * unit);
  EXPECT_EQ(first[unit - 1], std::byte{1});
  EXPECT_THROW(upstream->free(second, unit), InvalidArgument);
  upstream->free(first, unit);
  upstream->free(second, 2 * unit);
  EXPECT_EQ(device.memory_use().own_nbytes, 0u);
}

TEST(PinnedUpstream, GivesHostMemoryInUnitsOf64KiB) {
  const auto upstream = pinned_upstream(make_device());
  EXPECT_EQ(upstream->name(), "pinned memory of host under test");
  EXPECT_EQ(upstream->granularity(), 65536u);
  EXPECT_GT(upstream->capacity_nbytes(), std::size_t{64} << 20);
  EXPECT_EQ(upstream->as_expandable(), nullptr);
  std::byte* const segment = upstream->allocate(131072);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(segment) % 512, 0u);
  std::memset(segment, 3, 131072);
  EXPECT_THROW(upstream->allocate(1000), InvalidArgument);
  EXPECT_THROW(upstream->allocate(0), InvalidArgument);
  EXPECT_THROW(upstream->free(segment, 65536), InvalidArgument);
  EXPECT_THROW(upstream->free(segment + 65536, 65536), InvalidArgument);
  upstream->free(segment, 131072);
  EXPECT_THROW(upstream->free(segment, 131072), InvalidArgument);
}

TEST(PinnedUpstream, PassesOnWhatTheDriverSays) {
  const Device device = make_device();
  const auto upstream = pinned_upstream(device);
  device.faults().fail(DriverCall::kAllocatePinned, 1, ErrorKind::kOutOfMemory);
  EXPECT_THROW(upstream->allocate(65536), OutOfMemory);
}

TEST(Upstreams, NeedADevice) {
  EXPECT_THROW(device_upstream(Device()), InvalidArgument);
  EXPECT_THROW(fixed_upstream(Device()), InvalidArgument);
  EXPECT_THROW(pinned_upstream(Device()), InvalidArgument);
}

}  // namespace
}  // namespace tessera::memory
