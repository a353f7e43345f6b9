// Ranks with different operations where they must match, as evidence: culprits and messages.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tessera/analysis/explain.h"
#include "tessera/analysis/testing/evidence_builder.h"

namespace tessera::analysis {
namespace {

using testing::all_gather;
using testing::all_reduce;
using testing::all_to_all;
using testing::barrier;
using testing::broadcast;
using ::testing::ElementsAre;
using testing::EvidenceBuilder;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::recv;
using testing::send;

// Ranks reach one collective with these operations, and each fails with "mismatch".
Explanation differing(const std::vector<RecordedOperation>& operations, const std::string& label = "") {
  EvidenceBuilder run(static_cast<int>(operations.size()));
  run.everyone(all_reduce(64), 16);
  for (std::size_t i = 0; i < operations.size(); ++i) {
    const int rank = static_cast<int>(i);
    run.fail(rank, operations[i], "mismatch", 0.01).label = label;
    run.rank(rank).state = RankState::kFailed;
    run.rank(rank).reason = "mismatch: group world: operation 17: ranks differ";
  }
  run.pass(1);
  return explain(run.evidence());
}

void expect_blamed(const Explanation& found, const std::vector<int>& culprits,
                   Confidence confidence = Confidence::kHigh) {
  EXPECT_EQ(found.verdict.fault, Fault::kMismatch) << found.verdict.sentence;
  EXPECT_EQ(found.verdict.culprits, culprits) << found.verdict.sentence;
  EXPECT_EQ(found.verdict.confidence, confidence) << found.verdict.sentence;
  EXPECT_EQ(found.verdict.group, "world");
  EXPECT_EQ(found.verdict.collective_number, 17U);
  EXPECT_THAT(found.others, IsEmpty());
}

TEST(Differences, AnotherSizeIsBlamedWithWhatWasAskedForAndWhere) {
  const Explanation found =
      differing({all_reduce(2048), all_reduce(2048), all_reduce(1024), all_reduce(2048)}, "mlp.fc1");
  expect_blamed(found, {2});
  EXPECT_EQ(found.verdict.sentence,
            "rank 2 enqueued all_reduce(f32[1024], sum) as collective 17 of group world, but ranks 0, 1 and 3 enqueued "
            "all_reduce(f32[2048], sum)");
  EXPECT_EQ(found.verdict.advice,
            "look at the code of rank 2 around label 'mlp.fc1': it enqueued all_reduce(f32[1024], sum), but ranks 0, 1 "
            "and 3 enqueued all_reduce(f32[2048], sum)");
  ASSERT_EQ(found.differences.size(), 1U);
  EXPECT_THAT(found.differences[0].sides[0].ranks, ElementsAre(0, 1, 3));
  EXPECT_THAT(found.differences[0].sides[1].ranks, ElementsAre(2));
}

TEST(Differences, AnotherDtypeReductionRootOrKindIsBlamed) {
  expect_blamed(differing({all_reduce(8), all_reduce(8, "sum", "bf16"), all_reduce(8), all_reduce(8)}), {1});
  expect_blamed(differing({all_reduce(8), all_reduce(8), all_reduce(8), all_reduce(8, "max")}), {3});
  expect_blamed(differing({broadcast(8), broadcast(8), broadcast(8, 1), broadcast(8)}), {2});
  expect_blamed(differing({all_reduce(8), all_reduce(8), all_gather(8), all_reduce(8)}), {2});
}

TEST(Differences, RankZeroIsBlamedLikeAnyOther) {
  expect_blamed(differing({all_reduce(1024), all_reduce(2048), all_reduce(2048), all_reduce(2048)}), {0});
}

TEST(Differences, OtherPartsAreBlamedAndUnevenCountsAreNot) {
  expect_blamed(differing({all_gather(0, 77), all_gather(0, 78), all_gather(0, 77), all_gather(0, 77)}), {1});
  // Counts may differ between ranks, and the sizes are equal.
  EvidenceBuilder run(4);
  for (int rank = 0; rank < 4; ++rank) run.launch(rank, all_gather(10 + rank, 77));
  for (int rank = 0; rank < 4; ++rank) run.launch(rank, all_to_all(10 * rank, static_cast<std::uint32_t>(100 + rank)));
  run.end_all();
  const Explanation found = explain(run.evidence());
  EXPECT_EQ(found.verdict.fault, Fault::kNone) << found.verdict.sentence;
  EXPECT_THAT(found.differences, IsEmpty());
}

TEST(Differences, UnevenPartsOnOneRankAloneAreBlamed) {
  expect_blamed(differing({all_to_all(8), all_to_all(8), all_to_all(8, 5), all_to_all(8)}), {2});
}

TEST(Differences, SeveralThatDifferAreAllBlamed) {
  const Explanation found =
      differing({all_reduce(1), all_reduce(8), all_reduce(8), all_reduce(8), all_reduce(8), all_reduce(1)});
  expect_blamed(found, {0, 5});
}

TEST(Differences, ATieBlamesNobodyAndNamesBothSides) {
  const Explanation found = differing({all_reduce(8), all_reduce(9), all_reduce(8), all_reduce(9)});
  expect_blamed(found, {}, Confidence::kLow);
  EXPECT_THAT(found.verdict.sentence, HasSubstr("ranks 0 and 2 enqueued all_reduce(f32[8], sum)"));
  EXPECT_THAT(found.verdict.sentence, HasSubstr("ranks 1 and 3 enqueued all_reduce(f32[9], sum)"));
}

TEST(Differences, MostThatAreNoMajorityAreBelievedLess) {
  expect_blamed(differing({all_reduce(8), all_reduce(8), all_reduce(9), all_reduce(10)}), {2, 3}, Confidence::kMedium);
}

TEST(Differences, BatchesAreComparedOperationByOperation) {
  EvidenceBuilder run(3);
  for (int rank = 0; rank < 3; ++rank) {
    run.launch_all(rank, {all_reduce(8), rank == 1 ? all_reduce(5) : all_reduce(4)}, Stage::kBegun);
  }
  run.pass(3);
  const Explanation found = explain(run.evidence());
  EXPECT_EQ(found.verdict.fault, Fault::kMismatch);
  EXPECT_THAT(found.verdict.culprits, ElementsAre(1));
}

TEST(Differences, WhatIsNotKnownOfARankIsNotHeldAgainstIt) {
  EvidenceBuilder run(4);
  for (int rank = 0; rank < 4; ++rank) {
    CollectiveCall& launch = run.launch_all(rank, {all_gather(3, 77), all_gather(4, 78)});
    if (rank != 2) continue;  // only the table: the first operation, without its sizes
    launch.operations = {all_gather(3)};
    launch.is_whole = false;
  }
  for (int rank = 0; rank < 4; ++rank) run.launch(rank, all_reduce(8, rank == 1 ? "" : "sum", rank == 1 ? "" : "f32"));
  run.end_all();
  const Explanation found = explain(run.evidence());
  EXPECT_EQ(found.verdict.fault, Fault::kNone) << found.verdict.sentence;
}

// All ranks run these operations; rank 2 runs its own. They continue until they differ, and hang there.
Explanation in_order(const std::vector<RecordedOperation>& theirs, const std::vector<RecordedOperation>& own,
                     std::size_t begun) {
  EvidenceBuilder run(4);
  run.everyone(all_reduce(64), 16);
  for (int rank = 0; rank < 4; ++rank) {
    const std::vector<RecordedOperation>& mine = rank == 2 ? own : theirs;
    for (std::size_t i = 0; i < mine.size(); ++i) {
      run.launch(rank, mine[i], i < begun ? Stage::kBegun : Stage::kAsked);
    }
  }
  run.pass(20);
  return explain(run.evidence());
}

TEST(Differences, ARankThatSkippedOneIsToldByWhatItDoesNext) {
  const Explanation found = in_order({all_reduce(10), broadcast(20), all_gather(30), barrier()},
                                     {broadcast(20), all_gather(30), barrier()}, 1);
  expect_blamed(found, {2});
  EXPECT_THAT(found.verdict.sentence,
              HasSubstr("rank 2 skipped collective 17 of group world, all_reduce(f32[10], sum)"));
  EXPECT_THAT(found.verdict.advice, HasSubstr("a path that skips all_reduce(f32[10], sum)"));
}

TEST(Differences, ARankThatDidOneMoreIsToldByWhatItDoesNext) {
  const Explanation found = in_order({all_reduce(10), broadcast(20), all_gather(30)},
                                     {barrier(), all_reduce(10), broadcast(20), all_gather(30)}, 1);
  expect_blamed(found, {2});
  EXPECT_THAT(found.verdict.sentence,
              HasSubstr("rank 2 ran one collective more than ranks 0, 1 and 3: barrier as collective 17"));
}

TEST(Differences, ARankThatSwappedTwoIsToldSo) {
  const Explanation found =
      in_order({all_reduce(10), broadcast(20), all_gather(30)}, {broadcast(20), all_reduce(10), all_gather(30)}, 1);
  expect_blamed(found, {2});
  EXPECT_THAT(found.verdict.sentence, HasSubstr("rank 2 ran collectives 17 and 18 of group world in reverse order"));
}

TEST(Differences, AnotherOperationWithoutAShiftIsNoSkip) {
  const Explanation found =
      in_order({all_reduce(10), broadcast(20), all_gather(30)}, {all_reduce(11), broadcast(20), all_gather(30)}, 1);
  expect_blamed(found, {2});
  EXPECT_THAT(found.verdict.sentence, HasSubstr("rank 2 enqueued all_reduce(f32[11], sum) as collective 17"));
  EXPECT_THAT(found.verdict.sentence, Not(HasSubstr("skip")));
}

TEST(Differences, ASkipIsGuessedFromTheLoopWhereNothingIsAskedAhead) {
  EvidenceBuilder run(4);
  for (int step = 0; step < 5; ++step) {
    run.everyone(all_reduce(10));
    run.everyone(broadcast(20));
    run.everyone(barrier());
  }
  for (int rank = 0; rank < 4; ++rank) run.launch(rank, rank == 2 ? broadcast(20) : all_reduce(10), Stage::kBegun);
  run.pass(20);
  const Explanation found = explain(run.evidence());
  EXPECT_THAT(found.verdict.culprits, ElementsAre(2));
  EXPECT_THAT(found.verdict.sentence, HasSubstr("it probably skipped that collective"));
}

TEST(Differences, TheFirstDifferenceOfAGroupCounts) {
  EvidenceBuilder run(3);
  for (int i = 0; i < 4; ++i) {
    for (int rank = 0; rank < 3; ++rank)
      run.launch(rank, all_reduce(rank == 1 && i == 1 ? 5 : 8 + (rank == 2 && i == 3 ? 1 : 0)));
  }
  const Explanation found = explain(run.evidence());
  EXPECT_THAT(found.verdict.culprits, ElementsAre(1));
  EXPECT_EQ(found.verdict.collective_number, 2U);
  EXPECT_EQ(found.differences.size(), 2U);
}

TEST(Differences, AMessageWhoseEndsDifferBlamesTheOddOneByThoseBefore) {
  EvidenceBuilder run(2);
  for (int i = 0; i < 3; ++i) {
    run.launch(0, send(10, 1));
    run.launch(1, recv(10, 0));
  }
  run.launch(0, send(12, 1), Stage::kBegun);
  run.launch(1, recv(10, 0), Stage::kBegun);
  run.pass(5);
  const Explanation found = explain(run.evidence());
  EXPECT_EQ(found.verdict.fault, Fault::kMismatch);
  EXPECT_THAT(found.verdict.culprits, ElementsAre(0));
  EXPECT_EQ(found.verdict.confidence, Confidence::kMedium);
  EXPECT_THAT(found.verdict.sentence, HasSubstr("point-to-point operation 4 of group world from rank 0 to rank 1 "
                                                "differs: rank 0 sent f32[12], rank 1 expected f32[10]"));
}

TEST(Differences, AFirstMessageWhoseEndsDifferBlamesNobody) {
  EvidenceBuilder run(2);
  run.launch(0, send(12, 1), Stage::kBegun);
  run.launch(1, recv(10, 0), Stage::kBegun);
  run.pass(5);
  const Explanation found = explain(run.evidence());
  EXPECT_EQ(found.verdict.fault, Fault::kMismatch);
  EXPECT_THAT(found.verdict.culprits, IsEmpty());
  EXPECT_EQ(found.verdict.confidence, Confidence::kLow);
}

TEST(Differences, PipelineTrafficWithUnevenCountsIsNotBlamed) {
  EvidenceBuilder run(4);
  for (int step = 0; step < 3; ++step) {
    for (int micro = 0; micro < 4; ++micro) {
      for (int stage = 0; stage < 3; ++stage) {
        run.launch(stage, send(100 + stage, stage + 1));
        run.launch(stage + 1, recv(100 + stage, stage));
      }
    }
    run.launch_all(1, {send(5, 2), recv(6, 0)});  // batches, composed differently on each rank
    run.launch(2, recv(5, 1));
    run.launch(0, send(6, 1));
    run.everyone(all_reduce(8));
  }
  run.end_all();
  const Explanation found = explain(run.evidence());
  EXPECT_EQ(found.verdict.fault, Fault::kNone) << found.verdict.sentence;
  EXPECT_EQ(found.verdict.confidence, Confidence::kHigh);
  EXPECT_THAT(found.differences, IsEmpty());
}

TEST(Differences, ASubgroupIsComparedAmongItsOwnRanks) {
  EvidenceBuilder run(8);
  run.add_group("left", {0, 1, 2, 3});
  run.add_group("right", {4, 5, 6, 7});
  for (int rank = 0; rank < 4; ++rank) run.launch(rank, all_reduce(8), Stage::kDone, "left");
  for (int rank = 4; rank < 8; ++rank) run.launch(rank, all_reduce(rank == 6 ? 7 : 9), Stage::kBegun, "right");
  run.pass(5);
  const Explanation found = explain(run.evidence());
  EXPECT_THAT(found.verdict.culprits, ElementsAre(6));
  EXPECT_EQ(found.verdict.group, "right");
}

TEST(Differences, GroupsOfOneNameAndOtherRanksAreNotCompared) {
  EvidenceBuilder run(4);
  run.add_group("tensor", {0, 1});
  run.add_group("tensor", {2, 3});
  for (int rank = 0; rank < 4; ++rank) run.launch(rank, all_reduce(rank < 2 ? 8 : 9), Stage::kDone, "tensor");
  run.end_all();
  EXPECT_EQ(explain(run.evidence()).verdict.fault, Fault::kNone);
}

TEST(Differences, TwoFaultsAtOnceAreBothTold) {
  EvidenceBuilder run(8);
  run.add_group("left", {0, 1, 2, 3});
  run.add_group("right", {4, 5, 6, 7});
  for (int rank = 0; rank < 4; ++rank) run.launch(rank, all_reduce(rank == 1 ? 7 : 8), Stage::kBegun, "left");
  for (int rank = 4; rank < 8; ++rank) {
    if (rank != 6) run.launch(rank, all_reduce(9), Stage::kBegun, "right");
  }
  run.rank(6).state = RankState::kDied;
  run.rank(6).signal = 11;
  run.pass(5);
  const Explanation found = explain(run.evidence());
  ASSERT_EQ(found.others.size(), 1U);
  std::vector<int> blamed = found.verdict.culprits;
  blamed.insert(blamed.end(), found.others[0].culprits.begin(), found.others[0].culprits.end());
  EXPECT_THAT(blamed, ::testing::UnorderedElementsAre(1, 6));
}

}  // namespace
}  // namespace tessera::analysis
