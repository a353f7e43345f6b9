// Causes outside of the records of groups: errors that a program handled, signals from the launcher, a trainer that
// stopped the run, missing records, and signals of symmetric memory that never arrived.
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
using ::testing::Not;

void expect_fault(const Explanation& found, Fault fault, const std::vector<int>& culprits) {
  EXPECT_EQ(found.verdict.fault, fault) << found.verdict.sentence;
  EXPECT_EQ(found.verdict.culprits, culprits) << found.verdict.sentence;
  EXPECT_THAT(found.others, IsEmpty()) << found.others.front().sentence;
}

DeviceMemory refused(std::int64_t when_ns) {
  return {.device = "host",
          .live_nbytes = 1 << 20,
          .mapped_nbytes = 2 << 20,
          .refused_nbytes = 1 << 30,
          .refused_ns = when_ns};
}

TEST(Causes, AnOutOfMemoryErrorThatWasHandledIsNotBlamedForALaterExit) {
  EvidenceBuilder run(2);
  run.everyone(all_reduce(8), 3);
  run.rank(1).memory.push_back(refused(run.now()));
  run.pass(1);
  run.everyone(all_reduce(8), 3);
  run.rank(1).state = RankState::kFailed;
  run.rank(1).reason = "exited with 1";
  const Explanation found = explain(run.evidence());
  expect_fault(found, Fault::kFailed, {1});
  EXPECT_THAT(found.verdict.sentence, HasSubstr("exited with 1"));
}

TEST(Causes, AMarkThatWasOpenedSinceShowsThatTheErrorWasHandled) {
  EvidenceBuilder run(4);
  run.everyone(all_reduce(64), 16);
  run.rank(2).memory.push_back(refused(run.now()));
  run.pass(1);
  run.annotation(2, "data");
  for (const int rank : {0, 1, 3}) run.launch(rank, all_reduce(64), Stage::kBegun);
  run.pass(30);
  expect_fault(explain(run.evidence()), Fault::kAbsent, {2});
}

TEST(Causes, AnOutOfMemoryErrorBeforeABareExitIsAConclusion) {
  EvidenceBuilder run(2);
  run.everyone(all_reduce(8), 3);
  run.pass(1);
  run.rank(1).memory.push_back(refused(run.now()));
  run.rank(1).state = RankState::kFailed;
  run.rank(1).reason = "exited with 1";
  Explanation found = explain(run.evidence());
  expect_fault(found, Fault::kOutOfMemory, {1});
  EXPECT_EQ(found.verdict.confidence, Confidence::kMedium);
  run.rank(1).reason = "uncaught exception: out of memory: host";
  found = explain(run.evidence());
  expect_fault(found, Fault::kOutOfMemory, {1});
  EXPECT_EQ(found.verdict.confidence, Confidence::kHigh);
}

TEST(Causes, ALimitOfTheAddressSpaceIsNamed) {
  EvidenceBuilder run(2);
  run.everyone(all_reduce(8), 3);
  run.pass(1);
  run.rank(1).memory.push_back(refused(run.now()));
  run.rank(1).state = RankState::kFailed;
  run.rank(1).reason =
      "uncaught exception: out of memory: host: no room for 1 GiB (stream 1, default pool): the address space of the "
      "process is limited to 5 GiB (ulimit -v), 4 GiB in use";
  const Explanation found = explain(run.evidence());
  expect_fault(found, Fault::kOutOfMemory, {1});
  EXPECT_THAT(found.verdict.sentence, HasSubstr("limited to 5 GiB (ulimit -v)"));
  EXPECT_THAT(found.verdict.advice, HasSubstr("ulimit -v unlimited"));
}

// Rank 2 hangs in host code, the others time out, and the launcher kills rank 2, which ignores SIGTERM.
EvidenceBuilder hung_rank_2() {
  EvidenceBuilder run(4);
  run.everyone(all_reduce(64), 16);
  run.annotation(2, "data");
  for (const int rank : {0, 1, 3}) {
    run.fail(rank, all_reduce(1024), "timeout");
    run.rank(rank).state = RankState::kFailed;
    run.rank(rank).reason = "timeout: group world: operation 17: rank 2 did not come";
  }
  run.pass(9);
  return run;
}

TEST(Causes, AHungRankThatTheLauncherKilledIsExplainedAsBeforeItsEnd) {
  EvidenceBuilder run = hung_rank_2();
  const Verdict live = explain(run.evidence()).verdict;
  run.rank(2).state = RankState::kDied;
  run.rank(2).signal = 9;
  run.rank(2).reason = "was killed by signal 9 (Killed)";
  run.rank(2).ended_by = "it did not end within 3 s of SIGTERM (rank 0 exited with 1)";
  const Explanation found = explain(run.evidence());
  expect_fault(found, Fault::kAbsent, {2});
  EXPECT_EQ(found.verdict.sentence, live.sentence);
  EXPECT_EQ(found.verdict.confidence, live.confidence);
  EXPECT_THAT(found.verdict.advice, Not(HasSubstr("what killed")));
  EXPECT_THAT(to_text(run.evidence(), found), HasSubstr("rank 2: the launcher ended it: it did not end within 3 s"));
  run.rank(2).ended_by.clear();  // another process killed it
  expect_fault(explain(run.evidence()), Fault::kDied, {2});
}

TEST(Causes, ARankThatTheLauncherKilledInItsExitFailedByItself) {
  EvidenceBuilder run(2);
  run.everyone(all_reduce(8), 3);
  run.fail(1, all_reduce(8), "aborted", 0.2);
  for (const int rank : {0, 1}) {
    run.rank(rank).state = RankState::kFailed;
    run.rank(rank).reason = "exited with 1";
    run.rank(rank).signal = 9;
    run.rank(rank).ended_by = "it did not end within 3 s of SIGTERM";
  }
  expect_fault(explain(run.evidence()), Fault::kFailed, {0});
}

TEST(Causes, ARunThatTheLauncherWasToldToEndNamesTheSender) {
  EvidenceBuilder run(2);
  run.everyone(all_reduce(8), 3);
  for (const int rank : {0, 1}) {
    run.rank(rank).state = RankState::kDied;
    run.rank(rank).signal = 15;
    run.rank(rank).ended_by = "the launcher received SIGTERM from process 41 of user 1000";
  }
  const Explanation found = explain(run.evidence());
  EXPECT_THAT(found.verdict.culprits, IsEmpty());
  EXPECT_THAT(found.verdict.sentence, HasSubstr("process 41 of user 1000"));
}

TEST(Causes, ATrainerThatStoppedTheRunIsQuoted) {
  EvidenceBuilder run(2);
  run.everyone(all_reduce(8), 3);
  for (const int rank : {0, 1}) {
    run.rank(rank).state = RankState::kFailed;
    run.rank(rank).reason = "exited with 1";
  }
  Evidence evidence = run.evidence();
  evidence.stopped = "step 12: loss nan, gradient norm nan, not finite; parameters are those before the step";
  const Explanation found = explain(evidence);
  expect_fault(found, Fault::kFailed, {});
  EXPECT_EQ(found.verdict.confidence, Confidence::kHigh);
  EXPECT_THAT(found.verdict.sentence, HasSubstr("the trainer stopped the run: step 12: loss nan"));
  evidence.ranks[1].state = RankState::kDied;
  evidence.ranks[1].signal = 11;
  EXPECT_EQ(explain(evidence).verdict.culprits, std::vector<int>{1}) << "a crash next to it is reported";
}

TEST(Causes, ARankWhoseRecordIsMissingDiedAtAnUnknownPlace) {
  EvidenceBuilder run(2);
  run.everyone(all_reduce(8), 3);
  run.rank(1).state = RankState::kDied;
  run.rank(1).signal = 11;
  run.rank(1).groups.clear();
  run.rank(1).is_unread = true;
  Explanation found = explain(run.evidence());
  expect_fault(found, Fault::kDied, {1});
  EXPECT_THAT(found.verdict.sentence, HasSubstr("its record is missing or cannot be read"));
  EXPECT_THAT(found.verdict.sentence, Not(HasSubstr("joined a group")));
  run.rank(1).is_unread = false;
  EXPECT_THAT(explain(run.evidence()).verdict.sentence, HasSubstr("before it had joined a group"));
}

void wait_for_signal(EvidenceBuilder& run, int rank, int peer, Stage stage = Stage::kBegun) {
  CollectiveCall wait{
      .collective_number = 3, .operations = {{.kind = "wait_signal", .peer = peer, .channel = 1}}, .stage = stage};
  wait.asked_ns = wait.begun_ns = run.now();
  wait.label = "grads";
  run.group(rank).signals.push_back(wait);
}

TEST(Causes, ASignalThatAPeerNeverPutsIsNamed) {
  EvidenceBuilder run(4);
  run.everyone(all_reduce(64), 16);
  wait_for_signal(run, 0, 2);
  run.annotation(2, "data");
  for (const int rank : {1, 3}) run.launch(rank, all_reduce(64), Stage::kBegun);
  run.pass(31);
  const Explanation found = explain(run.evidence());
  EXPECT_EQ(found.verdict.fault, Fault::kAbsent);
  EXPECT_EQ(found.verdict.culprits, std::vector<int>{2}) << found.verdict.sentence;
  Evidence evidence = run.evidence();
  for (const int rank : {1, 3}) evidence.ranks[static_cast<std::size_t>(rank)].groups[0].launches.pop_back();
  const Explanation alone = explain(evidence);
  expect_fault(alone, Fault::kAbsent, {2});
  EXPECT_THAT(alone.verdict.sentence,
              HasSubstr("rank 0 waits for signal 3 on channel 1 of pool 'grads' (group world) from rank 2, for 31 s"));
  EXPECT_THAT(alone.verdict.sentence, HasSubstr("its host is in annotation data"));
  EXPECT_THAT(to_text(evidence, alone), HasSubstr("rank 0 waits for rank 2 in signal 3, wait_signal(from 2"));
}

TEST(Causes, ARankThatFailedForASignalIsNotBlamedAfterTheEnd) {
  EvidenceBuilder run(2);
  run.everyone(all_reduce(64), 16);
  wait_for_signal(run, 0, 1, Stage::kFailed);
  run.group(0).signals.back().failure = "timeout";
  run.annotation(1, "data");
  run.pass(31);
  run.rank(0).state = RankState::kFailed;
  run.rank(0).reason = "exited with 1 after: group world: grads, wait_signal(rank 1): signal 3 did not come within 1 s";
  run.rank(1).state = RankState::kDied;
  run.rank(1).signal = 15;
  run.rank(1).ended_by = "rank 0 exited with 1";
  expect_fault(explain(run.evidence()), Fault::kAbsent, {1});
}

TEST(Causes, ASignalWaitAndACollectiveCanMakeACircle) {
  EvidenceBuilder run(2);
  run.everyone(all_reduce(64), 16);
  wait_for_signal(run, 0, 1);
  run.launch(1, all_reduce(64), Stage::kBegun);
  run.pass(31);
  EXPECT_EQ(explain(run.evidence()).verdict.fault, Fault::kCycle);
}

}  // namespace
}  // namespace tessera::analysis
