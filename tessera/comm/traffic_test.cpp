// A rank that is alone in its world: its communication completes at once and is listed.
#include "tessera/comm/traffic.h"

#include <gtest/gtest.h>

#include <array>

#include "tessera/base/error.h"
#include "tessera/base/probe/recorder.h"
#include "tessera/base/rank.h"
#include "tessera/base/testing/expect_error.h"
#include "tessera/comm/process_group.h"
#include "tessera/comm/world.h"
#include "tessera/device/device.h"
#include "tessera/memory/allocator.h"

namespace tessera::comm {
namespace {

struct Subject {
  device::Device device = device::Device::get("meta");
  device::Stream stream = device.default_stream();
  memory::Buffer buffer = memory::Allocator::of(device).allocate(std::size_t{1} << 20, stream);
  [[nodiscard]] std::byte* at(std::size_t nbytes) const { return buffer.data() + nbytes; }
};

TEST(Traffic, ARankOfAWorldOfAnySizeCompletesWithoutPeers) {
  run_as({.rank = Rank(700), .world_size = 1000}, [] {
    EXPECT_EQ(tessera::rank(), 700);
    EXPECT_EQ(tessera::world_size(), 1000);
    const Subject on;
    const ProcessGroup all = world();
    EXPECT_EQ(all.rank(), 700);
    const Work work = all.all_reduce(on.at(0), on.at(0), 100, DType::kF32, {}, on.stream);
    EXPECT_TRUE(work.is_done());
    work.wait();
    EXPECT_EQ(work.sequence(), 1U);
    all.barrier(on.stream).wait();
    EXPECT_EQ(all.sequence(), 2U);
  });
}

TEST(Traffic, ListsOperationsByGroupAndKind) {
  run_as({.rank = Rank(1), .world_size = 4}, [] {
    const Subject on;
    const std::array pair{Rank(1), Rank(3)};
    const ProcessGroup two = group_of(pair);
    two.all_gather(on.at(0), on.at(4096), 10, DType::kF32, on.stream);
    two.all_gather(on.at(0), on.at(4096), 20, DType::kF32, on.stream);
    two.reduce_scatter(on.at(0), on.at(4096), 10, DType::kF64, {}, on.stream);
    world().all_reduce(on.at(0), on.at(4096), 7, DType::kBF16, {}, on.stream);
    const std::vector<Traffic> all = traffic();
    ASSERT_EQ(all.size(), 3U);
    EXPECT_EQ(all[0].kind, OpKind::kAllGather);
    EXPECT_EQ(all[0].ranks, std::vector<Rank>(pair.begin(), pair.end()));
    EXPECT_EQ(all[0].count, 2);
    EXPECT_EQ(all[0].nbytes, 2 * (10 + 20) * 4);
    EXPECT_EQ(all[1].kind, OpKind::kReduceScatter);
    EXPECT_EQ(all[1].nbytes, 2 * 10 * 8);
    EXPECT_EQ(all[2].ranks.size(), 4U);
    EXPECT_EQ(all[2].nbytes, 7 * 2);
    reset_traffic();
    EXPECT_TRUE(traffic().empty());
  });
}

TEST(Traffic, OperationsInACaptureAreNodesAndCountOnce) {
  run_as({.rank = Rank(0), .world_size = 2}, [] {
    const Subject on;
    world();
    on.stream.begin_capture();
    EXPECT_FALSE(world().all_reduce(on.at(0), on.at(0), 100, DType::kF32, {}, on.stream));
    const device::Graph graph = on.stream.end_capture();
    EXPECT_EQ(graph.nodes().size(), 1U);
    const device::GraphExec exec = graph.instantiate();
    for (int i = 0; i < 3; ++i) exec.launch(on.stream);
    on.stream.synchronize();
    ASSERT_EQ(traffic().size(), 1U);
    EXPECT_EQ(traffic()[0].count, 1);
  });
}

TEST(Traffic, TheRankHasNothingOfTheRankThatRunsIt) {
  const device::Device before = device::Device::get("meta");
  const std::string path = probe::recorder().path();
  run_as({.world_size = 2}, [&] {
    EXPECT_FALSE(device::Device::get("meta") == before);
    EXPECT_FALSE(probe::recorder().is_on());
  });
  EXPECT_EQ(device::Device::get("meta"), before);
  EXPECT_EQ(probe::recorder().path(), path);
  EXPECT_EQ(tessera::world_size(), 1);
}

TEST(Traffic, WhatItCannotDoIsAnError) {
  run_as({.world_size = 2}, [] {
    const device::Stream host = device::Device::get("host").default_stream();
    float x = 1;
    expect_error<NotSupported>([&] { world().all_reduce(&x, &x, 1, DType::kF32, {}, host); },
                               {"backend meta does not support memory of host"});
  });
  expect_error<InvalidArgument>([] { (void)traffic(); }, {"traffic: requires a rank of run_as()"});
  expect_error<InvalidArgument>([] { run_as({.rank = Rank(2), .world_size = 2}, [] {}); },
                                {"run_as: rank must be in [0, 2), got 2"});
  const GroupOptions options{.backend = "meta"};
  simulate(2, [&] {
    const std::array both{Rank(0), Rank(1)};
    expect_error<NotSupported>([&] { (void)group_of(both, options); }, {"meta: the world has other ranks"});
  });
}

}  // namespace
}  // namespace tessera::comm
