// The fate of ranks after the terminal of their launcher closes, or the reader of its output is gone.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <nlohmann/json.hpp>

#include "tessera/comm/launch/launch.h"
#include "tessera/comm/store/descriptor.h"

namespace tessera::comm {
namespace {

using namespace std::chrono_literals;

class Hangup : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/tessera_hangup_XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    base = name;
    int ends[2];
    ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    reader.reset(ends[0]);
    writer.reset(ends[1]);
  }
  void TearDown() override { std::filesystem::remove_all(base); }

  LaunchOptions script(const std::string& text) const {
    LaunchOptions options;
    options.command = {"sh", "-c", "cd $TESSERA_RUN_DIR; " + text};
    options.run_dir = base + "/run";
    options.out = writer.get();
    options.err = writer.get();
    return options;
  }
  // Runs the launcher in a separate process with this disposition of SIGHUP. Its output is read only here.
  pid_t start(const LaunchOptions& options, void (*hangup)(int)) {
    const pid_t launcher = ::fork();
    if (launcher == 0) {
      reader.reset();
      ::signal(SIGHUP, hangup);
      ::_exit(launch(options).exit_code);
    }
    writer.reset();
    return launcher;
  }
  void wait_for(const std::string& file) const {
    while (!std::filesystem::exists(base + "/run/" + file)) std::this_thread::sleep_for(1ms);
  }
  void make(const std::string& file) const { std::ofstream(base + "/run/" + file) << ""; }
  nlohmann::json record() const {
    std::stringstream text;
    text << std::ifstream(base + "/run/launch.json").rdbuf();
    return nlohmann::json::parse(text.str());
  }
  static int end_of(pid_t launcher) {
    int status = 0;
    EXPECT_EQ(::waitpid(launcher, &status, 0), launcher);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  std::string base;
  detail::Descriptor reader;
  detail::Descriptor writer;
};

TEST_F(Hangup, ThatIsIgnoredIsIgnoredByTheRanksAndLeavesRestarts) {
  LaunchOptions options = script(
      "test -e again && exit 0; touch again; kill -HUP $$; touch up; until test -e go; do sleep 0.01; done; exit 7");
  options.restarts = 1;
  const pid_t launcher = start(options, SIG_IGN);
  wait_for("up");
  ::kill(launcher, SIGHUP);
  ::kill(launcher, SIGHUP);
  make("go");
  EXPECT_EQ(end_of(launcher), 0);
  ASSERT_EQ(record().at("starts").size(), 2U);
  EXPECT_EQ(record().at("starts").at(0).at("ranks").at(0).at("exit_code"), 7) << record();
}

// The kernel sends one SIGHUP to the jobs of a terminal that closes, and a shell sends another.
TEST_F(Hangup, ASecondOneDoesNotKillRanksThatAreStopping) {
  const pid_t launcher = start(script("trap 'touch hup' HUP; trap 'touch usr1' USR1; touch up; "
                                      "until test -e go; do sleep 0.01; done; exit 0"),
                               SIG_DFL);
  wait_for("up");
  ::kill(launcher, SIGHUP);
  wait_for("hup");
  ::kill(launcher, SIGHUP);
  ::kill(launcher, SIGUSR1);  // received after the other, which has a smaller number
  wait_for("usr1");
  make("go");
  EXPECT_EQ(end_of(launcher), 0) << record();
}

TEST_F(Hangup, WithoutAReaderRanksThatPrintNothingAreStoppedToo) {
  const pid_t launcher =
      start(script("trap 'touch term; exit 0' TERM; touch up; while :; do sleep 0.01; done"), SIG_DFL);
  wait_for("up");
  reader.reset();
  EXPECT_EQ(end_of(launcher), 128 + SIGPIPE);
  EXPECT_TRUE(std::filesystem::exists(base + "/run/term"));
  const nlohmann::json rank = record().at("starts").at(0).at("ranks").at(0);
  EXPECT_EQ(rank.at("signals").at(0).at("reason"), "output_closed") << rank;
}

TEST_F(Hangup, WithoutAReaderRanksThatDoNotStopAreKilled) {
  LaunchOptions options = script("trap '' TERM; touch up; while :; do sleep 0.01; done");
  options.grace = 1ms;
  const pid_t launcher = start(options, SIG_DFL);
  wait_for("up");
  reader.reset();
  EXPECT_EQ(end_of(launcher), 128 + SIGPIPE);
  const nlohmann::json rank = record().at("starts").at(0).at("ranks").at(0);
  EXPECT_EQ(rank.at("signals").at(1).at("reason"), "grace_expired") << rank;
}

// A closed terminal may be noticed before its SIGHUP arrives. HUP alone gives ranks unlimited time.
TEST_F(Hangup, ThatComesAfterTheReaderLeftTakesBackTheKill) {
  LaunchOptions options = script(
      "trap 'kill -HUP $PPID' TERM; trap 'touch hup' HUP; touch up; until test -e hup; do sleep 0.01; done; sleep 1.2; "
      "exit 0");
  options.grace = 50ms;  // killed after 1 s
  const pid_t launcher = start(options, SIG_DFL);
  wait_for("up");
  reader.reset();
  EXPECT_EQ(end_of(launcher), 128 + SIGPIPE);
  const nlohmann::json rank = record().at("starts").at(0).at("ranks").at(0);
  EXPECT_EQ(rank.at("exit_code"), 0) << rank;
  EXPECT_EQ(rank.at("signal"), 0) << rank;
}

TEST_F(Hangup, WithoutAReaderARunThatIgnoresHangupsGoesOn) {
  const pid_t launcher = start(script("touch up; until test -e go; do echo line; sleep 0.01; done; exit 3"), SIG_IGN);
  wait_for("up");
  reader.reset();
  make("go");
  EXPECT_EQ(end_of(launcher), 3);
  EXPECT_FALSE(record().at("starts").at(0).at("ranks").at(0).contains("signals")) << record();
}

}  // namespace
}  // namespace tessera::comm
