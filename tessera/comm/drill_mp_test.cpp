// Each fault of the drill ends with the expected error on each surviving rank and leaves no process. Some faults are
// also run under the launcher.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tessera/comm/launch/launch.h"
#include "tessera/comm/store/descriptor.h"
#include "tessera/comm/testing/drill.h"

namespace tessera::comm {

void PrintTo(const CommDrillFault& fault, std::ostream* out) { *out << fault.name; }

namespace {

class Drill : public ::testing::TestWithParam<CommDrillFault> {};

TEST_P(Drill, EndsWithTheRightWordsAndNobodyLeft) {
  const DrillReport report = run_drill(GetParam());
  EXPECT_EQ(judge(GetParam(), report), "");
}

INSTANTIATE_TEST_SUITE_P(Faults, Drill, ::testing::ValuesIn(all_faults()),
                         [](const ::testing::TestParamInfo<CommDrillFault>& fault) {
                           return std::string(fault.param.name);
                         });

// The program that the launcher starts: this one, for this case only.
constexpr const char* kFaultName = "DRILL_FAULT";
TEST(DrillRank, DISABLED_OfALauncher) {
  const char* name = std::getenv(kFaultName);
  if (name == nullptr) GTEST_SKIP() << "started by the cases below";
  for (const CommDrillFault& fault : all_faults()) {
    if (fault.name == name) be_launched_rank(fault);
  }
}

class LaunchedDrill : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/dev/shm/tessera_drill_XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    base = name;
  }
  void TearDown() override { std::filesystem::remove_all(base); }

  LaunchReport run(const char* fault, OnFailure on_failure) {
    const detail::Descriptor out(::open("/dev/null", O_WRONLY | O_CLOEXEC));
    const detail::Descriptor err(::open((base + "/err").c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_APPEND, 0600));
    ::setenv(kFaultName, fault, 1);
    ::setenv("TESSERA_RECORD_DIR", base.c_str(), 1);
    LaunchReport report = launch({.command = {"/proc/self/exe", "--gtest_filter=DrillRank.DISABLED_OfALauncher",
                                              "--gtest_also_run_disabled_tests"},
                                  .ranks = kDrillRanks,
                                  .on_failure = on_failure,
                                  .run_dir = base + "/run",
                                  .out = out.get(),
                                  .err = err.get()});
    ::unsetenv(kFaultName);
    ::unsetenv("TESSERA_RECORD_DIR");
    std::stringstream text;
    text << std::ifstream(base + "/err").rdbuf();
    said = text.str();
    return report;
  }
  void expect_said(std::string_view words) const {
    EXPECT_NE(said.find(words), std::string::npos) << "\"" << words << "\" was not said:\n" << said;
  }

  std::string base;
  std::string said;
};

TEST_F(LaunchedDrill, ThoseThatAreKeptSayWhoDied) {
  const LaunchReport report = run("killed", OnFailure::kKeep);
  EXPECT_EQ(report.exit_code, 128 + SIGKILL);
  expect_said("[0] end aborted: group world: operation 2, all_reduce(f32[1000], sum): rank 1 died");
  expect_said("[2] end aborted: group world: operation 2, all_reduce(f32[1000], sum): rank 1 died");
  expect_said("tessera run: rank 1 was killed by signal 9");
}

TEST_F(LaunchedDrill, AStoppedRankIsMissedAndThenEnded) {
  const LaunchReport report = run("stopped", OnFailure::kKill);
  EXPECT_EQ(report.exit_code, 1);
  expect_said("end timeout: group world: operation 2, all_reduce(f32[1000], sum): rank 1 did not arrive within 1 s");
  for (const RankEnd& end : report.ends) EXPECT_FALSE(end.is_good()) << "rank " << end.rank;
}

}  // namespace
}  // namespace tessera::comm
