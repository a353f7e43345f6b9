// Absent ranks, as evidence: stuck in host code or on their stream, in deadlock cycles, late, without a record.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tessera/analysis/explain.h"
#include "tessera/analysis/testing/evidence_builder.h"

namespace tessera::analysis {
namespace {

using testing::all_reduce;
using testing::barrier;
using testing::EvidenceBuilder;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::recv;
using testing::send;

// All but rank 2 wait in collective 17.
EvidenceBuilder waiting_for_rank_2() {
  EvidenceBuilder run(4);
  run.everyone(all_reduce(64), 16);
  for (const int rank : {0, 1, 3}) run.launch(rank, all_reduce(1024), Stage::kBegun);
  return run;
}

void expect_fault(const Explanation& found, Fault fault, const std::vector<int>& culprits, Confidence confidence) {
  EXPECT_EQ(found.verdict.fault, fault) << found.verdict.sentence;
  EXPECT_EQ(found.verdict.culprits, culprits) << found.verdict.sentence;
  EXPECT_EQ(found.verdict.confidence, confidence) << found.verdict.sentence;
  EXPECT_THAT(found.others, IsEmpty()) << found.others.front().sentence;
}

TEST(Waits, ARankInItsDataLoaderIsNamedWithItsMarks) {
  EvidenceBuilder run = waiting_for_rank_2();
  run.annotation(2, "step", 117);
  run.annotation(2, "data");
  run.pass(31);
  const Explanation found = explain(run.evidence());
  expect_fault(found, Fault::kAbsent, {2}, Confidence::kHigh);
  EXPECT_EQ(found.verdict.sentence,
            "rank 2 did not reach collective 17 of group world, all_reduce(f32[1024], sum): its host is in annotation "
            "step=117, data, for 31 s; 3 ranks wait for it");
  EXPECT_EQ(found.verdict.group, "world");
  EXPECT_EQ(found.verdict.collective_number, 17U);
  ASSERT_EQ(found.waits.size(), 3U);
  EXPECT_EQ(found.waits[0].peer, 2);
}

TEST(Waits, ARankInHostCodeWithoutMarksIsPlacedByItsLastLabelAndKernel) {
  EvidenceBuilder run = waiting_for_rank_2();
  run.group(2).launches.back().label = "mlp.fc1";
  run.rank(2).launches.push_back({.name = "softmax_rows", .device = "cuda:0", .stream = 3, .when_ns = run.now()});
  run.pass(31);
  const Explanation found = explain(run.evidence());
  expect_fault(found, Fault::kAbsent, {2}, Confidence::kHigh);
  EXPECT_THAT(found.verdict.sentence,
              HasSubstr("it last reached collective 16 of group world, all_reduce(f32[64], sum) with label 'mlp.fc1'"));
  EXPECT_THAT(found.verdict.sentence, HasSubstr("the last launch is softmax_rows on cuda:0 stream 3, 31 s ago"));
  EXPECT_THAT(found.verdict.advice, HasSubstr("after label 'mlp.fc1'"));
}

TEST(Waits, ADeadlineThatPassedIsSure) {
  EvidenceBuilder run(4);
  run.everyone(all_reduce(64), 16);
  for (const int rank : {0, 1, 3}) {
    run.fail(rank, all_reduce(1024), "timeout", 0.5);
    run.rank(rank).state = RankState::kFailed;
    run.rank(rank).reason = "timeout: group world: operation 17: rank 2 did not come within 0.5 s";
  }
  run.pass(0.6);
  expect_fault(explain(run.evidence()), Fault::kAbsent, {2}, Confidence::kHigh);
}

TEST(Waits, ARankThatCameWhenTheOthersHadFailedIsSlow) {
  EvidenceBuilder run(4);
  run.everyone(all_reduce(64), 16);
  for (const int rank : {0, 1, 3}) run.fail(rank, all_reduce(1024), "timeout", 5);
  run.pass(7);
  run.fail(2, all_reduce(1024), "timeout", 0.001);
  for (int rank = 0; rank < 4; ++rank) {
    run.rank(rank).state = RankState::kFailed;
    run.rank(rank).reason = "timeout: group world: operation 17: rank 2 did not come within 5 s";
  }
  const Explanation found = explain(run.evidence());
  expect_fault(found, Fault::kSlow, {2}, Confidence::kHigh);
  EXPECT_THAT(found.verdict.sentence, HasSubstr("7.0 s after the first"));
}

TEST(Waits, AStreamThatCameWhenTheOthersHadFailedIsNamed) {
  EvidenceBuilder run(4);
  run.everyone(all_reduce(64), 16);
  for (const int rank : {0, 1, 3}) run.fail(rank, all_reduce(1024), "timeout", 5);
  CollectiveCall& late = run.fail(2, all_reduce(1024), "timeout", 0.001);
  late.begun_ns += 7 * EvidenceBuilder::kSecond;
  late.ended_ns = late.begun_ns + 1000;
  run.pass(8);
  const Explanation found = explain(run.evidence());
  expect_fault(found, Fault::kStream, {2}, Confidence::kHigh);
  EXPECT_THAT(found.verdict.sentence, HasSubstr("stream 1 of host reached it 7.0 s after the first rank"));
}

TEST(Waits, ARankThatLeftInOrderIsBlamedThoughTheOthersFailAtOnce) {
  EvidenceBuilder run(4);
  run.everyone(all_reduce(64), 16);
  for (const int rank : {0, 1, 3}) {
    run.fail(rank, all_reduce(1024), "aborted", 0.01);
    run.rank(rank).state = RankState::kFailed;
    run.rank(rank).reason = "aborted: group world: operation 17: rank 2 has left the group";
  }
  run.rank(2).state = RankState::kEnded;
  expect_fault(explain(run.evidence()), Fault::kAbsent, {2}, Confidence::kMedium);
}

TEST(Waits, AnAbortDoesNotBlameThoseThatWereOnTheirWay) {
  EvidenceBuilder run(4);
  run.everyone(all_reduce(64), 16);
  for (const int rank : {0, 1}) {
    run.fail(rank, all_reduce(1024), "aborted", 0.01);
    run.rank(rank).state = RankState::kFailed;
    run.rank(rank).reason = "aborted: group world: aborted by rank 0: no more disk";
  }
  const Explanation found = explain(run.evidence());
  EXPECT_EQ(found.verdict.fault, Fault::kUnknown) << found.verdict.sentence;
  EXPECT_THAT(found.verdict.culprits, IsEmpty());
  EXPECT_THAT(found.verdict.sentence, HasSubstr("no more disk"));
}

TEST(Waits, ARankThatIsAtWorkIsSlowAndNotStuck) {
  EvidenceBuilder run = waiting_for_rank_2();
  run.pass(6);
  run.rank(2).launches.push_back({.name = "matmul", .device = "cuda:0", .stream = 1, .when_ns = run.now() - 1000});
  expect_fault(explain(run.evidence()), Fault::kSlow, {2}, Confidence::kMedium);
}

TEST(Waits, AStreamThatHasNotComeToItIsNamed) {
  EvidenceBuilder run = waiting_for_rank_2();
  CollectiveCall& asked = run.launch(2, all_reduce(1024), Stage::kAsked);
  asked.device = "cuda:0";
  asked.stream = 3;
  run.rank(2).launches.push_back({.name = "spin", .device = "cuda:0", .stream = 3, .when_ns = run.now()});
  run.pass(31);
  const Explanation found = explain(run.evidence());
  expect_fault(found, Fault::kStream, {2}, Confidence::kHigh);
  EXPECT_THAT(found.verdict.sentence, HasSubstr("rank 2 enqueued collective 17 of group world, all_reduce(f32[1024], "
                                                "sum) 31 s ago, but stream 3 of cuda:0 has not reached it"));
  EXPECT_THAT(found.verdict.sentence, HasSubstr("the last launch on the stream is spin"));
}

TEST(Waits, AHangInAReplayNamesTheReplayAndTheNode) {
  EvidenceBuilder run(4);
  run.everyone(all_reduce(64), 16);
  for (const int rank : {0, 1, 3}) {
    CollectiveCall& launch = run.launch(rank, all_reduce(1024), Stage::kBegun);
    launch.replay = 117;
    launch.node = 5;
  }
  run.pass(31);
  const Explanation found = explain(run.evidence());
  expect_fault(found, Fault::kAbsent, {2}, Confidence::kHigh);
  EXPECT_THAT(found.verdict.sentence, HasSubstr("node 5 in replay 117 of its graph"));
}

TEST(Waits, ARankThatWaitsItselfIsNotBlamed) {
  // Rank 0 waits for rank 1 in the world, rank 1 for rank 2 in a group of two; rank 2 is stuck.
  EvidenceBuilder run(3);
  run.add_group("pair", {1, 2});
  run.launch(0, all_reduce(8), Stage::kBegun);
  run.launch(1, all_reduce(9), Stage::kBegun, "pair");
  run.annotation(2, "data");
  run.pass(15);
  const Explanation found = explain(run.evidence());
  expect_fault(found, Fault::kAbsent, {2}, Confidence::kHigh);
}

TEST(Waits, RanksOffAGroupAreNotMissedThere) {
  EvidenceBuilder run(6);
  run.add_group("left", {0, 1, 2});
  for (const int rank : {0, 1}) run.launch(rank, all_reduce(8), Stage::kBegun, "left");
  run.pass(15);
  expect_fault(explain(run.evidence()), Fault::kAbsent, {2}, Confidence::kHigh);
}

TEST(Waits, TwoRanksThatAreStuckAreBothNamed) {
  EvidenceBuilder run(6);
  run.everyone(all_reduce(64), 3);
  for (const int rank : {0, 1, 2, 4}) run.launch(rank, all_reduce(8), Stage::kBegun);
  run.pass(15);
  expect_fault(explain(run.evidence()), Fault::kAbsent, {3, 5}, Confidence::kHigh);
}

TEST(Waits, OneRankAheadOfAllOthersDoesNotBlameThem) {
  EvidenceBuilder run(4);
  run.everyone(all_reduce(64), 3);
  run.launch(1, barrier(), Stage::kBegun);
  run.pass(15);
  const Explanation found = explain(run.evidence());
  expect_fault(found, Fault::kUnknown, {}, Confidence::kLow);
  EXPECT_THAT(found.verdict.sentence, HasSubstr("only rank 1 reached collective 4"));
}

TEST(Waits, ADeadlockAcrossTwoGroupsIsACircle) {
  EvidenceBuilder run(2);
  run.add_group("a", {0, 1});
  run.add_group("b", {0, 1});
  run.launch(0, all_reduce(8), Stage::kBegun, "a");
  run.launch(1, all_reduce(9), Stage::kBegun, "b");
  run.pass(15);
  const Explanation found = explain(run.evidence());
  expect_fault(found, Fault::kCycle, {0, 1}, Confidence::kHigh);
  ASSERT_EQ(found.cycles.size(), 1U);
  ASSERT_EQ(found.cycles[0].size(), 2U);
  EXPECT_EQ(found.cycles[0][0].rank, 0);
  EXPECT_EQ(found.cycles[0][0].peer, 1);
  EXPECT_EQ(found.cycles[0][0].group, "a");
  EXPECT_EQ(found.cycles[0][1].group, "b");
}

TEST(Waits, TheOneThatTookGroupsInAnotherOrderIsBlamedForTheCircle) {
  EvidenceBuilder run(4);
  run.add_group("a", {0, 1, 2, 3});
  run.add_group("b", {0, 1, 2, 3});
  for (int rank = 0; rank < 4; ++rank) run.launch(rank, all_reduce(8), Stage::kBegun, rank == 2 ? "b" : "a");
  for (int rank = 0; rank < 4; ++rank) run.launch(rank, all_reduce(8), Stage::kAsked, rank == 2 ? "a" : "b");
  run.pass(15);
  const Explanation found = explain(run.evidence());
  expect_fault(found, Fault::kCycle, {2}, Confidence::kMedium);
  EXPECT_THAT(found.verdict.sentence, HasSubstr("rank 2 called the collectives in a different order from most ranks"));
}

TEST(Waits, ACircleWhoseDeadlinesPassedIsStillOne) {
  EvidenceBuilder run(2);
  run.add_group("a", {0, 1});
  run.add_group("b", {0, 1});
  run.fail(0, all_reduce(8), "timeout", 5, "a");
  run.fail(1, all_reduce(9), "timeout", 5, "b");
  for (int rank = 0; rank < 2; ++rank) {
    run.rank(rank).state = RankState::kFailed;
    run.rank(rank).reason = "timeout: group x: operation 1";
  }
  run.pass(6);
  expect_fault(explain(run.evidence()), Fault::kCycle, {0, 1}, Confidence::kHigh);
}

TEST(Waits, ACircleOfSendsIsFound) {
  EvidenceBuilder run(4);
  for (int rank = 0; rank < 4; ++rank) run.launch(rank, send(8, (rank + 1) % 4), Stage::kBegun);
  run.pass(15);
  const Explanation found = explain(run.evidence());
  expect_fault(found, Fault::kCycle, {0, 1, 2, 3}, Confidence::kHigh);
  ASSERT_EQ(found.cycles.size(), 1U);
  EXPECT_EQ(found.cycles[0].size(), 4U);
  EXPECT_THAT(found.verdict.advice, HasSubstr("receive before it sends"));
}

TEST(Waits, ARankThatDiedExplainsWhatLooksLikeACircle) {
  EvidenceBuilder run(3);
  run.add_group("a", {0, 1, 2});
  run.add_group("b", {0, 1, 2});
  run.launch(0, all_reduce(8), Stage::kBegun, "a");
  run.launch(1, all_reduce(9), Stage::kBegun, "b");
  run.rank(2).state = RankState::kDied;
  run.rank(2).signal = 9;
  run.pass(15);
  const Explanation found = explain(run.evidence());
  EXPECT_EQ(found.verdict.fault, Fault::kDied);
  EXPECT_THAT(found.cycles, IsEmpty());
}

TEST(Waits, AMessageThatIsNotSentBlamesItsSender) {
  EvidenceBuilder run(4);
  for (int i = 0; i < 3; ++i) {
    run.launch(0, send(8, 1));
    run.launch(1, recv(8, 0));
  }
  run.launch(1, recv(8, 0), Stage::kBegun);
  run.annotation(0, "data");
  run.pass(15);
  const Explanation found = explain(run.evidence());
  expect_fault(found, Fault::kAbsent, {0}, Confidence::kHigh);
  EXPECT_THAT(found.verdict.sentence,
              HasSubstr("rank 0 did not reach point-to-point operation 4 of group world, recv(f32[8], from 0)"));
}

TEST(Waits, ARankThatEndedOneShortIsBlamedByTheMany) {
  EvidenceBuilder run = waiting_for_rank_2();
  run.rank(2).state = RankState::kEnded;
  run.pass(15);
  const Explanation found = explain(run.evidence());
  expect_fault(found, Fault::kAbsent, {2}, Confidence::kHigh);
  EXPECT_THAT(found.verdict.sentence, HasSubstr("rank 2 ended normally without reaching collective 17"));
}

TEST(Waits, ARankThatDidOneMoreIsBlamedByTheManyThatEnded) {
  EvidenceBuilder run(4);
  run.everyone(all_reduce(64), 16);
  run.end_all();
  run.rank(2).state = RankState::kRunning;
  run.launch(2, all_reduce(64), Stage::kBegun);
  run.pass(15);
  const Explanation found = explain(run.evidence());
  expect_fault(found, Fault::kMismatch, {2}, Confidence::kMedium);
  EXPECT_THAT(found.verdict.sentence, HasSubstr("it ran one operation more than the others"));
}

TEST(Waits, HalfThatEndedAgainstHalfThatWaitIsATie) {
  EvidenceBuilder run(4);
  run.everyone(all_reduce(64), 16);
  for (const int rank : {0, 1}) run.launch(rank, all_reduce(64), Stage::kBegun);
  for (const int rank : {2, 3}) run.rank(rank).state = RankState::kEnded;
  run.pass(15);
  expect_fault(explain(run.evidence()), Fault::kMismatch, {}, Confidence::kLow);
}

TEST(Waits, ARankWithoutARecordIsNamedWhereAllOthersCame) {
  EvidenceBuilder run = waiting_for_rank_2();
  run.rank(2) = {.rank = 2, .state = RankState::kMissing};
  run.pass(15);
  const Explanation found = explain(run.evidence());
  expect_fault(found, Fault::kAbsent, {2}, Confidence::kMedium);
  EXPECT_THAT(found.verdict.sentence, HasSubstr("rank 2 left no record"));
}

TEST(Waits, ARankOfWhichOnlyTheLauncherKnowsIsNotSaidToBeOutsideTheGroup) {
  EvidenceBuilder run = waiting_for_rank_2();
  run.rank(2) = {.rank = 2, .state = RankState::kRunning, .pid = 4002};
  run.pass(15);
  const Explanation found = explain(run.evidence());
  expect_fault(found, Fault::kAbsent, {2}, Confidence::kMedium);
  EXPECT_THAT(found.verdict.sentence, HasSubstr("rank 2 left no record"));
}

TEST(Waits, ARunThatWasEndedFromOutsideInTheMiddleBlamesNobody) {
  EvidenceBuilder run = waiting_for_rank_2();
  for (int rank = 0; rank < 4; ++rank) {
    run.rank(rank).state = RankState::kDied;
    run.rank(rank).signal = 15;
  }
  run.pass(3);
  EXPECT_THAT(explain(run.evidence()).verdict.culprits, IsEmpty());
  run.pass(600);  // but a long hang that was ended from outside is one
  expect_fault(explain(run.evidence()), Fault::kAbsent, {2}, Confidence::kHigh);
}

TEST(Waits, FilesThatWereWrittenOnceSayWhoDidNotCome) {
  EvidenceBuilder run = waiting_for_rank_2();
  Evidence evidence = run.evidence();
  for (Rank& rank : evidence.ranks) {
    rank.state = RankState::kUnknown;
    evidence.taken_ns = std::max(evidence.taken_ns, rank.last_ns);
  }
  expect_fault(explain(evidence), Fault::kAbsent, {2}, Confidence::kMedium);
  evidence.taken_ns += 1'000'000;  // read while they may still run
  EXPECT_EQ(explain(evidence).verdict.fault, Fault::kNone);
}

TEST(Waits, ARankWhoseRingWrappedIsPlacedByItsTables) {
  EvidenceBuilder run = waiting_for_rank_2();
  for (int rank = 0; rank < 4; ++rank) {
    run.rank(rank).lost = 100'000;
    auto& launches = run.group(rank).launches;
    launches.erase(launches.begin(), launches.end() - 1);
    launches.front().is_whole = false;
    launches.front().asked_ns = 0;
  }
  run.pass(15);
  expect_fault(explain(run.evidence()), Fault::kAbsent, {2}, Confidence::kHigh);
  // Not even the collective numbers: the table holds the number of started ones.
  Evidence evidence = run.evidence();
  for (Rank& rank : evidence.ranks) rank.groups[0].launches[0].collective_number = 0;
  expect_fault(explain(evidence), Fault::kAbsent, {2}, Confidence::kMedium);
}

TEST(Waits, ARankThatCannotBePlacedIsNotBlamed) {
  EvidenceBuilder run(4);
  run.everyone(all_reduce(64), 16);
  for (int rank = 0; rank < 4; ++rank) run.launch(rank, send(4, (rank + 1) % 4));
  for (const int rank : {0, 1, 3}) run.launch(rank, all_reduce(1024), Stage::kBegun);
  for (CollectiveCall& launch : run.group(2).launches) launch.collective_number = 0;
  run.rank(2).lost = 1000;
  run.pass(15);
  const Explanation found = explain(run.evidence());
  expect_fault(found, Fault::kUnknown, {}, Confidence::kLow);
  EXPECT_THAT(found.verdict.sentence, HasSubstr("rank 2 cannot be located"));
}

TEST(Waits, ARankThatCannotBeSeenIsBelievedLess) {
  EvidenceBuilder run = waiting_for_rank_2();
  for (int rank = 0; rank < 4; ++rank) run.rank(rank).state = RankState::kUnknown;
  run.pass(15);
  expect_fault(explain(run.evidence()), Fault::kAbsent, {2}, Confidence::kMedium);
}

TEST(Waits, ARankThatNeverJoinedIsNamed) {
  EvidenceBuilder run(4);
  run.rank(2).groups.clear();
  for (const int rank : {0, 1, 3}) run.launch(rank, all_reduce(8), Stage::kBegun);
  run.annotation(2, "load");
  run.pass(15);
  const Explanation found = explain(run.evidence());
  expect_fault(found, Fault::kAbsent, {2}, Confidence::kHigh);
  EXPECT_THAT(found.verdict.sentence, HasSubstr("it has not joined the group"));
}

TEST(Waits, ADifferenceExplainsThoseThatDidNotComeElsewhere) {
  EvidenceBuilder run(5);
  run.add_group("four", {0, 1, 2, 3});
  for (int rank = 0; rank < 4; ++rank) {
    run.fail(rank, all_reduce(rank == 2 ? 7 : 8), "mismatch", 0.01, "four");
    run.rank(rank).state = RankState::kFailed;
    run.rank(rank).reason = "mismatch: group four: operation 1: ranks differ";
  }
  run.launch(4, barrier(), Stage::kBegun);
  run.pass(15);
  expect_fault(explain(run.evidence()), Fault::kMismatch, {2}, Confidence::kHigh);
}

TEST(Waits, ARankThatOthersMetIsNotMissedThoughItsRecordDoesNotSaySo) {
  EvidenceBuilder run(4);
  run.everyone(all_reduce(64), 16);
  for (const int rank : {0, 1, 3}) run.launch(rank, all_reduce(1024), Stage::kMet);
  run.pass(15);
  EXPECT_THAT(explain(run.evidence()).verdict.culprits, IsEmpty());
}

TEST(Waits, WhoeverFailedByADifferenceDidNotWait) {
  EvidenceBuilder run(4);
  run.everyone(all_reduce(64), 16);
  for (const int rank : {0, 1, 3}) {
    run.fail(rank, all_reduce(1024), "mismatch", 2);
    run.rank(rank).state = RankState::kFailed;
    run.rank(rank).reason = "mismatch: group world: operation 17: ranks differ";
  }
  run.pass(5);
  const Explanation found = explain(run.evidence());
  expect_fault(found, Fault::kMismatch, {}, Confidence::kLow);
}

TEST(Waits, OneThatWasOnItsWayWhenAnotherDiedIsNotBlamed) {
  EvidenceBuilder run(4);
  run.everyone(all_reduce(64), 16);
  for (const int rank : {0, 1}) run.fail(rank, all_reduce(1024), "aborted", 1.5);
  run.rank(2).state = RankState::kDied;
  run.rank(2).signal = 9;
  run.pass(2);
  expect_fault(explain(run.evidence()), Fault::kDied, {2}, Confidence::kHigh);
}

TEST(Waits, ThoseThatFailedInAnotherGroupAreBelievedToBeDrawnAlong) {
  EvidenceBuilder run(5);
  run.add_group("pair", {0, 1});
  for (const int rank : {0, 1}) {
    run.fail(rank, all_reduce(8), "aborted", 0.01, "pair");
    run.rank(rank).state = RankState::kFailed;
    run.rank(rank).reason = "aborted: group pair: somebody is gone";
  }
  for (const int rank : {2, 3, 4}) run.launch(rank, barrier(), Stage::kBegun);
  run.pass(15);
  EXPECT_EQ(explain(run.evidence()).verdict.confidence, Confidence::kLow);
}

TEST(Waits, WhatAllCameToAndDoesNotEndBlamesNobody) {
  EvidenceBuilder run(4);
  for (int rank = 0; rank < 4; ++rank) run.launch(rank, all_reduce(8), Stage::kMet);
  run.pass(15);
  const Explanation found = explain(run.evidence());
  expect_fault(found, Fault::kSlow, {}, Confidence::kLow);
  EXPECT_THAT(found.verdict.sentence, HasSubstr("all ranks reached collective 1 of group world"));
  Evidence sooner = run.evidence();
  sooner.taken_ns -= 10'000'000'000;  // five seconds are not a fault: the transfer may be large
  EXPECT_EQ(explain(sooner).verdict.fault, Fault::kNone);
}

TEST(Waits, BeginningsThatARecorderDoesNotSeeAreTakenFromWhatWasAskedFor) {
  EvidenceBuilder run = waiting_for_rank_2();
  run.pass(31);
  Evidence evidence = run.evidence();
  for (Rank& rank : evidence.ranks) {
    for (CollectiveCall& launch : rank.groups[0].launches) {
      launch.begun_ns = launch.met_ns = 0;
      if (launch.stage == Stage::kBegun) launch.stage = Stage::kAsked;
    }
  }
  expect_fault(explain(evidence), Fault::kAbsent, {2}, Confidence::kHigh);
}

}  // namespace
}  // namespace tessera::analysis
