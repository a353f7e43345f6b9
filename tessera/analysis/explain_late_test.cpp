// Late ranks and clock differences, as evidence.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tessera/analysis/explain.h"
#include "tessera/analysis/testing/evidence_builder.h"

namespace tessera::analysis {
namespace {

using testing::all_reduce;
using testing::EvidenceBuilder;
using ::testing::IsEmpty;

void expect_fault(const Explanation& found, Fault fault, const std::vector<int>& culprits, Confidence confidence) {
  EXPECT_EQ(found.verdict.fault, fault) << found.verdict.sentence;
  EXPECT_EQ(found.verdict.culprits, culprits) << found.verdict.sentence;
  EXPECT_EQ(found.verdict.confidence, confidence) << found.verdict.sentence;
  EXPECT_THAT(found.others, IsEmpty()) << found.others.front().sentence;
}

// All but rank 2 wait in collective 17.
EvidenceBuilder waiting_for_rank_2() {
  EvidenceBuilder run(4);
  run.everyone(all_reduce(64), 16);
  for (const int rank : {0, 1, 3}) run.launch(rank, all_reduce(1024), Stage::kBegun);
  return run;
}

TEST(Late, ClocksThatDifferDoNotHideOrMakeAWait) {
  for (const double ahead : {-3600.0, 3600.0}) {
    EvidenceBuilder run = waiting_for_rank_2();
    run.pass(31);
    Evidence evidence = run.evidence();
    // The clock of rank 1 is an hour off.
    for (CollectiveCall& launch : evidence.ranks[1].groups[0].launches) {
      for (std::int64_t* time : {&launch.asked_ns, &launch.begun_ns, &launch.met_ns, &launch.ended_ns}) {
        if (*time != 0) *time += static_cast<std::int64_t>(ahead * 1e9);
      }
    }
    const Explanation found = explain(evidence);
    expect_fault(found, Fault::kAbsent, {2}, Confidence::kHigh);
    EXPECT_THAT(found.stragglers, IsEmpty());
    evidence.taken_ns -= 31'000'000'000;  // shortly after they arrived
    EXPECT_EQ(explain(evidence).verdict.fault, Fault::kNone);
  }
}

// Rank 1 arrives 40 ms late at each of ten collectives, one every 100 ms.
EvidenceBuilder with_a_late_rank(std::int64_t clock_ahead = 0) {
  EvidenceBuilder run(4);
  for (int i = 0; i < 10; ++i) {
    for (int rank = 0; rank < 4; ++rank) {
      CollectiveCall& launch = run.launch(rank, all_reduce(8));
      launch.begun_ns = run.now() + (rank == 1 ? 40'000'000 : 1'000'000 * rank);
      launch.met_ns = run.now() + 41'000'000;
      launch.ended_ns = run.now() + 42'000'000;
      for (std::int64_t* time : {&launch.asked_ns, &launch.begun_ns, &launch.met_ns, &launch.ended_ns}) {
        if (rank == 1) *time += clock_ahead;
      }
    }
    run.pass(0.1);
  }
  return run;
}

TEST(Late, ARankThatIsAlwaysLateIsNamedThoughAllEnded) {
  for (const std::int64_t ahead : {0LL, -7'000'000'000LL, 5'000'000LL}) {
    EvidenceBuilder run = with_a_late_rank(ahead);
    run.end_all();
    const Explanation found = explain(run.evidence());
    expect_fault(found, Fault::kSlow, {1}, Confidence::kMedium);
    ASSERT_EQ(found.stragglers.size(), 1U);
    EXPECT_EQ(found.stragglers[0].rank, 1);
    EXPECT_EQ(found.stragglers[0].collectives, 10U);
    EXPECT_EQ(found.stragglers[0].last_to_come, 10U);
    EXPECT_NEAR(found.stragglers[0].late_ms, 38, 1.1);
  }
}

TEST(Late, ARankThatIsLateByLittleIsNoFault) {
  EvidenceBuilder run = with_a_late_rank();
  for (int rank = 0; rank < 4; ++rank) {
    std::int64_t shift = 0;
    for (CollectiveCall& launch : run.group(rank).launches) {  // the same delay, one in ten seconds
      for (std::int64_t* time : {&launch.asked_ns, &launch.begun_ns, &launch.met_ns, &launch.ended_ns}) *time += shift;
      shift += 10'000'000'000;
    }
  }
  run.pass(100);
  run.end_all();
  const Explanation found = explain(run.evidence());
  expect_fault(found, Fault::kNone, {}, Confidence::kHigh);
  EXPECT_EQ(found.stragglers.size(), 1U);
}

}  // namespace
}  // namespace tessera::analysis
