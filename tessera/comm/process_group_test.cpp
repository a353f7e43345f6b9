// Groups of ranks that are threads: results, order and failures of collectives, also with seeds.
#include "tessera/comm/process_group.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <numeric>
#include <optional>
#include <thread>

#include "tessera/base/error.h"
#include "tessera/base/rank.h"
#include "tessera/base/testing/expect_error.h"
#include "tessera/comm/detail/group_state.h"
#include "tessera/comm/store/store.h"
#include "tessera/comm/world.h"
#include "tessera/device/device.h"

namespace tessera::comm {
namespace {

using Floats = std::vector<float>;

// Runs the body on `ranks` ranks, without and with seeds.
void on_ranks(int ranks, const std::function<void(const ProcessGroup&, const device::Stream&)>& body) {
  for (const std::optional<std::uint64_t> seed : {std::optional<std::uint64_t>(), {1}, {2}, {3}}) {
    SCOPED_TRACE(seed ? "seed " + std::to_string(*seed) : "free");
    simulate(ranks,
             [&] {
               const device::Device host = device::Device::get("host");
               body(world(), host.default_stream());
               host.synchronize();
             },
             {.seed = seed});
  }
}

TEST(ProcessGroup, OfAWorldOfOneGivesBackWhatItGets) {
  const device::Device host = device::Device::get("host");
  Floats x = {1, 2, 3};
  world().all_reduce(x.data(), x.data(), 3, DType::kF32, {}, host.default_stream()).wait();
  EXPECT_EQ(x, (Floats{1, 2, 3}));
}

// The stream of the rejected operation may be stopped for long.
TEST(ProcessGroup, WhatIsRefusedOrdersNothing) {
  const RankScope rank(std::make_shared<RankContext>(RankPlace{}));
  const device::Device host = device::Device::get("host");
  const device::Stream still = host.create_stream();
  const device::Stream other = host.create_stream();
  const ProcessGroup group = world();
  device::Hold hold = still.hold(std::chrono::seconds(20));
  host.faults().fail(device::DriverCall::kLaunch, 1);
  EXPECT_THROW((void)group.launch({.kind = OpKind::kBarrier}, still), DeviceError);
  EXPECT_EQ(group.state()->record.progress().asked, 0U) << "the watchdog would wait for it";
  EXPECT_NO_THROW(group.launch({.kind = OpKind::kBarrier}, other).wait(std::chrono::seconds(10)));
  hold.release();
  host.synchronize();
}

TEST(ProcessGroup, AllReduceGivesTheSumToAll) {
  for (const std::int64_t count : {0, 1, 5, 4096, 4097, 100'000}) {
    on_ranks(3, [&](const ProcessGroup& group, const device::Stream& stream) {
      const auto n = static_cast<std::size_t>(count);
      Floats x(n, static_cast<float>(group.rank() + 1));
      Floats y(n);
      group.all_reduce(x.data(), y.data(), count, DType::kF32, {}, stream);
      group.all_reduce(x.data(), x.data(), count, DType::kF32, {Reduction::kMax}, stream).wait();
      EXPECT_EQ(y, Floats(n, 6));
      EXPECT_EQ(x, Floats(n, 3));
    });
  }
}

TEST(ProcessGroup, GatherScatterAndExchange) {
  for (const std::int64_t count : {1, 3000, 30'000}) {
    on_ranks(4, [&](const ProcessGroup& group, const device::Stream& stream) {
      const auto n = static_cast<std::size_t>(count);
      const auto me = static_cast<float>(group.rank());
      Floats part(n, me);
      Floats whole(4 * n);
      group.all_gather(part.data(), whole.data(), count, DType::kF32, stream).wait();
      const auto part_of = [n](std::size_t i) {
        const std::size_t number = i / n;
        return static_cast<float>(number);
      };
      for (std::size_t i = 0; i < 4 * n; ++i) ASSERT_EQ(whole[i], part_of(i));
      Floats mine(n);
      group.reduce_scatter(whole.data(), mine.data(), count, DType::kF32, {}, stream).wait();
      EXPECT_EQ(mine, Floats(n, 4 * me));
      Floats exchanged(4 * n);
      for (std::size_t i = 0; i < 4 * n; ++i) whole[i] = me * 10 + part_of(i);
      group.all_to_all(whole.data(), exchanged.data(), count, DType::kF32, stream).wait();
      for (std::size_t i = 0; i < 4 * n; ++i) ASSERT_EQ(exchanged[i], part_of(i) * 10 + me);
    });
  }
}

TEST(ProcessGroup, MessagesGoBetweenPairsInAnyOrder) {
  for (const std::int64_t count : {0, 1, 50'000}) {
    on_ranks(3, [&](const ProcessGroup& group, const device::Stream& stream) {
      const auto n = static_cast<std::size_t>(count);
      const int next = (group.rank() + 1) % 3;
      const int before = (group.rank() + 2) % 3;
      Floats out(n, static_cast<float>(group.rank()));
      Floats in(n);
      Floats second(n);
      const auto send = [&](int to) {
        return Operation{.kind = OpKind::kSend,
                         .dtype = DType::kF32,
                         .peer = to,
                         .in = reinterpret_cast<const std::byte*>(out.data()),
                         .count = count};
      };
      const auto receive = [&](int from, Floats& into) {
        return Operation{.kind = OpKind::kRecv,
                         .dtype = DType::kF32,
                         .peer = from,
                         .out = reinterpret_cast<std::byte*>(into.data()),
                         .count = count};
      };
      const Operation ring[] = {receive(before, in), receive(next, second), send(next), send(before)};
      group.launch(ring, stream).wait();
      EXPECT_EQ(in, Floats(n, static_cast<float>(before)));
      EXPECT_EQ(second, Floats(n, static_cast<float>(next)));
    });
  }
}

TEST(ProcessGroup, SubgroupsAndColours) {
  on_ranks(4, [&](const ProcessGroup& group, const device::Stream& stream) {
    const int evens[] = {2, 0};
    const ProcessGroup even = group.subgroup(evens);
    ASSERT_EQ(static_cast<bool>(even), group.rank() % 2 == 0);
    const ProcessGroup half = group.split(group.rank() / 2, -group.rank());
    float x = static_cast<float>(group.rank());
    float all[2] = {};
    half.all_gather(&x, all, 1, DType::kF32, stream).wait();
    const int odd = group.rank() / 2 * 2 + 1;
    const auto high = static_cast<float>(odd);
    EXPECT_EQ(all[0], high);
    EXPECT_EQ(all[1], high - 1);
    if (!even) return;
    even.all_gather(&x, all, 1, DType::kF32, stream).wait();
    EXPECT_EQ(all[0], 2);
    EXPECT_EQ(all[1], 0);
  });
}

TEST(ProcessGroup, ReplaysCountAndMixWithEagerOperations) {
  on_ranks(2, [&](const ProcessGroup& group, const device::Stream& stream) {
    float x = 1;
    stream.begin_capture();
    EXPECT_FALSE(group.all_reduce(&x, &x, 1, DType::kF32, {}, stream));
    const device::Graph graph = stream.end_capture();
    EXPECT_EQ(group.sequence(), 0U);
    const device::GraphExec exec = graph.instantiate();
    exec.launch(stream);
    group.all_reduce(&x, &x, 1, DType::kF32, {}, stream);
    exec.launch(stream);
    stream.synchronize();
    EXPECT_EQ(x, 8);
    EXPECT_EQ(group.sequence(), 3U);
  });
}

TEST(ProcessGroup, RanksThatDoSomethingElseAreNamed) {
  on_ranks(3, [&](const ProcessGroup& group, const device::Stream& stream) {
    Floats x(64);
    const std::int64_t count = group.rank() == 1 ? 7 : 8;
    expect_error<MismatchError>(
        [&] { group.all_reduce(x.data(), x.data(), count, DType::kF32, {}, stream).wait(); },
        {"group world", "operation 1", "ranks 0 and 2 run all_reduce(f32[8], sum), rank 1 all_reduce(f32[7], sum)"});
    stream.reset_error();
    expect_error<MismatchError>([&] { group.launch({.kind = OpKind::kBarrier}, stream).wait(); }, {"rank 1"});
    stream.reset_error();
  });
}

TEST(ProcessGroup, ARankThatLeavesASubgroupIsNamedAsTheWorldDoes) {
  on_ranks(4, [&](const ProcessGroup& group, const device::Stream& stream) {
    const int members[] = {1, 3};
    const ProcessGroup some = group.subgroup(members, {.name = "some"});
    if (group.rank() != 1) return;
    expect_error<AbortedError>([&] { some.launch({.kind = OpKind::kBarrier}, stream).wait(); },
                               {"group some", "rank 3 (group rank 1) has left the group"});
    stream.reset_error();
  });
}

TEST(ProcessGroup, ARankThatLeavesEndsWhatWaitsForIt) {
  on_ranks(3, [&](const ProcessGroup& group, const device::Stream& stream) {
    group.launch({.kind = OpKind::kBarrier}, stream).wait();
    if (group.rank() == 2) return;
    float x = 0;
    expect_error<AbortedError>([&] { group.all_reduce(&x, &x, 1, DType::kF32, {}, stream).wait(); },
                               {"rank 2 has left the group", "operation 2", "all_reduce(f32[1], sum)"});
    stream.reset_error();
    const ProcessGroup left = group.shrink(std::chrono::seconds(60));
    ASSERT_EQ(left.size(), 2);
    x = 1;
    left.all_reduce(&x, &x, 1, DType::kF32, {}, stream).wait();
    EXPECT_EQ(x, 2);
  });
}

TEST(ProcessGroup, ADeadlineNamesWhoIsMissing) {
  on_ranks(2, [&](const ProcessGroup& group, const device::Stream& stream) {
    group.set_deadline(std::chrono::milliseconds(50));
    if (group.rank() == 0) {
      expect_error<TimeoutError>(
          [&] { group.launch({.kind = OpKind::kBarrier}, stream).wait(); },
          {"group world", "operation 1, barrier", "rank 1 did not arrive", "has started no operation"});
      stream.reset_error();
    }
    // The other rank arrives afterwards, and gets the same error.
    store()->set("over " + std::to_string(group.rank()), "");
    (void)store()->get("over 0", std::chrono::minutes(1));
    if (group.rank() == 1) {
      expect_error<TimeoutError>([&] { group.launch({.kind = OpKind::kBarrier}, stream).wait(); }, {"rank 1"});
      stream.reset_error();
    }
  });
}

TEST(ProcessGroup, AnAbortReachesAll) {
  on_ranks(2, [&](const ProcessGroup& group, const device::Stream& stream) {
    if (group.rank() == 1) {
      group.abort("no more disk");
      return;
    }
    expect_error<AbortedError>([&] { group.launch({.kind = OpKind::kBarrier}, stream).wait(); },
                               {"aborted by rank 1: no more disk"});
    stream.reset_error();
  });
}

TEST(ProcessGroup, ARankThatEndsBeforeItJoinsIsNoticed) {
  for (const std::optional<std::uint64_t> seed : {std::optional<std::uint64_t>(), {1}}) {
    simulate(
        3,
        [] {
          if (current_place().rank == Rank(1)) return;
          expect_error<AbortedError>([] { (void)world(); }, {"group of ranks 0-2", "rank 1 ended before it joined"});
        },
        {.seed = seed});
  }
}

// Each waits for the other's message: under a seed no rank can run, which is detected immediately.
TEST(ProcessGroup, ADeadlockUnderASeedIsAnErrorAtOnce) {
  EXPECT_THROW(simulate(2,
                        [] {
                          const device::Stream stream = device::Device::get("host").default_stream();
                          float x = 0;
                          const Operation op{.kind = OpKind::kRecv,
                                             .dtype = DType::kF32,
                                             .peer = 1 - world().rank(),
                                             .out = reinterpret_cast<std::byte*>(&x),
                                             .count = 1};
                          world().launch(op, stream).wait();
                        },
                        {.seed = 7}),
               Error);
}

TEST(ProcessGroup, TellsItsErrorWithoutALaunch) {
  simulate(2, [] {
    const ProcessGroup group = world();
    EXPECT_EQ(group.error(), nullptr);
    group.launch({.kind = OpKind::kBarrier}, device::Device::get("host").default_stream()).wait();
    if (group.rank() == 0) {
      group.abort("enough");
      store()->set("aborted", "");
    }
    (void)store()->get("aborted", std::chrono::minutes(1));
    expect_error<AbortedError>([&] { std::rethrow_exception(group.error()); },
                               {"group world: aborted by rank 0: enough"});
  });
}

TEST(ProcessGroup, AnAbortOfASubgroupOfAllRanksLeavesItsParentAlone) {
  on_ranks(2, [](const ProcessGroup& group, const device::Stream& stream) {
    const int both[] = {0, 1};
    const ProcessGroup inner = group.subgroup(both, {.name = "inner"});
    inner.launch({.kind = OpKind::kBarrier}, stream).wait();
    group.launch({.kind = OpKind::kBarrier}, stream).wait();
    if (group.rank() == 0) inner.abort("enough");
    group.launch({.kind = OpKind::kBarrier}, stream).wait();
    expect_error<AbortedError>([&] { inner.launch({.kind = OpKind::kBarrier}, stream).wait(); },
                               {"group inner: aborted by rank 0: enough"});
    stream.reset_error();
    EXPECT_EQ(group.error(), nullptr);
    group.launch({.kind = OpKind::kBarrier}, stream).wait();
  });
}

TEST(ProcessGroup, AnAbortNamesTheGroupWhereSeveralShareACommunicator) {
  simulate(2, [] {
    const device::Stream stream = device::Device::get("host").default_stream();
    const Rank both[] = {Rank(0), Rank(1)};
    const ProcessGroup first = group_of(both, {.name = "first"});
    const ProcessGroup second = group_of(both, {.name = "second"});
    second.launch({.kind = OpKind::kBarrier}, stream).wait();
    if (current_place().rank == Rank(0)) {
      first.abort("enough");
      store()->set("aborted", "");
    }
    (void)store()->get("aborted", std::chrono::minutes(1));
    expect_error<AbortedError>([&] { second.launch({.kind = OpKind::kBarrier}, stream).wait(); },
                               {"group second: aborted by rank 0: enough (abort of group first"});
    stream.reset_error();
  });
}

// Runs the body on ranks 1 to 3 of four, in a group of these ranks.
void on_subgroup(const std::function<void(const ProcessGroup&, const device::Stream&, int rank)>& body) {
  simulate(4, [&] {
    const device::Stream stream = device::Device::get("host").create_stream();
    const std::vector<int> members = {1, 2, 3};
    const ProcessGroup group = world().subgroup(members);
    if (!group) return;
    body(group, stream, current_place().rank.value());
    stream.reset_error();
  });
}

TEST(ProcessGroup, AFailureOfASubgroupNamesRanksAsTheWorldDoes) {
  using namespace std::chrono_literals;
  on_subgroup([](const ProcessGroup& group, const device::Stream& stream, int rank) {
    group.set_deadline(rank == 1 ? 50ms : 1min);
    if (rank == 3) {
      (void)store()->get("over", 1min);
      return;
    }
    expect_error<TimeoutError>(
        [&] { group.launch({.kind = OpKind::kBarrier}, stream).wait(); },
        {"rank 3 (group rank 2) did not arrive within 0.05 s (rank 3 (group rank 2) has started no operation)"});
    if (rank == 1) store()->set("over", "");
  });
  on_subgroup([](const ProcessGroup& group, const device::Stream& stream, int rank) {
    const OpKind kind = rank == 3 ? OpKind::kRendezvous : OpKind::kBarrier;
    expect_error<MismatchError>([&] { group.launch({.kind = kind}, stream).wait(); },
                                {"ranks 1 and 2 (group ranks 0 and 1) run barrier, rank 3 (group rank 2) "});
  });
  on_subgroup([](const ProcessGroup& group, const device::Stream& stream, int rank) {
    if (rank == 3) group.abort("enough");
    expect_error<AbortedError>([&] { group.launch({.kind = OpKind::kBarrier}, stream).wait(); },
                               {"aborted by rank 3 (group rank 2): enough"});
  });
}

// Enqueues a barrier on a stopped stream, extends its deadline, and resumes the stream.
Work barrier_with_more_time(const ProcessGroup& group, const device::Stream& stream, std::chrono::nanoseconds deadline,
                            std::chrono::nanoseconds more) {
  group.set_deadline(deadline);
  stream.device().stall_stream(stream, true);
  Work work = group.launch({.kind = OpKind::kBarrier}, stream);
  EXPECT_EQ(work.sequence(), 0U);
  group.extend_deadline(more);
  stream.device().stall_stream(stream, false);
  return work;
}

TEST(ProcessGroup, AnExtensionOfTheDeadlineCoversWhatIsEnqueued) {
  using namespace std::chrono_literals;
  simulate(2, [] {
    const ProcessGroup group = world();
    const device::Stream side = device::Device::get("host").create_stream();
    if (group.rank() == 0) {
      const Work work = barrier_with_more_time(group, side, 50ms, 1min);
      while (work.sequence() == 0) std::this_thread::yield();
      EXPECT_THROW((void)store()->get("never", 100ms), TimeoutError);
      EXPECT_FALSE(work.is_done()) << "it waits past its first deadline";
      store()->set("go on", "");
      work.wait();
    } else {
      (void)store()->get("go on", 1min);
      group.launch({.kind = OpKind::kBarrier}, side).wait();
    }
  });
}

TEST(ProcessGroup, AnExtendedDeadlineIsQuotedInTheError) {
  using namespace std::chrono_literals;
  simulate(2, [] {
    const ProcessGroup group = world();
    const device::Stream side = device::Device::get("host").create_stream();
    if (group.rank() == 0) {
      const Work work = barrier_with_more_time(group, side, 500ms, 250ms);
      expect_error<TimeoutError>([&] { work.wait(); },
                                 {"rank 1 did not arrive within 0.75 s (a deadline of 0.5 s, extended by 0.25 s)"});
      side.reset_error();
      store()->set("over", "");
    } else {
      (void)store()->get("over", 1min);
    }
    expect_error<InvalidArgument>([&] { group.extend_deadline(0ns); }, {"extend_deadline", "positive", "set_deadline"});
  });
}

}  // namespace
}  // namespace tessera::comm
