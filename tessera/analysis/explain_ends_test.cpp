// Ranks that die, fail, stop or run out of memory, as evidence; and runs without a fault.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tessera/analysis/explain.h"
#include "tessera/analysis/testing/evidence_builder.h"

namespace tessera::analysis {
namespace {

using testing::all_reduce;
using testing::barrier;
using ::testing::ElementsAre;
using testing::EvidenceBuilder;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Four ranks: rank 2 does not reach collective 17, and the others fail.
EvidenceBuilder without_rank_2(const std::string& failure = "aborted") {
  EvidenceBuilder run(4);
  run.everyone(all_reduce(64), 16);
  for (const int rank : {0, 1, 3}) {
    run.fail(rank, all_reduce(1024), failure, 0.2);
    run.rank(rank).state = RankState::kFailed;
    run.rank(rank).reason = failure + ": group world: operation 17, all_reduce(f32[1024], sum): rank 2 is gone";
  }
  return run;
}

void expect_fault(const Explanation& found, Fault fault, const std::vector<int>& culprits) {
  EXPECT_EQ(found.verdict.fault, fault) << found.verdict.sentence;
  EXPECT_EQ(found.verdict.culprits, culprits) << found.verdict.sentence;
  EXPECT_THAT(found.others, IsEmpty()) << found.others.front().sentence;
}

TEST(Ends, AKilledRankExplainsThoseThatFailedForIt) {
  EvidenceBuilder run = without_rank_2();
  run.rank(2).state = RankState::kDied;
  run.rank(2).signal = 9;
  run.annotation(2, "step", 117);
  const Explanation found = explain(run.evidence());
  expect_fault(found, Fault::kDied, {2});
  EXPECT_EQ(found.verdict.confidence, Confidence::kHigh);
  EXPECT_EQ(found.verdict.sentence,
            "rank 2 was killed by SIGKILL and did not reach collective 17 of group world, all_reduce(f32[1024], sum); "
            "it was in annotation step=117; 3 ranks wait for it");
  EXPECT_THAT(found.verdict.advice, HasSubstr("what killed process 4002"));
}

TEST(Ends, ACrashInACollectiveIsToldAsThat) {
  EvidenceBuilder run(4);
  run.everyone(all_reduce(64), 16);
  for (int rank = 0; rank < 4; ++rank) run.launch(rank, all_reduce(1024), Stage::kMet);
  run.rank(2).state = RankState::kDied;
  run.rank(2).signal = 11;
  run.pass(3);
  const Explanation found = explain(run.evidence());
  expect_fault(found, Fault::kDied, {2});
  EXPECT_THAT(found.verdict.sentence,
              HasSubstr("rank 2 was killed by SIGSEGV in collective 17 of group world, all_reduce(f32[1024], sum)"));
}

TEST(Ends, ACrashBeforeTheFirstOperationAndAfterTheLastIsTold) {
  EvidenceBuilder before(4);
  for (const int rank : {0, 1, 3}) before.launch(rank, all_reduce(8), Stage::kBegun);
  before.rank(2).state = RankState::kDied;
  before.rank(2).signal = 6;
  before.rank(2).groups.clear();
  expect_fault(explain(before.evidence()), Fault::kDied, {2});
  EvidenceBuilder after(4);
  after.everyone(all_reduce(8), 3);
  after.end_all();
  after.rank(2).state = RankState::kDied;
  after.rank(2).signal = 11;
  const Explanation found = explain(after.evidence());
  expect_fault(found, Fault::kDied, {2});
  EXPECT_THAT(found.verdict.sentence, HasSubstr("after collective 3 of group world"));
}

TEST(Ends, ARankThatDiedWithoutASignalIsBelievedLess) {
  EvidenceBuilder run = without_rank_2();
  run.rank(2).state = RankState::kDied;
  const Explanation found = explain(run.evidence());
  expect_fault(found, Fault::kDied, {2});
  EXPECT_EQ(found.verdict.confidence, Confidence::kMedium);
}

TEST(Ends, AnErrorOfItsOwnIsQuoted) {
  EvidenceBuilder run = without_rank_2();
  run.rank(2).state = RankState::kFailed;
  run.rank(2).reason = "no such file: shard-7\nwith a second line";
  const Explanation found = explain(run.evidence());
  expect_fault(found, Fault::kFailed, {2});
  EXPECT_THAT(found.verdict.sentence,
              HasSubstr("rank 2 failed: no such file: shard-7; and did not reach collective 17"));
}

TEST(Ends, AnExceptionInTeardownIsAFault) {
  EvidenceBuilder run(4);
  run.everyone(all_reduce(8), 3);
  run.end_all();
  run.rank(1).state = RankState::kFailed;
  run.rank(1).reason = "i/o error: checkpoint could not be closed";
  const Explanation found = explain(run.evidence());
  expect_fault(found, Fault::kFailed, {1});
  EXPECT_THAT(found.verdict.sentence, HasSubstr("after collective 3"));
}

TEST(Ends, OutOfMemoryNamesTheDeviceAndItsLargestOwner) {
  EvidenceBuilder run = without_rank_2();
  run.rank(2).state = RankState::kFailed;
  run.rank(2).reason = "out of memory: cuda:0: 4294967296 bytes do not fit";
  run.rank(2).memory.push_back({.device = "cuda:0",
                                .live_nbytes = 70ULL << 30,
                                .mapped_nbytes = 79ULL << 30,
                                .refused_nbytes = 4ULL << 30,
                                .owners = {{"activations", 60ULL << 30}}});
  const Explanation found = explain(run.evidence());
  expect_fault(found, Fault::kOutOfMemory, {2});
  EXPECT_THAT(
      found.verdict.sentence,
      HasSubstr("rank 2 ran out of memory on cuda:0: it requested 4 GiB with 70 GiB in use and 79 GiB reserved"));
  EXPECT_THAT(found.verdict.advice, HasSubstr("'activations'"));
}

TEST(Ends, MemoryThatWasRefusedAndGotOverIsNoFault) {
  EvidenceBuilder run(2);
  run.everyone(all_reduce(8), 3);
  run.end_all();
  run.rank(1).memory.push_back({.device = "cuda:0", .refused_nbytes = 1 << 20});
  expect_fault(explain(run.evidence()), Fault::kNone, {});
}

TEST(Ends, AStoppedRankIsToldHowToGoOn) {
  EvidenceBuilder run(4);
  run.everyone(all_reduce(64), 16);
  for (const int rank : {0, 1, 3}) run.launch(rank, all_reduce(1024), Stage::kBegun);
  run.rank(2).state = RankState::kStopped;
  run.pass(2);
  const Explanation found = explain(run.evidence());
  expect_fault(found, Fault::kStopped, {2});
  EXPECT_THAT(found.verdict.advice, HasSubstr("kill -CONT 4002 on node7"));
}

TEST(Ends, ThoseThatTheLauncherEndedAreNotBlamed) {
  EvidenceBuilder run(4);
  run.everyone(all_reduce(64), 16);
  for (const int rank : {0, 1}) run.launch(rank, all_reduce(1024), Stage::kBegun);
  // Rank 3 had not arrived either, when rank 2 was killed and the launcher ended the rest.
  for (const int rank : {0, 1, 3}) {
    run.rank(rank).state = RankState::kDied;
    run.rank(rank).signal = 15;
  }
  run.rank(2).state = RankState::kDied;
  run.rank(2).signal = 9;
  run.pass(2);
  expect_fault(explain(run.evidence()), Fault::kDied, {2});
}

TEST(Ends, WhoeverAbortsByAnErrorOfAGroupIsAVictim) {
  EvidenceBuilder run(4);
  run.everyone(all_reduce(64), 16);
  for (const int rank : {0, 1, 3}) {
    run.fail(rank, all_reduce(1024), "timeout");
    run.rank(rank).state = RankState::kDied;
    run.rank(rank).signal = 6;
    run.rank(rank).reason = "was killed by signal 6 (Aborted)";
  }
  run.annotation(2, "data");
  run.rank(2).state = RankState::kDied;
  run.rank(2).signal = 15;
  run.pass(7);
  expect_fault(explain(run.evidence()), Fault::kAbsent, {2});
}

TEST(Ends, WhereAllDiedTheOneThatOthersWaitedForBeganIt) {
  EvidenceBuilder run(4);
  run.everyone(all_reduce(64), 16);
  for (const int rank : {0, 1, 3}) run.launch(rank, all_reduce(1024), Stage::kBegun);
  for (int rank = 0; rank < 4; ++rank) run.rank(rank).state = RankState::kDied;
  run.pass(2);
  expect_fault(explain(run.evidence()), Fault::kDied, {2});
}

TEST(Ends, ARunThatWasToldToEndBlamesNobody) {
  EvidenceBuilder run(4);
  run.everyone(all_reduce(64), 16);
  for (int rank = 0; rank < 4; ++rank) {
    run.rank(rank).state = RankState::kDied;
    run.rank(rank).signal = 15;
  }
  const Explanation found = explain(run.evidence());
  EXPECT_THAT(found.verdict.culprits, IsEmpty());
  EXPECT_THAT(found.verdict.sentence, HasSubstr("ended from outside"));
}

TEST(Ends, TwoRanksThatDiedAreBothTold) {
  EvidenceBuilder run(6);
  run.everyone(all_reduce(64), 16);
  for (const int rank : {0, 1, 3, 4}) run.fail(rank, all_reduce(1024), "aborted", 0.2);
  for (const int rank : {2, 5}) {
    run.rank(rank).state = RankState::kDied;
    run.rank(rank).signal = 11;
  }
  const Explanation found = explain(run.evidence());
  EXPECT_THAT(found.verdict.culprits, ElementsAre(2));
  ASSERT_EQ(found.others.size(), 1U);
  EXPECT_THAT(found.others[0].culprits, ElementsAre(5));
}

TEST(Ends, VictimsWhoseCauseIsNotThereBlameNobody) {
  EvidenceBuilder run(3);
  run.everyone(all_reduce(64), 3);
  for (int rank = 0; rank < 3; ++rank) {
    run.rank(rank).state = RankState::kFailed;
    run.rank(rank).reason = "timeout: store: key 'ready' did not come within 5 s";
  }
  const Explanation found = explain(run.evidence());
  EXPECT_EQ(found.verdict.fault, Fault::kUnknown);
  EXPECT_THAT(found.verdict.culprits, IsEmpty());
  EXPECT_EQ(found.verdict.confidence, Confidence::kLow);
  EXPECT_THAT(found.verdict.sentence, HasSubstr("key 'ready' did not come"));
}

TEST(Ends, ARunThatEndedInOrderHasNoFault) {
  EvidenceBuilder run(4);
  run.everyone(all_reduce(64), 16);
  run.everyone(barrier());
  run.end_all();
  const Explanation found = explain(run.evidence());
  expect_fault(found, Fault::kNone, {});
  EXPECT_EQ(found.verdict.confidence, Confidence::kHigh);
  EXPECT_EQ(found.verdict.sentence, "no fault: 4 ranks ended normally, after 17 collectives of group world");
}

TEST(Ends, AnOperationThatFailedForReasonsThatAreNotRecordedIsNoRunWithoutFault) {
  EvidenceBuilder run(4);
  run.everyone(all_reduce(64), 16);
  for (int rank = 0; rank < 4; ++rank) {
    run.fail(rank, testing::all_to_all(0, static_cast<std::uint32_t>(rank + 1)), "mismatch", 0.01);
  }
  const Explanation found = explain(run.evidence());
  expect_fault(found, Fault::kMismatch, {});
  EXPECT_EQ(found.verdict.group, "world");
  EXPECT_EQ(found.verdict.collective_number, 17U);
  EXPECT_THAT(found.verdict.sentence, HasSubstr("failed on ranks 0-3 (mismatch), and the records do not show why"));
  run.pass(1);
  run.everyone(all_reduce(64));
  expect_fault(explain(run.evidence()), Fault::kNone, {});  // they recovered
}

TEST(Ends, GroupsOfTheSameRanksThatOneComesToInAnotherOrderBlameThatOne) {
  EvidenceBuilder run(4);
  run.add_group("first", {0, 1, 2, 3});
  run.add_group("second", {0, 1, 2, 3});
  run.everyone(all_reduce(64), 3);
  for (int rank = 0; rank < 4; ++rank) {
    run.fail(rank, all_reduce(64), "mismatch", 0.01, rank == 0 ? "second" : "first");
  }
  const Explanation found = explain(run.evidence());
  expect_fault(found, Fault::kMismatch, {0});
  EXPECT_EQ(found.verdict.sentence,
            "rank 0 reached group second where ranks 1, 2 and 3 reached group first: the order differs");
}

TEST(Ends, ADeadlockThatRanksInTurnsAreToldOfIsACircleAndNobodysError) {
  EvidenceBuilder run(4);
  run.everyone(all_reduce(64), 3);
  for (int rank = 0; rank < 4; ++rank) {
    run.fail(rank, testing::recv(10, (rank + 3) % 4), "device error", 0.001);
    run.rank(rank).state = RankState::kFailed;
    run.rank(rank).reason = "device error: rank 0: deadlock: every participant waits and no deadline is set:";
  }
  expect_fault(explain(run.evidence()), Fault::kCycle, {0, 1, 2, 3});
}

TEST(Ends, WhoWaitsForACircleIsNoPartOfIt) {
  EvidenceBuilder run(6);
  run.add_group("five", {0, 1, 2, 3, 4});
  run.everyone(all_reduce(64), 3);
  for (int rank = 0; rank < 6; ++rank) run.launch(rank, all_reduce(8), Stage::kBegun, rank < 4 ? "five" : "world");
  run.pass(30);
  expect_fault(explain(run.evidence()), Fault::kCycle, {4});
}

TEST(Ends, ARunThatGoesOnHasNoFault) {
  EvidenceBuilder run(4);
  run.everyone(all_reduce(64), 16);
  for (const int rank : {0, 1}) run.launch(rank, all_reduce(64), Stage::kBegun);
  run.pass(0.05);
  const Explanation found = explain(run.evidence());
  expect_fault(found, Fault::kNone, {});
  EXPECT_THAT(found.verdict.sentence, HasSubstr("4 ranks run"));
  EXPECT_EQ(found.waits.size(), 4U);
}

TEST(Ends, ARankWithoutARecordOfARunThatWentWellIsOnlyMentioned) {
  EvidenceBuilder run(4);
  run.everyone(all_reduce(64), 16);
  run.end_all();
  run.rank(2) = {.rank = 2, .state = RankState::kMissing};
  const Explanation found = explain(run.evidence());
  expect_fault(found, Fault::kNone, {});
  EXPECT_EQ(found.verdict.confidence, Confidence::kMedium);
  EXPECT_THAT(found.verdict.sentence, HasSubstr("nothing is known about rank 2"));
}

TEST(Ends, ARankWithoutARecordThatFailedIsNotBlamedWhereAnotherDied) {
  EvidenceBuilder run = without_rank_2();
  run.rank(2).state = RankState::kDied;
  run.rank(2).signal = 9;
  run.rank(1) = {.rank = 1, .state = RankState::kFailed, .reason = "exited with 1"};
  expect_fault(explain(run.evidence()), Fault::kDied, {2});
  run.rank(2) = {.rank = 2, .state = RankState::kDied, .reason = "was killed by signal 9 (Killed)", .signal = 9};
  const Explanation found = explain(run.evidence());
  expect_fault(found, Fault::kDied, {2});
  EXPECT_THAT(found.verdict.sentence, HasSubstr("rank 2 was killed by SIGKILL and left no record"));
}

TEST(Ends, ARankWithoutARecordThatFailedAloneIsBlamed) {
  EvidenceBuilder run(2);
  run.rank(0) = {.rank = 0, .state = RankState::kDied, .reason = "was killed by signal 15", .signal = 15};
  run.rank(1) = {.rank = 1, .state = RankState::kFailed, .reason = "exited with 42"};
  const Explanation found = explain(run.evidence());
  expect_fault(found, Fault::kFailed, {1});
  EXPECT_EQ(found.verdict.confidence, Confidence::kMedium);
}

TEST(Ends, NothingAtAllIsNoVerdict) {
  EXPECT_EQ(explain({}).verdict.fault, Fault::kUnknown);
  Evidence evidence{.world_size = 2,
                    .ranks = {{.rank = 0, .state = RankState::kMissing}, {.rank = 1, .state = RankState::kMissing}}};
  EXPECT_EQ(explain(evidence).verdict.fault, Fault::kUnknown);
}

}  // namespace
}  // namespace tessera::analysis
