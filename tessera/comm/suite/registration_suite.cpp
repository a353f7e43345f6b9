// Registrations of existing memory: cached while the memory stays in place; differences between ranks are reported.
#include <cstring>

#include "tessera/comm/suite/comm_suite.h"
#include "tessera/comm/symmetric.h"
#include "tessera/device/graph.h"

namespace tessera::comm::suite {
namespace {

void barrier(const CaseRank& member) { member.group.launch({.kind = OpKind::kBarrier}, member.stream).wait(); }

// Memory whose mapping a case can change.
class Remapped {
 public:
  Remapped(const CaseRank& member, std::size_t pieces)
      : device_(member.host), nbytes_(pieces * device_.properties().granularity), range_(device_.reserve(nbytes_)) {}
  void map() {
    if (range_.mapped_nbytes() != 0) range_.unmap(0, nbytes_);
    kept_.push_back(device_.create_memory(nbytes_));
    range_.map(0, kept_.back());
  }
  [[nodiscard]] std::byte* data() const { return range_.data(); }
  [[nodiscard]] std::size_t nbytes() const { return nbytes_; }

 private:
  device::Device device_;
  std::size_t nbytes_;
  device::AddressRange range_;
  std::vector<device::Memory> kept_;  // so that new memory is different memory
};

// Rank r writes r + first, and reads the values of the others.
void expect_reachable(const CaseRank& member, const SymmetricBuffer& x, int first) {
  std::memset(x.data(), first + member.rank(), x.nbytes());
  barrier(member);
  for (int peer = 0; peer < member.size(); ++peer) {
    EXPECT_EQ(x.peer(peer)[0], static_cast<std::byte>(first + peer)) << "of rank " << peer;
    EXPECT_EQ(x.peer(peer)[x.nbytes() - 1], static_cast<std::byte>(first + peer)) << "of rank " << peer;
  }
  barrier(member);
}

}  // namespace

TEST_P(SymmetricSuite, RegisteredMemoryIsReachedAndFoundAgainWithoutAWord) {
  on_ranks(3, [](CaseRank& member) {
    Remapped first(member, 1);
    Remapped second(member, 2);
    first.map();
    second.map();
    const auto ask = [&](const Remapped& memory) {
      return register_memory(member.group, memory.data(), memory.nbytes(), member.stream);
    };
    const SymmetricBuffer x = ask(first);
    const SymmetricBuffer y = ask(second);
    EXPECT_TRUE(x.is_mapped());
    EXPECT_EQ(x.data(), first.data());
    EXPECT_EQ(x.nbytes(), first.nbytes());
    EXPECT_EQ(x.peer(member.rank()), first.data());
    expect_reachable(member, x, 10);
    expect_reachable(member, y, 20);
    const std::uint64_t before = member.group.sequence();
    for (int i = 0; i < 50; ++i) {
      EXPECT_EQ(ask(first).peer(0), x.peer(0));
      EXPECT_EQ(ask(second).peer(2), y.peer(2));
    }
    EXPECT_EQ(member.group.sequence(), before);
    barrier(member);
    // A subrange is a different range.
    const SymmetricBuffer part = register_memory(member.group, first.data() + 4096, 100, member.stream);
    EXPECT_EQ(member.group.sequence(), before + 2);
    EXPECT_EQ(part.peer(1), x.peer(1) + 4096);
  });
}

// Different memory at the same addresses: a cached registration of the old memory is invalid.
TEST_P(SymmetricSuite, MemoryThatWasMappedAnewIsRegisteredAnew) {
  on_ranks(2, [](CaseRank& member) {
    Remapped memory(member, 1);
    for (int round = 0; round < 5; ++round) {
      memory.map();
      const SymmetricBuffer x = register_memory(member.group, memory.data(), memory.nbytes(), member.stream);
      expect_reachable(member, x, 10 * round);
    }
  });
}

// Ranks map and unmap at different times; only changes of the range itself count.
TEST_P(SymmetricSuite, WhatIsMappedElsewhereDoesNotCount) {
  on_ranks(2, [](CaseRank& member) {
    Remapped memory(member, 1);
    memory.map();
    (void)register_memory(member.group, memory.data(), memory.nbytes(), member.stream);
    const std::uint64_t before = member.group.sequence();
    if (member.rank() == 1) {
      Remapped other(member, 3);
      for (int i = 0; i < 3; ++i) other.map();
    }
    const SymmetricBuffer x = register_memory(member.group, memory.data(), memory.nbytes(), member.stream);
    EXPECT_EQ(member.group.sequence(), before);
    expect_reachable(member, x, 1);
  });
}

TEST_P(SymmetricSuite, ARankThatRegistersAloneIsNamedOnAllRanks) {
  on_ranks(3, [](CaseRank& member) {
    Remapped memory(member, 1);
    memory.map();
    expect_error<MismatchError>(
        [&] {
          if (member.rank() == 2) {
            (void)register_memory(member.group, memory.data(), memory.nbytes(), member.stream);
          } else {
            barrier(member);
          }
        },
        {"group world", "ranks 0 and 1 run barrier, rank 2 rendezvous"});
    member.stream.reset_error();
  });
}

TEST_P(SymmetricSuite, AnotherRegistrationIsNamedOnAllRanks) {
  on_ranks(3, [](CaseRank& member) {
    Remapped memory(member, 1);
    memory.map();
    const auto ask = [&](std::size_t nbytes) {
      return register_memory(member.group, memory.data(), nbytes, member.stream);
    };
    (void)ask(1000);
    expect_error<MismatchError>(
        [&] { (void)ask(member.rank() == 0 ? 3000 : 2000); },
        {"registrations: request 2 differs",
         "ranks 1 and 2 requested register_memory(2000), new, rank 0 requested register_memory(3000)"});
    // All ranks got the error at the same point, and start again.
    const std::uint64_t before = member.group.sequence();
    expect_reachable(member, ask(1000), 1);
    EXPECT_EQ(member.group.sequence(), before + 3);
    (void)ask(1000);
    barrier(member);
  });
}

// One rank finds its memory in the cache and continues; the other, which waits for it, gets an error immediately, long
// before the deadline.
TEST_P(SymmetricSuite, ARankThatNeedNotMeetIsNotWaitedFor) {
  on_ranks(2, [](CaseRank& member) {
    Remapped memory(member, 1);
    memory.map();
    const auto ask = [&] { return register_memory(member.group, memory.data(), memory.nbytes(), member.stream); };
    (void)ask();
    if (member.rank() == 0) {
      Remapped other(member, 1);
      other.map();
      expect_error<MismatchError>(
          [&] { (void)register_memory(member.group, other.data(), other.nbytes(), member.stream); },
          {"registration 2", "rank 0 waits in this registration, rank 1 skipped it"});
      member.stream.reset_error();
      CaseRank::say("told");
    } else {
      (void)ask();
      CaseRank::hear("told");
      expect_error<MismatchError>([&] { barrier(member); }, {"rank 1 skipped it"});
      member.stream.reset_error();
    }
  });
}

TEST_P(SymmetricSuite, ALaterOperationFindsRegistrationsThatDiffer) {
  on_ranks(3, [](CaseRank& member) {
    Remapped memory(member, 1);
    memory.map();
    const auto ask = [&] { return register_memory(member.group, memory.data(), memory.nbytes(), member.stream); };
    (void)ask();
    (void)ask();
    barrier(member);
    if (member.rank() == 1) (void)ask();
    expect_error<MismatchError>([&] { barrier(member); },
                                {"ranks 0 and 2 run barrier, rank 1 barrier after different register_memory calls"});
    member.stream.reset_error();
  });
}

TEST_P(SymmetricSuite, DeregisteredMemoryIsRegisteredAnew) {
  on_ranks(2, [](CaseRank& member) {
    Remapped memory(member, 1);
    memory.map();
    const auto ask = [&] { return register_memory(member.group, memory.data(), memory.nbytes(), member.stream); };
    const auto forget = [&] { deregister_memory(member.group, memory.data(), memory.nbytes()); };
    expect_error<InvalidArgument>(forget, {"deregister_memory", "not registered"});
    for (int round = 0; round < 3; ++round) {
      const std::uint64_t before = member.group.sequence();
      expect_reachable(member, ask(), 10 * round);
      expect_reachable(member, ask(), 10 * round + 1);
      EXPECT_EQ(member.group.sequence(), before + 5) << "one meeting, four barriers";
      forget();
      EXPECT_EQ(member.group.sequence(), before + 5) << "no word is exchanged";
      expect_error<InvalidArgument>(forget, {"not registered"});
    }
    barrier(member);
  });
}

TEST_P(SymmetricSuite, ARankThatDeregistersAloneIsNamed) {
  on_ranks(3, [](CaseRank& member) {
    Remapped memory(member, 1);
    memory.map();
    (void)register_memory(member.group, memory.data(), memory.nbytes(), member.stream);
    if (member.rank() == 2) deregister_memory(member.group, memory.data(), memory.nbytes());
    expect_error<MismatchError>([&] { barrier(member); },
                                {"ranks 0 and 1 run barrier, rank 2 barrier after different register_memory calls"});
    member.stream.reset_error();
  });
}

// One rank meets for new memory while the other deregisters: reported immediately, long before the deadline.
TEST_P(SymmetricSuite, ARankThatDeregistersIsNotWaitedFor) {
  on_ranks(2, [](CaseRank& member) {
    Remapped memory(member, 1);
    memory.map();
    (void)register_memory(member.group, memory.data(), memory.nbytes(), member.stream);
    if (member.rank() == 1) {
      deregister_memory(member.group, memory.data(), memory.nbytes());
      CaseRank::hear("told");
      return;
    }
    expect_error<MismatchError>([&] { (void)register_memory(member.group, memory.data(), 100, member.stream); },
                                {"rank 0 waits in this registration, rank 1 skipped it"});
    member.stream.reset_error();
    CaseRank::say("told");
  });
}

TEST_P(SymmetricSuite, ReplaysDoNotTellOfRegistrations) {
  on_ranks(2, [](CaseRank& member) {
    const device::Stream stream = member.host.create_stream();
    Remapped memory(member, 1);
    memory.map();
    const auto ask = [&] { return register_memory(member.group, memory.data(), memory.nbytes(), stream); };
    (void)ask();
    float value = 1;
    stream.begin_capture();
    (void)ask();
    expect_error<InvalidArgument>([&] { (void)register_memory(member.group, memory.data(), 100, stream); },
                                  {"the first register_memory of 100 bytes must not run in a capture"});
    member.group.all_reduce(&value, &value, 1, DType::kF32, {}, stream);
    const device::GraphExec graph = stream.end_capture().instantiate();
    (void)ask();
    // One rank replays a graph captured before the latest registration; the other enqueues after it.
    if (member.rank() == 0) {
      graph.launch(stream);
    } else {
      member.group.all_reduce(&value, &value, 1, DType::kF32, {}, stream);
    }
    stream.synchronize();
    EXPECT_EQ(value, 2.0F);
  });
}

TEST_P(SymmetricSuite, MemoryThatPeersCannotReachIsNamedOnAllRanks) {
  const bool is_heap_reachable = GetParam().backend == "thread";
  on_ranks(3, [is_heap_reachable](CaseRank& member) {
    const Room room(member, member.rank() == 1 ? Where::kHeap : Where::kDevice, 1000);
    const auto ask = [&] { return register_memory(member.group, room.data(), room.nbytes(), member.stream); };
    if (is_heap_reachable) {
      expect_reachable(member, ask(), 3);
    } else {
      expect_error<InvalidArgument>([&] { (void)ask(); }, {"peers cannot access the memory of rank 1"});
    }
    barrier(member);
    expect_error<InvalidArgument>([&] { (void)register_memory(member.group, nullptr, 8, member.stream); },
                                  {"got 8 bytes at 0"});
    expect_error<InvalidArgument>([&] { (void)register_memory(member.group, room.data(), 0, member.stream); },
                                  {"nbytes > 0, got 0 bytes"});
    barrier(member);
  });
}

}  // namespace tessera::comm::suite
