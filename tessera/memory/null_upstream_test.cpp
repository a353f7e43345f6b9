// The null upstream has exact accounts and rejects what a driver rejects.
#include "tessera/memory/null_upstream.h"

#include <gtest/gtest.h>

#include <set>
#include <thread>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/device/host/host_device.h"

namespace tessera::memory {
namespace {

constexpr std::size_t kUnit = 4096;

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

NullUpstream make(std::size_t units) {
  return NullUpstream({.capacity_nbytes = units * kUnit, .granularity = kUnit, .name = "test"});
}

TEST(NullUpstream, GivesDistinctAddressesThatAreNeverNullAndNeverTouch) {
  NullUpstream upstream = make(1);
  std::set<std::byte*> seen;
  std::byte* last_end = nullptr;
  for (int i = 0; i < 100; ++i) {
    std::byte* const address = upstream.reserve(3 * kUnit);
    EXPECT_NE(address, nullptr);
    EXPECT_NE(address, last_end);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(address) % kUnit, 0u);
    EXPECT_TRUE(seen.insert(address).second);
    last_end = address + 3 * kUnit;
    if (i % 2 == 0) upstream.release(address, 3 * kUnit);  // released addresses are not reused
  }
  EXPECT_EQ(upstream.counts().reservations, 50u);
  EXPECT_EQ(upstream.counts().reserved_nbytes, 150 * kUnit);
}

TEST(NullUpstreamDeathTest, TouchingItsMemoryIsAFault) {
  NullUpstream upstream = make(4);
  volatile std::byte* const address = upstream.allocate(kUnit);
  EXPECT_DEATH({ *address = std::byte{1}; }, "");
}

TEST(NullUpstream, CountsWhatIsMapped) {
  NullUpstream upstream = make(8);
  std::byte* const base = upstream.reserve(100 * kUnit);
  upstream.map(base + 10 * kUnit, 2 * kUnit);
  upstream.map(base + 12 * kUnit, kUnit);
  EXPECT_EQ(upstream.counts().mapped_nbytes, 3 * kUnit);
  upstream.move(base + 10 * kUnit, base, 2 * kUnit);
  upstream.map(base + 10 * kUnit, 2 * kUnit);
  upstream.unmap(base, 2 * kUnit);
  const NullCounts counts = upstream.counts();
  EXPECT_EQ(counts.mapped_nbytes, 3 * kUnit);
  EXPECT_EQ(counts.peak_mapped_nbytes, 5 * kUnit);
  EXPECT_EQ(counts.maps, 3u);
  EXPECT_EQ(counts.unmaps, 1u);
  EXPECT_EQ(counts.moves, 1u);
}

TEST(NullUpstream, HoldsItsCapacityExactly) {
  NullUpstream upstream = make(4);
  std::byte* const base = upstream.reserve(100 * kUnit);
  upstream.map(base, 3 * kUnit);
  EXPECT_EQ(message_of([&] { upstream.map(base + 8 * kUnit, 2 * kUnit); }),
            "map: 8 KiB more do not fit: test has 16 KiB, 12 KiB are mapped");
  EXPECT_THROW(upstream.allocate(2 * kUnit), OutOfMemory);
  EXPECT_EQ(upstream.counts().reservations, 1u);  // allocate released its addresses
  upstream.map(base + 8 * kUnit, kUnit);
  EXPECT_THROW(upstream.map(base + 20 * kUnit, kUnit), OutOfMemory);
  upstream.unmap(base, 3 * kUnit);
  upstream.map(base + 20 * kUnit, 3 * kUnit);
}

TEST(NullUpstream, RefusesWrongCallsWithoutChange) {
  NullUpstream upstream = make(100);
  std::byte* const base = upstream.reserve(8 * kUnit);
  std::byte* const other = upstream.reserve(8 * kUnit);
  upstream.map(base + 2 * kUnit, 2 * kUnit);
  const auto refused = [&](auto&& body, const std::string& part) {
    const std::string message = message_of(body);
    EXPECT_NE(message.find(part), std::string::npos) << message;
    EXPECT_EQ(upstream.counts().mapped_nbytes, 2 * kUnit) << message;
    EXPECT_EQ(upstream.counts().reservations, 2u) << message;
  };
  refused([&] { upstream.reserve(0); }, "must be a multiple of the granularity");
  refused([&] { upstream.reserve(kUnit + 1); }, "must be a multiple of the granularity");
  refused([&] { upstream.map(base + 3 * kUnit, kUnit); }, "is already mapped");
  refused([&] { upstream.map(base + kUnit, 2 * kUnit); }, "is already mapped");
  refused([&] { upstream.map(base + 5, kUnit); }, "must be a multiple of 4096");
  refused([&] { upstream.map(base, kUnit / 2); }, "must be a multiple of the granularity");
  refused([&] { upstream.map(base + 7 * kUnit, 2 * kUnit); }, "exceeds its reservation");
  refused([&] { upstream.map(base + 8 * kUnit, kUnit); }, "must be in a reservation of test");
  refused([&] { upstream.map(nullptr, kUnit); }, "must be in a reservation of test");
  refused([&] { upstream.unmap(base, kUnit); }, "must be the start of a mapped chunk");
  refused([&] { upstream.unmap(base + 2 * kUnit, kUnit); }, "size must be that of the chunk mapped at");
  refused([&] { upstream.unmap(base + 2 * kUnit, 4 * kUnit); }, "size must be that of the chunk mapped at");
  refused([&] { upstream.move(base, other, kUnit); }, "must be the start of a mapped chunk");
  refused([&] { upstream.move(base + 2 * kUnit, base + 3 * kUnit, 2 * kUnit); }, "is already mapped");
  refused([&] { upstream.move(base + 2 * kUnit, other + 7 * kUnit, 2 * kUnit); }, "exceeds its reservation");
  refused([&] { upstream.release(base, 8 * kUnit); }, "is still mapped");
  refused([&] { upstream.release(other, kUnit); }, "bytes, got 4096");
  refused([&] { upstream.release(other + kUnit, kUnit); }, "must be the start of a reservation of test");
  upstream.release(other, 8 * kUnit);
}

TEST(NullUpstream, RefusesAGranularityThatIsNone) {
  for (const std::size_t bad : {std::size_t{0}, std::size_t{256}, std::size_t{3000}}) {
    EXPECT_THROW(NullUpstream({.granularity = bad}), InvalidArgument) << bad;
  }
}

TEST(NullUpstream, RunsOutOfAddressesWithAWord) {
  NullUpstream upstream({.granularity = std::size_t{1} << 53});
  upstream.reserve(std::size_t{1} << 53);
  upstream.reserve(std::size_t{1} << 53);
  EXPECT_THROW(upstream.reserve(std::size_t{1} << 53), OutOfMemory);
  EXPECT_THROW(upstream.reserve(std::size_t{1} << 63), OutOfMemory);
}

TEST(NullUpstream, ServesManyThreads) {
  NullUpstream upstream = make(1000);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) {
        std::byte* const address = upstream.allocate(2 * kUnit);
        upstream.free(address, 2 * kUnit);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(upstream.counts().maps, 800u);
  EXPECT_EQ(upstream.counts().mapped_nbytes, 0u);
  EXPECT_EQ(upstream.counts().reserved_nbytes, 0u);
}

TEST(AddressOnlyUpstream, ReservesOfTheDeviceAndTakesOneGranule) {
  const Device device = device::host::make_host_device({.capacity_nbytes = std::size_t{8} << 20});
  const auto upstream = address_only_upstream(device);
  EXPECT_EQ(upstream->name(), "addresses of host");
  EXPECT_EQ(upstream->capacity_nbytes(), std::size_t{8} << 20);
  const std::size_t unit = upstream->granularity();
  EXPECT_EQ(unit, device.properties().granularity);
  std::byte* const base = upstream->reserve(4 * unit);
  // the device gives these addresses to no other reservation
  const device::AddressRange beside = device.reserve(4 * unit);
  EXPECT_TRUE(beside.data() + 4 * unit <= base || beside.data() >= base + 4 * unit);
  upstream->map(base + unit, 2 * unit);
  EXPECT_EQ(device.memory_use().own_nbytes, unit);
  EXPECT_THROW(upstream->map(base + unit, unit), InvalidArgument);
  EXPECT_THROW(upstream->map(base, std::size_t{8} << 20), InvalidArgument);
  device.faults().fail(device::DriverCall::kUnmap, 2);  // the second of its two granules: all of it stays
  EXPECT_THROW(upstream->unmap(base + unit, 2 * unit), DeviceError);
  upstream->unmap(base + unit, 2 * unit);
  upstream->release(base, 4 * unit);
  device.faults().fail(device::DriverCall::kReserve, 1);
  EXPECT_THROW(upstream->reserve(unit), DeviceError);
  EXPECT_THROW(address_only_upstream(Device()), InvalidArgument);
}

}  // namespace
}  // namespace tessera::memory
