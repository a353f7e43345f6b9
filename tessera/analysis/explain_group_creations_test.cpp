// Groups that are never created, and ranks that left an operation running and are elsewhere: culprits, and cases
// without one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tessera/analysis/explain.h"
#include "tessera/analysis/testing/evidence_builder.h"

namespace tessera::analysis {
namespace {

using testing::all_reduce;
using testing::EvidenceBuilder;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::vector<int> kAll = {0, 1, 2, 3};

GroupCreation split_of_world(const EvidenceBuilder& run, std::uint64_t number, Stage stage = Stage::kBegun) {
  return {.what = "split " + std::to_string(number) + " of group world",
          .from = "world",
          .number = number,
          .ranks = kAll,
          .since_ns = run.now(),
          .stage = stage};
}
// All ranks but these wait in a split of the world.
EvidenceBuilder creation_without(const std::vector<int>& absent) {
  EvidenceBuilder run(4);
  run.everyone(all_reduce(64), 3);
  for (const int rank : kAll) {
    if (std::ranges::find(absent, rank) == absent.end()) run.rank(rank).creations.push_back(split_of_world(run, 1));
  }
  return run;
}

TEST(GroupCreations, ARankThatDoesNotComeIsNamed) {
  EvidenceBuilder run = creation_without({2});
  run.annotation(2, "load");
  run.pass(5);
  const Explanation found = explain(run.evidence());
  EXPECT_EQ(found.verdict.fault, Fault::kAbsent);
  EXPECT_EQ(found.verdict.culprits, std::vector<int>{2});
  EXPECT_EQ(found.verdict.group, "world");
  EXPECT_EQ(found.verdict.confidence, Confidence::kMedium) << "no deadline has passed";
  EXPECT_EQ(found.verdict.sentence,
            "rank 2 did not reach the creation of split 1 of group world: its host is in annotation load, for 5.0 s; 3 "
            "ranks wait for it");
}

TEST(GroupCreations, ADeadlineThatPassedIsSure) {
  EvidenceBuilder run = creation_without({2});
  for (const int rank : {0, 1, 3}) {
    run.rank(rank).creations.back().stage = Stage::kFailed;
    run.rank(rank).creations.back().failure = "timeout";
  }
  run.pass(0.6);
  const Explanation found = explain(run.evidence());
  EXPECT_EQ(found.verdict.culprits, std::vector<int>{2});
  EXPECT_EQ(found.verdict.confidence, Confidence::kHigh);
}

TEST(GroupCreations, AShortWaitIsNoFault) {
  EvidenceBuilder run = creation_without({2});
  run.pass(0.5);
  EXPECT_EQ(explain(run.evidence()).verdict.fault, Fault::kNone);
}

TEST(GroupCreations, WhoWaitsElsewhereIsNotBlamed) {
  EvidenceBuilder run = creation_without({2});
  run.add_group("pair", {2, 3});
  run.launch(2, all_reduce(8), Stage::kBegun, "pair");
  run.pass(5);
  const Explanation found = explain(run.evidence());
  EXPECT_THAT(found.verdict.culprits, ::testing::Not(::testing::Contains(2))) << found.verdict.sentence;
}

TEST(GroupCreations, WhoIsMakingAGroupIsNotBlamedInAnother) {
  // Rank 2 is stuck; 0 and 1 wait for it to create a group, and 3 waits for all in the world.
  EvidenceBuilder run = creation_without({2, 3});
  run.launch(3, all_reduce(8), Stage::kBegun);
  run.pass(5);
  const Explanation found = explain(run.evidence());
  EXPECT_EQ(found.verdict.culprits, std::vector<int>{2}) << found.verdict.sentence;
  for (const Verdict& other : found.others) EXPECT_THAT(other.culprits, IsEmpty()) << other.sentence;
}

TEST(GroupCreations, WhoIsPastItOrHasTheGroupCame) {
  EvidenceBuilder run = creation_without({2, 3});
  run.rank(2).creations.push_back(split_of_world(run, 2, Stage::kDone));
  run.rank(3).creations.push_back(split_of_world(run, 1, Stage::kDone));
  run.pass(5);
  EXPECT_EQ(explain(run.evidence()).verdict.fault, Fault::kNone);
  EvidenceBuilder other(4);
  other.add_group("low", {0, 1});
  other.rank(0).creations.push_back({.what = "group low", .ranks = {0, 1}, .since_ns = other.now()});
  other.pass(5);
  EXPECT_EQ(explain(other.evidence()).verdict.fault, Fault::kNone);
}

TEST(GroupCreations, WhoMayHaveForgottenIsNotBlamed) {
  EvidenceBuilder run = creation_without({2});
  run.pass(0.1);
  for (std::uint64_t i = 0; i < 8; ++i) {
    run.rank(2).creations.push_back(
        {.what = "group " + std::to_string(i), .ranks = {2, 3}, .since_ns = run.now(), .stage = Stage::kDone});
  }
  run.pass(5);
  EXPECT_EQ(explain(run.evidence()).verdict.fault, Fault::kNone);
}

TEST(GroupCreations, WhereMostDoNotComeNobodyIsBlamed) {
  EvidenceBuilder run = creation_without({1, 2, 3});
  run.pass(5);
  const Explanation found = explain(run.evidence());
  EXPECT_EQ(found.verdict.fault, Fault::kUnknown) << found.verdict.sentence;
  EXPECT_THAT(found.verdict.culprits, IsEmpty());
}

// Rank 1 left an operation of the pair running and is in host code; 0 waits for it in the world before it gets there.
EvidenceBuilder left_running() {
  EvidenceBuilder run(3);
  run.everyone(all_reduce(64), 3);
  run.add_group("pair", {0, 1});
  run.launch(1, all_reduce(8), Stage::kBegun, "pair");
  run.pass(0.01);
  for (const int rank : {0, 2}) run.launch(rank, all_reduce(64), Stage::kBegun);
  return run;
}

TEST(LeftRunning, AHostThatWentOnIsNotInACircle) {
  EvidenceBuilder run = left_running();
  run.annotation(1, "checkpoint");
  run.pass(5);
  const Explanation found = explain(run.evidence());
  EXPECT_EQ(found.verdict.fault, Fault::kAbsent) << found.verdict.sentence;
  EXPECT_EQ(found.verdict.culprits, std::vector<int>{1});
  EXPECT_THAT(found.verdict.sentence, HasSubstr("its host is in annotation checkpoint"));
  EXPECT_THAT(found.cycles, IsEmpty());
}

TEST(LeftRunning, WithoutAMarkSinceItIsACircle) {
  EvidenceBuilder run = left_running();
  run.rank(1).annotations.push_back(
      {.name = "step", .thread = "main", .since_ns = run.now() - EvidenceBuilder::kSecond});
  run.pass(5);
  EXPECT_EQ(explain(run.evidence()).verdict.fault, Fault::kCycle);
}

TEST(LeftRunning, WhoAskedForItIsHeldByItsStream) {
  EvidenceBuilder run = left_running();
  run.annotation(1, "step");
  run.launch(1, all_reduce(64), Stage::kAsked);
  run.pass(5);
  EXPECT_NE(explain(run.evidence()).verdict.fault, Fault::kAbsent);
}

TEST(LeftRunning, WhereAllWentOnItIsACircle) {
  EvidenceBuilder run = left_running();
  run.pass(0.01);
  for (const int rank : {0, 1, 2}) run.annotation(rank, "wait");
  run.pass(5);
  EXPECT_EQ(explain(run.evidence()).verdict.fault, Fault::kCycle);
}

TEST(Fewer, SaysHowManyAndWhichMayBeTheOne) {
  EvidenceBuilder run(4);
  run.everyone(all_reduce(64), 2);
  run.everyone(all_reduce(8), 3);
  for (const int rank : {0, 2, 3}) run.fail(rank, all_reduce(8), "aborted", 1);
  run.rank(1).state = RankState::kEnded;
  run.pass(2);
  EXPECT_THAT(
      explain(run.evidence()).verdict.sentence,
      HasSubstr(
          "it reached 5, the others 6; 3 to 6 are equal, and it may have skipped any of them; 3 ranks wait for it"));
}

// On a busy machine the others are late as well, and must not be blamed for it.
TEST(Innocent, WhoWasOnItsWayWhenOneEndedWithoutTheOthers) {
  EvidenceBuilder run(4);
  run.everyone(all_reduce(64), 3);
  for (const int rank : {0, 2}) run.fail(rank, all_reduce(8), "aborted", 1.2);
  run.rank(1).state = RankState::kEnded;
  run.pass(1.3);
  run.fail(3, all_reduce(8), "aborted", 0);
  const Explanation found = explain(run.evidence());
  EXPECT_EQ(found.verdict.culprits, std::vector<int>{1}) << found.verdict.sentence;
  EXPECT_THAT(found.others, IsEmpty()) << found.others.front().sentence;
}

TEST(Innocent, WhoDiffersInAMessageIsNotBlamedForWhatItDoesNotComeToAfterThat) {
  EvidenceBuilder run(4);
  run.everyone(all_reduce(64), 3);
  run.fail(1, testing::send(500, 2), "mismatch", 0);
  run.fail(2, testing::recv(600, 1), "mismatch", 0);
  for (const int rank : {0, 3}) run.launch(rank, all_reduce(8), Stage::kBegun);
  run.pass(5);
  const Explanation found = explain(run.evidence());
  EXPECT_EQ(found.verdict.fault, Fault::kMismatch) << found.verdict.sentence;
  EXPECT_THAT(found.verdict.culprits, IsEmpty());
  EXPECT_THAT(found.others, IsEmpty()) << found.others.front().sentence;
}

TEST(Innocent, ButAnotherRankThatIsStuckBesideADifferenceIs) {
  EvidenceBuilder run(6);
  run.add_group("low", {0, 1, 2});
  run.add_group("high", {3, 4, 5});
  run.fail(0, all_reduce(10), "mismatch", 0, "low");
  for (const int rank : {1, 2}) run.fail(rank, all_reduce(20), "mismatch", 0, "low");
  for (const int rank : {3, 4}) run.launch(rank, all_reduce(8), Stage::kBegun, "high");
  run.pass(5);
  const Explanation found = explain(run.evidence());
  EXPECT_EQ(found.verdict.culprits, std::vector<int>{0}) << found.verdict.sentence;
  ASSERT_EQ(found.others.size(), 1U);
  EXPECT_EQ(found.others[0].culprits, std::vector<int>{5});
}

}  // namespace
}  // namespace tessera::analysis
