// Current stream of calls, and the rank whose resources they use.
#include "tessera/tensor/device_context.h"

#include <gtest/gtest.h>

#include "tessera/base/rank.h"
#include "tessera/base/testing/expect_error.h"
#include "tessera/device/example/example_device.h"
#include "tessera/device/host/host_device.h"

namespace tessera::tensor {
namespace {

device::Device host() { return device::Device::get("host"); }

TEST(DeviceKinds, AreNumberedAsTheyAreAskedFor) {
  EXPECT_EQ(device_kind("host"), kHostKind);
  const DeviceKind cuda = device_kind("cuda");
  EXPECT_NE(cuda, kHostKind);
  EXPECT_EQ(device_kind("cuda"), cuda);
  EXPECT_EQ(device_kind_name(cuda), "cuda");
  EXPECT_EQ(device_kind_name(kHostKind), "host");
  expect_error<InvalidArgument>([] { (void)device_kind_name(200); }, {"got 200"});
}

TEST(CurrentDevice, IsTheRanksOwnAllocatorAndTheDefaultStream) {
  const CurrentDevice where = current_device(host());
  EXPECT_EQ(where.context->device, host());
  EXPECT_EQ(where.context->allocator, memory::Allocator::of(host()));
  EXPECT_EQ(where.stream->id(), host().default_stream().id());
  EXPECT_EQ(where.context->kind, kHostKind);
  EXPECT_EQ(current_device(host()).context, where.context);
  expect_error<InvalidArgument>([] { (void)current_device(device::Device()); }, {"device must not be empty"});
}

TEST(CurrentDevice, ManyDevicesAreKeptApart) {
  std::vector<device::Device> devices;
  for (int i = 0; i < 8; ++i) devices.push_back(device::host::make_host_device());
  for (int round = 0; round < 2; ++round) {
    for (const device::Device& device : devices) EXPECT_EQ(current_device(device).context->device, device);
  }
}

TEST(StreamScope, NestsAndEnds) {
  const device::Stream a = host().create_stream();
  const device::Stream b = host().create_stream();
  const auto current = [] { return current_stream(host()).id(); };
  const StreamId before = current();
  {
    const StreamScope outer(a);
    EXPECT_EQ(current(), a.id());
    {
      const StreamScope inner(b);
      EXPECT_EQ(current(), b.id());
      const StreamScope again(a);
      EXPECT_EQ(current(), a.id());
    }
    EXPECT_EQ(current(), a.id());
  }
  EXPECT_EQ(current(), before);
}

TEST(StreamScope, IsForOneDevice) {
  const device::Device other = device::host::make_host_device();
  const device::Stream side = other.create_stream();
  const StreamScope scope(side);
  EXPECT_EQ(current_stream(other).id(), side.id());
  EXPECT_EQ(current_stream(host()).id(), host().default_stream().id());
  const StreamScope inner(host().create_stream());
  EXPECT_EQ(current_stream(other).id(), side.id()) << "a scope of another device hides nothing";
}

TEST(StreamScope, IsForOneThread) {
  const device::Device device = host();
  const StreamScope scope(device.create_stream());
  StreamId seen;
  Thread("look", [&] { seen = current_stream(device).id(); }).join();
  EXPECT_EQ(seen, device.default_stream().id());
}

TEST(RankChange, GivesOtherContexts) {
  const device::Device shared = device::host::make_host_device();
  const DeviceContext* mine = current_device(shared).context;
  const DeviceContext* my_host = current_device(host()).context;
  {
    const RankScope scope(std::make_shared<RankContext>(RankPlace{.rank = Rank(1), .world_size = 2}));
    const CurrentDevice theirs = current_device(shared);
    EXPECT_NE(theirs.context, mine) << "ranks share the device, each with its own allocator";
    EXPECT_EQ(theirs.context->device, shared);
    EXPECT_FALSE(theirs.context->allocator == mine->allocator);
    EXPECT_NE(current_device(host()).context, my_host) << "the host device is each rank's own";
  }
  EXPECT_EQ(current_device(shared).context, mine);
  EXPECT_EQ(current_device(host()).context, my_host);
}

TEST(RankChange, KeepsTheStreamsOfTheThread) {
  const device::Device shared = device::host::make_host_device();
  const device::Stream side = shared.create_stream();
  const StreamScope stream_scope(side);
  const RankScope scope(std::make_shared<RankContext>(RankPlace{.rank = Rank(1), .world_size = 2}));
  EXPECT_EQ(current_stream(shared).id(), side.id());
}

// Collectives of ranks that are threads wait for each other in kernels.
TEST(DeviceContext, RanksThatShareADeviceHaveSeparateDefaultStreams) {
  const device::Device shared = device::example::make_example_device();
  EXPECT_EQ(current_stream(shared).id(), shared.default_stream().id()) << "one rank";
  std::vector<std::shared_ptr<RankContext>> ranks;
  std::vector<StreamId> streams;
  for (int rank = 0; rank < 2; ++rank) {
    ranks.push_back(std::make_shared<RankContext>(
        RankPlace{.rank = Rank(rank), .world_size = 2, .local_rank = rank, .local_world_size = 2}));
    const RankScope scope(ranks.back());
    streams.push_back(current_stream(shared).id());
    EXPECT_EQ(current_stream(host_device()).id(), host_device().default_stream().id()) << "each rank has a host";
  }
  EXPECT_NE(streams[0], streams[1]);
  EXPECT_NE(streams[0], shared.default_stream().id());
}

}  // namespace
}  // namespace tessera::tensor
