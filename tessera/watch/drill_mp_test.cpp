// Some faults of the drill, one of each kind: the flight recorder names the fault and blames no other rank. The
// complete table takes minutes: it is a campaign, and the measurement bench_drill.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <ostream>

#include "tessera/analysis/read_run.h"
#include "tessera/analysis/torch_pickles.h"
#include "tessera/watch/testing/drill.h"

namespace tessera::watch {
namespace {

using analysis::Fault;

struct Case {
  const char* fault;
  DrillForm form;
};
void PrintTo(const Case& one, std::ostream* out) { *out << one.fault << ", " << to_string(one.form); }

class DrillOf : public ::testing::TestWithParam<Case> {};

TEST_P(DrillOf, FindsTheCulpritAndNobodyElse) {
  for (const DrillFault& fault : all_drill_faults()) {
    if (fault.name != GetParam().fault) continue;
    const Drilled drilled = run_drill(fault, GetParam().form);
    EXPECT_EQ(drilled.wrong, "") << drilled.said;
    EXPECT_EQ(drilled.innocents, 0);
    EXPECT_FALSE(drilled.has_changed) << drilled.said;
    EXPECT_EQ(drilled.files, fault.ranks);
    EXPECT_EQ(drilled.readable, drilled.files) << drilled.said;
    return;
  }
  FAIL() << "no fault of this name";
}

INSTANTIATE_TEST_SUITE_P(
    Faults, DrillOf,
    ::testing::Values(Case{"skip by rank 0", DrillForm::kProcesses}, Case{"skip by rank 0", DrillForm::kThreads},
                      Case{"other size in a subgroup", DrillForm::kThreads}, Case{"killed", DrillForm::kProcesses},
                      Case{"a signal does not come", DrillForm::kProcesses},
                      Case{"stuck before a subgroup", DrillForm::kProcesses}, Case{"stopped", DrillForm::kProcesses},
                      Case{"data loader stuck", DrillForm::kProcesses}, Case{"circle of receives", DrillForm::kThreads},
                      Case{"out of memory", DrillForm::kThreads}, Case{"no fault", DrillForm::kProcesses},
                      Case{"uneven traffic of a pipeline", DrillForm::kThreads}));

TEST(Drill, HasFortyFaultsOnFourToEightRanks) {
  const std::vector<DrillFault> faults = all_drill_faults();
  EXPECT_GE(faults.size(), 40U);
  for (const DrillFault& fault : faults) {
    EXPECT_GE(fault.ranks, 4) << fault.name;
    EXPECT_LE(fault.ranks, 8) << fault.name;
  }
}

// For tools/check_torch_analyzer.py: writes two runs as dumps of the PyTorch flight recorder into this directory.
TEST(Drill, DISABLED_LeavesDumpsForAnalyzers) {
  const char* directory = std::getenv("TESSERA_TEST_DUMPS");
  if (directory == nullptr) GTEST_SKIP() << "TESSERA_TEST_DUMPS names no directory";
  for (const DrillFault& fault : all_drill_faults()) {
    if (fault.name != "other size" && fault.name != "no fault" && fault.name != "other dtype") continue;
    const std::string folder = std::string(directory) + "/" + fault.name;
    const Drilled drilled = run_drill(fault, DrillForm::kProcesses, 1, [&](const std::string& run_dir) {
      std::filesystem::create_directories(folder);
      (void)analysis::write_torch_pickles(analysis::read_run(run_dir), folder);
    });
    EXPECT_EQ(drilled.wrong, "") << drilled.said;
  }
}

TEST(Drill, DISABLED_WholeTable) {
  const DrillTally tally = run_drills(all_drill_faults(), [](const Drilled& drilled) {
    if (!drilled.wrong.empty()) std::printf("%s: %s\n", drilled.name.c_str(), drilled.wrong.c_str());
    if (drilled.has_changed) std::printf("%s: %s\n", drilled.name.c_str(), drilled.said.c_str());
  });
  EXPECT_GE(tally.right * 100, tally.drills * 95) << tally.right << " of " << tally.drills << " are right";
  EXPECT_EQ(tally.innocents, 0);
  EXPECT_EQ(tally.changed, 0);
  EXPECT_EQ(tally.readable, tally.files);
}

analysis::Verdict verdict(Fault fault, std::vector<int> culprits) {
  return {.fault = fault, .culprits = std::move(culprits), .sentence = "words"};
}
std::string wrong(const std::vector<Expected>& expected, std::vector<analysis::Verdict> verdicts, int innocents) {
  Drilled drilled{.verdicts = std::move(verdicts)};
  judge(expected, drilled);
  EXPECT_EQ(drilled.innocents, innocents);
  return drilled.wrong;
}

TEST(Drill, IsJudgedByKindCulpritsAndWords) {
  const Expected expected{.faults = {Fault::kAbsent}, .culprits = {1}, .words = {"words"}};
  EXPECT_EQ(wrong({expected}, {verdict(Fault::kAbsent, {1})}, 0), "");
  EXPECT_NE(wrong({expected}, {verdict(Fault::kDied, {1})}, 0), "");
  EXPECT_NE(wrong({expected}, {verdict(Fault::kAbsent, {1, 2})}, 1), "");
  EXPECT_NE(wrong({expected}, {verdict(Fault::kAbsent, {})}, 0), "");
  EXPECT_NE(wrong({expected}, {verdict(Fault::kAbsent, {1}), verdict(Fault::kDied, {3})}, 1), "");
  EXPECT_NE(wrong({expected}, {}, 0), "");
  EXPECT_NE(
      wrong({{.faults = {Fault::kAbsent}, .culprits = {1}, .words = {"others"}}}, {verdict(Fault::kAbsent, {1})}, 0),
      "");
}

TEST(Drill, OfTwoFaultsBothMustBeFoundAndOfNoneNone) {
  const Expected first{.faults = {Fault::kDied}, .culprits = {1}};
  const Expected second{.faults = {Fault::kAbsent}, .culprits = {2}};
  EXPECT_EQ(wrong({first, second}, {verdict(Fault::kAbsent, {2}), verdict(Fault::kDied, {1})}, 0), "");
  EXPECT_NE(wrong({first, second}, {verdict(Fault::kDied, {1})}, 0), "");
  EXPECT_EQ(wrong({}, {verdict(Fault::kNone, {})}, 0), "");
  EXPECT_NE(wrong({}, {verdict(Fault::kUnknown, {})}, 0), "");
}

}  // namespace
}  // namespace tessera::watch
