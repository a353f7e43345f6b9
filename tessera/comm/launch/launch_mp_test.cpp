// The launcher: places, ends, stops, restarts, signals, what it leaves behind. Ranks are small shell scripts.
#include "tessera/comm/launch/launch.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>
#include <nlohmann/json.hpp>

#include "tessera/base/error.h"
#include "tessera/base/testing/expect_error.h"
#include "tessera/comm/store/detail/descriptor.h"
#include "tessera/comm/store/tcp_store_server.h"

namespace tessera::comm {
namespace {

using namespace std::chrono_literals;

class Launch : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/tessera_launch_XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    base = name;
    out.reset(::open((base + "/out").c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_APPEND, 0600));
    err.reset(::open((base + "/err").c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_APPEND, 0600));
  }
  void TearDown() override { std::filesystem::remove_all(base); }

  LaunchOptions script(int ranks, const std::string& text) {
    LaunchOptions options;
    options.command = {"sh", "-c", text};
    options.ranks = ranks;
    options.run_dir = base + "/run";
    options.out = out.get();
    options.err = err.get();
    return options;
  }
  static std::string content(const std::string& path) {
    std::stringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }
  std::string said() const { return content(base + "/err"); }
  std::vector<std::string> printed() const {
    std::vector<std::string> lines;
    std::istringstream text(content(base + "/out"));
    for (std::string line; std::getline(text, line);) lines.push_back(line);
    std::sort(lines.begin(), lines.end());
    return lines;
  }
  nlohmann::json record() const { return nlohmann::json::parse(content(base + "/run/launch.json")); }
  // Returns once a file is there, and what it holds.
  static std::string wait_for(const std::string& path) {
    while (!std::filesystem::exists(path)) std::this_thread::sleep_for(1ms);
    return content(path);
  }
  // Runs the launcher in a process of its own, as who signals or kills it must.
  static pid_t start(const LaunchOptions& options) {
    const pid_t launcher = ::fork();
    if (launcher == 0) ::_exit(launch(options).exit_code);
    return launcher;
  }

  std::string base;
  detail::Descriptor out;
  detail::Descriptor err;
};

int exit_code_of(pid_t process) {
  int status = 0;
  EXPECT_EQ(::waitpid(process, &status, 0), process);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST_F(Launch, GivesEachRankItsPlace) {
  const LaunchReport report =
      launch(script(3,
                    "echo $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $MASTER_ADDR $TESSERA_RUN_DIR; "
                    "test $TESSERA_STORE = tcp://127.0.0.1:$MASTER_PORT; test ${#TESSERA_STORE_SECRET} = 32"));
  EXPECT_EQ(report.exit_code, 0);
  const std::string rest = " 127.0.0.1 " + base + "/run";
  EXPECT_EQ(printed(), (std::vector<std::string>{"[0] 0/3 0/3" + rest, "[1] 1/3 1/3" + rest, "[2] 2/3 2/3" + rest}));
  EXPECT_EQ(said(), "");
}

TEST_F(Launch, LeavesTheDirectoryOfARunThatGoesOnAlone) {
  LaunchOptions options = script(1, "true");
  options.run_dir_option = "--its.name";
  std::filesystem::create_directory(options.run_dir);
  const detail::Descriptor held(::open(options.run_dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  ASSERT_EQ(::flock(held.get(), LOCK_EX | LOCK_NB), 0);
  expect_error<IoError>([&] { (void)launch(options); }, {options.run_dir, "which is going on", "--its.name"});
  EXPECT_TRUE(std::filesystem::is_empty(options.run_dir));
}

TEST_F(Launch, GoesOnWhereItsRecordCannotBeWrittenAndSaysSo) {
  const LaunchReport report = launch(
      script(2,
             "cd $TESSERA_RUN_DIR; test $RANK = 1 || until test -e told; do sleep 0.01; done; test $RANK = 0 || { "
             "until test -f launch.json; do sleep 0.01; done; rm launch.json; mkdir -p launch.json/in_its_place; "
             "touch told; }; echo rank $RANK went on"));
  EXPECT_EQ(report.exit_code, 1) << "the record is missing";
  EXPECT_EQ(printed(), (std::vector<std::string>{"[0] rank 0 went on", "[1] rank 1 went on"}));
  EXPECT_NE(said().find("launch.json is not as the run is: "), std::string::npos) << said();
}

TEST_F(Launch, KeepsLinesWholeAndStreamsApart) {
  const LaunchReport report = launch(script(
      4, "for i in 1 2 3 4 5 6 7 8 9 10; do printf 'a%s' $i; printf 'b\\n'; echo err$i >&2; done; printf 'no end'"));
  EXPECT_EQ(report.exit_code, 0);
  std::vector<std::string> expected;
  for (int rank = 0; rank < 4; ++rank) {
    const std::string prefix = "[" + std::to_string(rank) + "] ";
    for (int i = 1; i <= 10; ++i) expected.push_back(prefix + "a" + std::to_string(i) + "b");
    expected.push_back(prefix + "no end");
  }
  std::sort(expected.begin(), expected.end());
  EXPECT_EQ(printed(), expected);
  const std::string errors = said();
  EXPECT_EQ(std::count(errors.begin(), errors.end(), '\n'), 40);
  EXPECT_EQ(errors.find("a1b"), std::string::npos);
}

TEST_F(Launch, PassesOnAllOutputOfRanksThatWriteMuch) {
  const LaunchReport report = launch(script(2, "yes 0123456789012345678901234567890123456789 | head -n 60000"));
  EXPECT_EQ(report.exit_code, 0);
  EXPECT_EQ(printed().size(), 120'000u);
}

TEST_F(Launch, SaysOfWhatARankDiedAndStopsTheOthers) {
  const LaunchReport report = launch(script(3, "test $RANK = 1 && kill -9 $$; exec sleep 1000"));
  EXPECT_EQ(report.exit_code, 137);
  ASSERT_TRUE(report.first_failure.has_value());
  EXPECT_EQ(report.first_failure->rank, 1);
  EXPECT_EQ(said(), "tessera run: rank 1 was killed by signal 9 (Killed)\ntessera run: stopping the other 2 ranks\n");
  EXPECT_EQ(report.ends.at(0).signal, SIGTERM);
  EXPECT_EQ(report.ends.at(2).signal, SIGTERM);
}

TEST_F(Launch, ExitsWithTheCodeOfTheFirstFailure) {
  const LaunchReport report =
      launch(script(2, "test $RANK = 0 && exit 3; trap 'exit 9' TERM; while :; do sleep 0.01; done"));
  EXPECT_EQ(report.exit_code, 3);
  EXPECT_TRUE(said().starts_with("tessera run: rank 0 exited with 3\ntessera run: stopping the other 1 rank\n"))
      << said();
  EXPECT_TRUE(report.ends.at(1).exit_code == 9 || report.ends.at(1).signal == SIGTERM) << "it may die before its trap";
}

TEST_F(Launch, KillsWhoDoesNotStop) {
  LaunchOptions options =
      script(2,
             "if [ $RANK = 1 ]; then trap '' TERM; touch $TESSERA_RUN_DIR/deaf; while :; do sleep 1000; done; "
             "else until [ -e $TESSERA_RUN_DIR/deaf ]; do sleep 0.01; done; exit 4; fi");
  options.grace = 50ms;
  const LaunchReport report = launch(options);
  EXPECT_EQ(report.exit_code, 4);
  EXPECT_EQ(report.ends.at(1).signal, SIGKILL);
  EXPECT_NE(said().find("rank 1 did not end within 50 ms of SIGTERM: killed"), std::string::npos) << said();
}

TEST_F(Launch, StoppedRanksAreStoppedToo) {
  LaunchOptions options = script(2, "test $RANK = 1 && kill -STOP $$; exit 5");
  options.grace = 60s;
  EXPECT_EQ(launch(options).exit_code, 5);
}

TEST_F(Launch, KeepsTheOthersWhenTold) {
  LaunchOptions options = script(3,
                                 "test $RANK = 1 && exit 3; test $RANK = 2 && exit 0; "
                                 "until grep -q 'exited with 3' \"$ERR\"; do sleep 0.01; done; echo went on");
  ::setenv("ERR", (base + "/err").c_str(), 1);
  options.on_failure = OnFailure::kKeep;
  const LaunchReport report = launch(options);
  ::unsetenv("ERR");
  EXPECT_EQ(report.exit_code, 3);
  EXPECT_EQ(printed(), std::vector<std::string>{"[0] went on"});
  EXPECT_EQ(said(), "tessera run: rank 1 exited with 3\n");
}

TEST_F(Launch, StartsAgainAsOftenAsTold) {
  LaunchOptions options =
      script(2, "echo x >> $TESSERA_RUN_DIR/count.$RANK; test $(wc -l < $TESSERA_RUN_DIR/count.$RANK) = 3 || exit 7");
  options.restarts = 5;
  options.on_failure = OnFailure::kKeep;
  const LaunchReport report = launch(options);
  EXPECT_EQ(report.exit_code, 0);
  EXPECT_EQ(report.restarts, 2);
  EXPECT_NE(said().find("starting all 2 ranks again (restart 2 of 5)"), std::string::npos) << said();
  EXPECT_EQ(record().at("starts").size(), 3u);
  EXPECT_EQ(record().at("exit_code"), 0);
}

TEST_F(Launch, GivesUpAfterTheLastRestart) {
  LaunchOptions options = script(1, "exit 7");
  options.restarts = 2;
  const LaunchReport report = launch(options);
  EXPECT_EQ(report.exit_code, 7);
  EXPECT_EQ(report.restarts, 2);
}

TEST_F(Launch, LeavesARecord) {
  launch(script(
      2, "test $RANK = 0 || kill -TERM $$; until grep -q signal $TESSERA_RUN_DIR/launch.json; do sleep 0.01; done"));
  const nlohmann::json json = record();
  EXPECT_EQ(json.at("command").at(0), "sh");
  EXPECT_EQ(json.at("ranks"), 2);
  EXPECT_EQ(json.at("launcher_pid"), ::getpid());
  EXPECT_EQ(json.at("exit_code"), 143);
  const nlohmann::json& rank = json.at("starts").at(0).at("ranks").at(1);
  EXPECT_EQ(rank.at("rank"), 1);
  EXPECT_EQ(rank.at("end"), "was killed by signal 15 (Terminated)");
  EXPECT_EQ(rank.at("signal"), 15);
  EXPECT_GT(rank.at("pid"), 0);
  EXPECT_EQ(json.dump().find("SECRET"), std::string::npos);
}

TEST_F(Launch, NamesWhatCannotBeStarted) {
  LaunchOptions options = script(2, "");
  options.command = {"./no-such-program"};
  expect_error<IoError>([&] { launch(options); }, {"./no-such-program", "No such file"});
  options.command = {base};
  expect_error<IoError>([&] { launch(options); }, {base, "Permission denied"});
  options.command = {};
  expect_error<InvalidArgument>([&] { launch(options); }, {"no program"});
  options = script(0, "true");
  expect_error<InvalidArgument>([&] { launch(options); }, {"0 ranks"});
  options = script(1, "true");
  options.run_dir = "/proc/nothing/here";
  expect_error<IoError>([&] { launch(options); }, {"/proc/nothing/here", "--run-dir"});
  const TcpStoreServer taken({});
  options = script(1, "true");
  options.port = taken.port();
  expect_error<IoError>([&] { launch(options); }, {"port " + std::to_string(taken.port()), "in use"});
}

TEST_F(Launch, PassesSignalsOn) {
  const pid_t launcher =
      start(script(2,
                   "trap 'echo usr1; touch $TESSERA_RUN_DIR/got.$RANK' USR1; trap 'echo term; exit 6' TERM; "
                   "touch $TESSERA_RUN_DIR/up.$RANK; while :; do sleep 0.01; done"));
  for (const char* rank : {"0", "1"}) wait_for(base + "/run/up." + rank);
  ::kill(launcher, SIGUSR1);
  for (const char* rank : {"0", "1"}) wait_for(base + "/run/got." + rank);
  ::kill(launcher, SIGTERM);
  EXPECT_EQ(exit_code_of(launcher), 6);
  EXPECT_EQ(printed(), (std::vector<std::string>{"[0] term", "[0] usr1", "[1] term", "[1] usr1"}));
}

TEST_F(Launch, ASecondInterruptKills) {
  LaunchOptions options = script(2,
                                 "trap 'touch $TESSERA_RUN_DIR/got.$RANK' INT; touch $TESSERA_RUN_DIR/up.$RANK; "
                                 "while :; do sleep 0.01; done");
  options.restarts = 3;  // who is told to stop is not started again
  const pid_t launcher = start(options);
  for (const char* rank : {"0", "1"}) wait_for(base + "/run/up." + rank);
  ::kill(launcher, SIGINT);
  for (const char* rank : {"0", "1"}) wait_for(base + "/run/got." + rank);
  ::kill(launcher, SIGINT);
  EXPECT_EQ(exit_code_of(launcher), 137);
  EXPECT_EQ(record().at("starts").size(), 1u);
}

// Ended processes stay zombies until their parent looks, so one that a killed launcher leaves is our child then.
TEST_F(Launch, NoRankOutlivesAKilledLauncher) {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  const pid_t launcher = start(script(3,
                                      "echo $$ > $TESSERA_RUN_DIR/pid.$RANK.new; "
                                      "mv $TESSERA_RUN_DIR/pid.$RANK.new $TESSERA_RUN_DIR/pid.$RANK; exec sleep 1000"));
  std::vector<pid_t> ranks;
  for (const char* rank : {"0", "1", "2"}) ranks.push_back(std::stoi(wait_for(base + "/run/pid." + rank)));
  ::kill(launcher, SIGKILL);
  EXPECT_EQ(exit_code_of(launcher), -1);
  for (const pid_t rank : ranks) {
    int status = 0;
    EXPECT_EQ(::waitpid(rank, &status, 0), rank) << "ends, and not by our doing";
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  }
  ::prctl(PR_SET_CHILD_SUBREAPER, 0);
}

TEST_F(Launch, WhatARankStartedEndsWithIt) {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  const LaunchReport report = launch(script(1, "sleep 1000 & echo $! > $TESSERA_RUN_DIR/pid; exit 0"));
  EXPECT_EQ(report.exit_code, 0);
  const pid_t left = std::stoi(content(base + "/run/pid"));
  int status = 0;
  EXPECT_EQ(::waitpid(left, &status, 0), left);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  ::prctl(PR_SET_CHILD_SUBREAPER, 0);
}

TEST_F(Launch, EndsWhenNobodyReadsItsOutput) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  detail::Descriptor from(ends[0]);
  const detail::Descriptor to(ends[1]);
  LaunchOptions options = script(2, "yes");
  options.out = to.get();
  std::thread reader([&] {
    char piece[100];
    EXPECT_GT(::read(from.get(), piece, sizeof piece), 0);
    from.reset();
  });
  const LaunchReport report = launch(options);
  reader.join();
  EXPECT_EQ(report.exit_code, 128 + SIGPIPE);
}

TEST_F(Launch, LeavesSignalsAsTheyWere) {
  sigset_t before;
  sigset_t after;
  ::pthread_sigmask(SIG_BLOCK, nullptr, &before);
  launch(script(1, "true"));
  ::pthread_sigmask(SIG_BLOCK, nullptr, &after);
  for (int number = 1; number < 32; ++number) EXPECT_EQ(::sigismember(&before, number), ::sigismember(&after, number));
}

}  // namespace
}  // namespace tessera::comm
