// Signals of symmetric memory: they count, they order memory, and they fail if they do not arrive.
#include <thread>

#include "tessera/comm/suite/comm_suite.h"
#include "tessera/comm/symmetric.h"
#include "tessera/device/graph.h"

namespace tessera::comm::suite {

// For backends without symmetric memory.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(SymmetricSuite);

namespace {

void barrier(const CaseRank& member) { member.group.launch({.kind = OpKind::kBarrier}, member.stream).wait(); }
std::int64_t* ints(std::byte* bytes) { return reinterpret_cast<std::int64_t*>(bytes); }

}  // namespace

TEST_P(SymmetricSuite, ASignalComesBehindWhatWasWrittenBeforeIt) {
  on_ranks(2, [](CaseRank& member) {
    const device::Stream stream = member.host.create_stream();
    const SymmetricPool pool(member.group, stream, {.nbytes = 4096, .channels = 2});
    const SymmetricBuffer x = pool.allocate(8);
    const int other = 1 - member.rank();
    std::int64_t* own = ints(x.data());
    std::int64_t* theirs = ints(x.peer(other));
    // The number is passed back and forth, and incremented each time.
    for (int round = 0; round < 100; ++round) {
      if (member.rank() == round % 2) {
        stream.run([=] { *theirs = round == 0 ? 1 : *own + 1; });
        pool.put_signal(other, 1, stream);
      } else {
        pool.wait_signal(other, 1, stream);
      }
    }
    stream.synchronize();
    EXPECT_EQ(*own, 99 + (1 - member.rank()));
  });
}

TEST_P(SymmetricSuite, SignalsAreCountedAndNoneIsLost) {
  on_ranks(2, [](CaseRank& member) {
    const SymmetricPool pool(member.group, member.stream);
    const int other = 1 - member.rank();
    for (const int burst : {1, 2, 7, 30}) {
      for (int i = 0; i < burst; ++i) pool.put_signal(other, 0, member.stream);
      for (int i = 0; i < burst; ++i) pool.wait_signal(other, 0, member.stream);
    }
    member.stream.synchronize();
    barrier(member);
  });
}

TEST_P(SymmetricSuite, OneWaitMoreThanThereWerePutsEndsByTheDeadline) {
  on_ranks(2, [](CaseRank& member) {
    const SymmetricPool pool(member.group, member.stream, {.name = "scratch"});
    if (member.rank() == 0) {
      pool.put_signal(1, 3, member.stream);
      pool.put_signal(1, 3, member.stream);
      member.stream.synchronize();
      CaseRank::say("put");
      CaseRank::hear("over");
    } else {
      CaseRank::hear("put");
      member.group.set_deadline(50ms);
      for (int i = 0; i < 3; ++i) pool.wait_signal(0, 3, member.stream);
      expect_stream_error<TimeoutError>(member.stream,
                                        {"group world", "scratch, wait_signal(rank 0, channel 3) of rank 1",
                                         "signal 3 of rank 0 did not arrive within 0.05", "(2 arrived)"});
      CaseRank::say("over");
    }
  });
}

TEST_P(SymmetricSuite, ADeadlineEndsTheGroupAndLaterOperationsReturnAtOnce) {
  on_ranks(3, [](CaseRank& member) {
    const SymmetricPool pool(member.group, member.stream);
    if (member.rank() == 2) member.group.set_deadline(50ms);
    if (member.rank() == 2) {
      pool.wait_signal(1, 0, member.stream);
      expect_stream_error<TimeoutError>(member.stream, {"wait_signal(rank 1, channel 0) of rank 2"});
      CaseRank::say("over");
    }
    CaseRank::hear("over");
    // None of these signals can arrive; with the deadline of the others they would take long.
    pool.wait_signal(1, 0, member.stream);
    expect_stream_error<TimeoutError>(member.stream, {"wait_signal(rank 1, channel 0) of rank 2"});
    pool.barrier(1, member.stream);
    expect_stream_error<TimeoutError>(member.stream, {"of rank 2"});
    pool.put_signal(0, 0, member.stream);
    expect_stream_error<TimeoutError>(member.stream, {"of rank 2"});
    expect_error<TimeoutError>([&] { barrier(member); }, {"of rank 2"});
    member.stream.reset_error();
    expect_error<TimeoutError>([&] { pool.rendezvous(); }, {"of rank 2"});
    member.stream.reset_error();
    const ProcessGroup again = member.group.shrink(kSoon);
    const SymmetricPool fresh(again, member.stream);
    fresh.barrier(0, member.stream);
    member.stream.synchronize();
  });
}

TEST_P(SymmetricSuite, ADeadlineThatWasExtendedIsNotTheDeadlineOfASignal) {
  if (is_seeded()) GTEST_SKIP() << "time there does not pass by itself";
  on_ranks(2, [](CaseRank& member) {
    const device::Stream side = member.host.create_stream();
    const SymmetricPool pool(member.group, side);
    member.group.set_deadline(2s);  // long enough for a busy machine to extend it in time
    // A barrier puts before it waits: a rank that has its signal knows that it has started.
    if (member.rank() == 0) {
      pool.barrier(0, side);
      CaseRank::hear("under way");
      member.group.extend_deadline(kSoon);
      CaseRank::say("extended");
    } else {
      pool.wait_signal(0, 0, side);
      side.synchronize();
      CaseRank::say("under way");
      CaseRank::hear("extended");
      const auto until = std::chrono::steady_clock::now() + 2200ms;
      while (std::chrono::steady_clock::now() < until) std::this_thread::yield();
      pool.put_signal(0, 0, side);
    }
    side.synchronize();
  });
}

TEST_P(SymmetricSuite, ChannelsKnowNothingOfEachOther) {
  on_ranks(2, [](CaseRank& member) {
    const SymmetricPool pool(member.group, member.stream);
    if (member.rank() == 0) {
      for (const int channel : {0, 1, 3, 4}) pool.put_signal(1, channel, member.stream);
      CaseRank::say("put");
      CaseRank::hear("over");
    } else {
      CaseRank::hear("put");
      member.group.set_deadline(50ms);
      pool.wait_signal(0, 2, member.stream);
      expect_stream_error<TimeoutError>(member.stream, {"channel 2", "(0 arrived)"});
      CaseRank::say("over");
    }
  });
}

// Rank 0 signals through a pool of the world; rank 1 waits for a signal in a pool of `group` and must not see it.
void expect_pools_apart(CaseRank& member, const ProcessGroup& group) {
  const SymmetricPool first(member.group, member.stream);
  const SymmetricPool second(group, member.stream, {.name = "second"});
  if (member.rank() == 0) {
    first.put_signal(1, 0, member.stream);
    CaseRank::say("put");
    CaseRank::hear("over");
  } else {
    CaseRank::hear("put");
    group.set_deadline(50ms);
    second.wait_signal(0, 0, member.stream);
    expect_stream_error<TimeoutError>(member.stream, {"second, wait_signal", "(0 arrived)"});
    CaseRank::say("over");
  }
}

TEST_P(SymmetricSuite, SignalsStayInTheirPool) {
  on_ranks(2, [](CaseRank& member) { expect_pools_apart(member, member.group); });
}

TEST_P(SymmetricSuite, SignalsStayInTheirGroup) {
  on_ranks(2, [](CaseRank& member) {
    const int both[] = {0, 1};
    expect_pools_apart(member, member.group.subgroup(both));
  });
}

// The first rank that leaves the constructor puts immediately: zeroing a pad after that would lose the signal.
TEST_P(SymmetricSuite, TheFirstSignalOfANewPoolIsNotLost) {
  on_ranks(3, [](CaseRank& member) {
    for (int round = 0; round < 20; ++round) {
      const SymmetricPool pool(member.group, member.stream, {.channels = 2});
      const int next = (member.rank() + 1) % 3;
      const int previous = (member.rank() + 2) % 3;
      pool.put_signal(next, round % 2, member.stream);
      pool.wait_signal(previous, round % 2, member.stream);
      member.stream.synchronize();
    }
  });
}

TEST_P(SymmetricSuite, ManyPoolsTakeLittleMemory) {
  on_ranks(2, [](CaseRank& member) {
    const auto make = [&] {
      const SymmetricPool pool(member.group, member.stream, {.nbytes = 1 << 16});
      pool.barrier(0, member.stream);
      member.stream.synchronize();
    };
    make();
    const std::size_t before = member.host.memory_use().own_nbytes;
    for (int i = 0; i < 50; ++i) make();
    EXPECT_LE(member.host.memory_use().own_nbytes, before + (1 << 17));
  });
}

TEST_P(SymmetricSuite, ChannelsAndRanksAreCheckedOnTheHost) {
  on_ranks(2, [](CaseRank& member) {
    const SymmetricPool pool(member.group, member.stream, {.name = "small", .channels = 3});
    const int other = 1 - member.rank();
    for (const int channel : {-1, 3, 1 << 30}) {
      const std::string words = "small: channel must be in [0, 2], got " + std::to_string(channel);
      expect_error<InvalidArgument>([&] { pool.put_signal(other, channel, member.stream); }, {words});
      expect_error<InvalidArgument>([&] { pool.wait_signal(other, channel, member.stream); }, {words});
      expect_error<InvalidArgument>([&] { pool.barrier(channel, member.stream); }, {words});
    }
    for (const int rank : {-1, 2}) {
      expect_error<InvalidArgument>([&] { pool.put_signal(rank, 0, member.stream); },
                                    {"rank must be in [0, 1], got " + std::to_string(rank)});
      expect_error<InvalidArgument>([&] { pool.wait_signal(rank, 0, member.stream); },
                                    {"rank must be in [0, 1], got " + std::to_string(rank)});
    }
    pool.put_signal(other, 2, member.stream);
    pool.wait_signal(other, 2, member.stream);
    pool.barrier(2, member.stream);
    member.stream.synchronize();
    for (const int channels : {0, -1, 1025}) {
      expect_error<InvalidArgument>(
          [&] { const SymmetricPool none(member.group, member.stream, {.channels = channels}); }, {"channels"});
    }
  });
}

TEST_P(SymmetricSuite, ARankMaySignalItself) {
  on_ranks(2, [](CaseRank& member) {
    const SymmetricPool pool(member.group, member.stream);
    pool.put_signal(member.rank(), 0, member.stream);
    pool.put_signal(member.rank(), 0, member.stream);
    pool.wait_signal(member.rank(), 0, member.stream);
    pool.wait_signal(member.rank(), 0, member.stream);
    member.stream.synchronize();
  });
}

TEST_P(SymmetricSuite, NobodyPassesABarrierBeforeAllHaveCome) {
  on_ranks(4, [](CaseRank& member) {
    const device::Stream stream = member.host.create_stream();
    const SymmetricPool pool(member.group, stream, {.nbytes = 4096});
    const SymmetricBuffer x = pool.allocate(8);
    std::vector<std::int64_t*> all;
    for (int peer = 0; peer < 4; ++peer) all.push_back(ints(x.peer(peer)));
    int wrong = 0;
    for (int round = 1; round <= 30; ++round) {
      stream.run([&, round] { *all[static_cast<std::size_t>(member.rank())] = round; });
      pool.barrier(0, stream);
      stream.run([&, round] {
        for (const std::int64_t* value : all) wrong += *value != round ? 1 : 0;
      });
      pool.barrier(0, stream);
    }
    stream.synchronize();
    EXPECT_EQ(wrong, 0);
  });
}

// Two streams with barriers that the ranks enqueue in different orders: with a channel each they are independent.
TEST_P(SymmetricSuite, StreamsWithChannelsOfTheirOwnNeedNoCommonOrder) {
  on_ranks(3, [](CaseRank& member) {
    const device::Stream streams[] = {member.host.create_stream(), member.host.create_stream()};
    const SymmetricPool pool(member.group, streams[0]);
    for (int round = 0; round < 20; ++round) {
      const int first = (member.rank() + round) % 2;
      pool.barrier(first, streams[first]);
      pool.barrier(1 - first, streams[1 - first]);
    }
    for (const device::Stream& stream : streams) stream.synchronize();
  });
}

TEST_P(SymmetricSuite, SignalsRunBesideOperationsOfTheirGroup) {
  on_ranks(2, [](CaseRank& member) {
    const device::Stream side = member.host.create_stream();
    const SymmetricPool pool(member.group, side);
    float value = 1;
    for (int round = 0; round < 10; ++round) {
      pool.barrier(0, side);
      member.group.all_reduce(&value, &value, 1, DType::kF32, {}, member.stream).wait();
    }
    side.synchronize();
    EXPECT_EQ(value, 1024.0F);
  });
}

TEST_P(SymmetricSuite, ReplaysOfCapturedSignalsMixWithEagerOnes) {
  on_ranks(2, [](CaseRank& member) {
    const device::Stream stream = member.host.create_stream();
    const SymmetricPool pool(member.group, stream, {.nbytes = 4096});
    const SymmetricBuffer x = pool.allocate(8);
    std::int64_t* own = ints(x.data());
    const std::int64_t* theirs = ints(x.peer(1 - member.rank()));
    *own = member.rank();
    // Both compute the sum: one barrier after the writes, one after the reads.
    const auto step = [&] {
      pool.barrier(0, stream);
      auto sum = std::make_shared<std::int64_t>(0);
      stream.run([=] { *sum = *own + *theirs; });
      pool.barrier(1, stream);
      stream.run([=] { *own = *sum; });
    };
    stream.begin_capture();
    step();
    const device::GraphExec graph = stream.end_capture().instantiate();
    pool.barrier(2, stream);
    for (int i = 0; i < 12; ++i) {
      if ((i + member.rank()) % 3 == 0) {
        graph.launch(stream);
      } else {
        step();
      }
    }
    stream.synchronize();
    EXPECT_EQ(*own, 1 << 11);
  });
}

TEST_P(SymmetricSuite, APeerThatDiedIsNoticedByWhoWaitsForItsSignal) {
  on_ranks(3, [](CaseRank& member) {
    const SymmetricPool pool(member.group, member.stream);
    pool.barrier(0, member.stream);
    member.stream.synchronize();
    if (member.rank() == 2) CaseRank::die();
    if (member.rank() == 0) {
      pool.wait_signal(2, 0, member.stream);
    } else {
      pool.barrier(1, member.stream);
    }
    expect_stream_error<AbortedError>(member.stream, {"group world", "channel", "rank 2"});
    const ProcessGroup left = member.group.shrink(kSoon);
    const SymmetricPool again(left, member.stream);
    again.barrier(0, member.stream);
    member.stream.synchronize();
  });
}

TEST_P(SymmetricSuite, ASignalThatCameCountsThoughItsSenderIsGone) {
  on_ranks(2, [](CaseRank& member) {
    const SymmetricPool pool(member.group, member.stream);
    if (member.rank() == 1) {
      pool.put_signal(0, 0, member.stream);
      member.stream.synchronize();
      return;
    }
    pool.wait_signal(1, 0, member.stream);
    member.stream.synchronize();
    pool.wait_signal(1, 0, member.stream);
    expect_stream_error<AbortedError>(member.stream, {"wait_signal(rank 1, channel 0)", "rank 1 has left the group"});
  });
}

TEST_P(SymmetricSuite, APoolThatGoesWhileItsWorkHangsLeavesTheMemory) {
  if (!is_seeded()) GTEST_SKIP() << "takes its time elsewhere";
  on_ranks(2, [](CaseRank& member) {
    const device::Stream side = member.host.create_stream();
    if (member.rank() == 0) {
      std::int64_t* own = nullptr;
      {
        const SymmetricPool pool(member.group, side, {.nbytes = 4096});
        own = ints(pool.allocate(8).data());
        pool.wait_signal(1, 0, side);
        side.run([=] { *own = 5; });
      }
      CaseRank::say("gone");
      side.synchronize();
      EXPECT_EQ(*own, 5);
    } else {
      const SymmetricPool pool(member.group, side, {.nbytes = 4096});
      CaseRank::hear("gone");
      pool.put_signal(0, 0, side);
      side.synchronize();
    }
  });
}

TEST_P(SymmetricSuite, AnAbortEndsWhoWaitsForASignal) {
  on_ranks(2, [](CaseRank& member) {
    const device::Stream side = member.host.create_stream();
    const SymmetricPool pool(member.group, side);
    if (member.rank() == 0) {
      pool.wait_signal(1, 0, side);
      CaseRank::say("waits");
      expect_stream_error<AbortedError>(side, {"aborted by rank 1: enough"});
    } else {
      CaseRank::hear("waits");
      member.group.abort("enough");
    }
  });
}

}  // namespace tessera::comm::suite
