// Sends and receives, alone and in batches.
#include "tessera/comm/suite/comm_suite.h"

namespace tessera::comm::suite {
namespace {

Operation send(const Ints& what, int to) {
  return {.kind = OpKind::kSend, .dtype = DType::kI32, .peer = to, .in = what.bytes(), .count = what.count()};
}
Operation receive(const Ints& into, int from) {
  return {.kind = OpKind::kRecv, .dtype = DType::kI32, .peer = from, .out = into.bytes(), .count = into.count()};
}

}  // namespace

TEST_P(CommSuite, AMessageGoesFromOneToAnother) {
  if (!has_messages()) GTEST_SKIP() << "the backend has no send and recv";
  on_ranks(3, [](CaseRank& member) {
    for (const Where where : {Where::kDevice, Where::kHeap, member.mixed()}) {
      for (const std::int64_t count : {0, 1, 16'384, 16'385, 70'001}) {
        Ints room(member, where, count);
        if (member.rank() == 2) {
          member.group.send(room.number(2).data(), count, DType::kI32, 0, member.stream).wait();
        }
        if (member.rank() != 0) continue;
        member.group.recv(room.data(), count, DType::kI32, 2, member.stream).wait();
        room.expect_from(2, 0, 0, count);
      }
    }
  });
}

TEST_P(CommSuite, AllSendToAllInOneBatchInAnyOrder) {
  if (!has_messages()) GTEST_SKIP() << "the backend has no send and recv";
  on_ranks(4, [](CaseRank& member) {
    for (const Where where : {Where::kDevice, Where::kHeap, member.mixed()}) {
      for (const std::int64_t count : {1, 40'000}) {
        Ints out(member, where, count);
        out.number(member.rank());
        std::vector<std::unique_ptr<Ints>> in;
        std::vector<Operation> batch;
        for (int step = 1; step < 4; ++step) {
          const int peer = (member.rank() + step) % 4;
          in.push_back(std::make_unique<Ints>(member, where, count));
          // The order differs between ranks.
          batch.insert(member.rank() % 2 == 0 ? batch.begin() : batch.end(), send(out, peer));
          batch.push_back(receive(*in.back(), peer));
        }
        member.group.launch(batch, member.stream).wait();
        for (int step = 1; step < 4; ++step) {
          in[static_cast<std::size_t>(step - 1)]->expect_from((member.rank() + step) % 4, 0, 0, count);
        }
      }
    }
  });
}

TEST_P(CommSuite, MessagesBetweenTwoKeepTheirOrder) {
  if (!has_messages()) GTEST_SKIP() << "the backend has no send and recv";
  on_ranks(2, [](CaseRank& member) {
    constexpr int kMany = 30;
    std::vector<std::unique_ptr<Ints>> rooms;
    std::vector<Operation> batch;
    for (int i = 0; i < kMany; ++i) {
      rooms.push_back(std::make_unique<Ints>(member, i % 2 == 0 ? Where::kDevice : Where::kHeap, 1 + 900 * i));
      Ints& room = *rooms.back();
      batch.push_back(member.rank() == 0 ? send(room.number(i % 20), 1) : receive(room, 0));
    }
    member.group.launch(batch, member.stream).wait();
    if (member.rank() == 0) return;
    for (int i = 0; i < kMany; ++i) rooms[static_cast<std::size_t>(i)]->expect_from(i % 20, 0, 0, 1 + 900 * i);
  });
}

TEST_P(CommSuite, APingPongOfManyRounds) {
  if (!has_messages()) GTEST_SKIP() << "the backend has no send and recv";
  on_ranks(2, [](CaseRank& member) {
    const Ints room(member, Where::kDevice, 1);
    const int peer = 1 - member.rank();
    room.data()[0] = 0;
    for (int round = 0; round < 500; ++round) {
      const bool is_mine = round % 2 == member.rank();
      if (is_mine) ++room.data()[0];
      member.group.launch(is_mine ? send(room, peer) : receive(room, peer), member.stream).wait();
      ASSERT_EQ(room.data()[0], round + 1);
    }
  });
}

TEST_P(CommSuite, MessagesAndCollectivesMix) {
  if (!has_messages()) GTEST_SKIP() << "the backend has no send and recv";
  on_ranks(3, [](CaseRank& member) {
    for (int round = 0; round < 10; ++round) {
      Ints sum(member, Where::kDevice, 5000);
      Ints mail(member, Where::kDevice, 3000);
      std::fill_n(sum.data(), 5000, member.rank());
      std::vector<Operation> batch;
      if (member.rank() == 0) batch.push_back(send(mail.number(4), 2));
      if (member.rank() == 2) batch.push_back(receive(mail, 0));
      batch.push_back(
          {.kind = OpKind::kAllReduce, .dtype = DType::kI32, .in = sum.bytes(), .out = sum.bytes(), .count = 5000});
      member.group.launch(batch, member.stream).wait();
      ASSERT_EQ(sum.data()[4999], 3);
      if (member.rank() == 2) mail.expect_from(4, 0, 0, 3000);
    }
  });
}

TEST_P(CommSuite, AMessageOfAnotherSizeIsNamed) {
  if (!has_messages()) GTEST_SKIP() << "the backend has no send and recv";
  on_ranks(2, [](CaseRank& member) {
    const Ints room(member, Where::kDevice, member.rank() == 0 ? 8 : 7);
    expect_error<MismatchError>(
        [&] {
          if (member.rank() == 0) member.group.send(room.data(), 8, DType::kI32, 1, member.stream).wait();
          member.group.recv(room.data(), 7, DType::kI32, 0, member.stream).wait();
        },
        {"recv(i32[7], from 0)", "rank 0 sends i32[8]"});
    member.stream.reset_error();
  });
}

TEST_P(CommSuite, AMessageOfAnotherDTypeIsNamed) {
  if (!has_messages()) GTEST_SKIP() << "the backend has no send and recv";
  on_ranks(2, [](CaseRank& member) {
    const Ints room(member, Where::kDevice, 8);
    Operation op = member.rank() == 0 ? send(room, 1) : receive(room, 0);
    if (member.rank() == 1) op.dtype = DType::kF32;
    expect_error<MismatchError>([&] { member.group.launch(op, member.stream).wait(); }, {"rank 0 sends i32[8]"});
    member.stream.reset_error();
  });
}

TEST_P(CommSuite, MessagesToNobodyAreRefusedAndHurtNothing) {
  if (!has_messages()) GTEST_SKIP() << "the backend has no send and recv";
  on_ranks(2, [](CaseRank& member) {
    const Ints room(member, Where::kDevice, 8);
    expect_error<InvalidArgument>([&] { (void)member.group.launch(send(room, member.rank()), member.stream); },
                                  {"peer must be another rank in [0, 1]"});
    expect_error<InvalidArgument>([&] { (void)member.group.launch(send(room, 2), member.stream); },
                                  {"peer must be another rank in [0, 1], got 2"});
    const int other = 1 - member.rank();
    const auto recv = [&](void* out, std::int64_t count, int from) {
      (void)member.group.recv(out, count, DType::kI32, from, member.stream);
    };
    expect_error<InvalidArgument>([&] { recv(nullptr, 8, other); }, {"buffer must not be null"});
    expect_error<InvalidArgument>([&] { recv(room.data(), 8, -1); }, {"peer must be another rank in [0, 1], got -1"});
    expect_error<InvalidArgument>([&] { recv(room.data(), -8, other); }, {"count must not be negative, got -8"});
    expect_error<InvalidArgument>([&] { (void)member.group.send(nullptr, 8, DType::kI32, other, member.stream); },
                                  {"buffer must not be null"});
    member.group.launch({.kind = OpKind::kBarrier}, member.stream).wait();
    EXPECT_EQ(member.group.sequence(), 1U);
  });
}

TEST_P(CommSuite, AMessageThatNobodySendsEndsAtTheDeadline) {
  if (!has_messages()) GTEST_SKIP() << "the backend has no send and recv";
  on_ranks(2, [](CaseRank& member) {
    member.group.set_deadline(50ms);
    const Ints room(member, Where::kDevice, 8);
    if (member.rank() == 0) {
      expect_error<TimeoutError>([&] { member.group.launch(receive(room, 1), member.stream).wait(); },
                                 {"recv(i32[8], from 1)", "rank 1 did not arrive"});
      member.stream.reset_error();
      CaseRank::say("it is over");
    }
    CaseRank::hear("it is over");
  });
}

}  // namespace tessera::comm::suite
