// The launcher: ranks, ends, stops, restarts, signals, and the files it leaves. Ranks are small shell scripts.
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
#include <set>
#include <sstream>
#include <thread>
#include <nlohmann/json.hpp>

#include "tessera/base/error.h"
#include "tessera/base/testing/expect_error.h"
#include "tessera/comm/store/descriptor.h"
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
  // Waits until a file exists and returns its contents.
  static std::string wait_for(const std::string& path) {
    while (!std::filesystem::exists(path)) std::this_thread::sleep_for(1ms);
    return content(path);
  }
  // Runs the launcher in a separate process, so that it can be signaled and killed.
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
                    "test $TESSERA_STORE = tcp://127.0.0.1:$MASTER_PORT; test ${#TESSERA_STORE_SECRET} = 64"));
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
  expect_error<IoError>([&] { (void)launch(options); }, {options.run_dir, "is in use by an active run", "--its.name"});
  EXPECT_TRUE(std::filesystem::is_empty(options.run_dir));
}

TEST_F(Launch, TwoCannotHaveOneRunDirectory) {
  const pid_t first =
      start(script(1, "touch $TESSERA_RUN_DIR/up; until test -e $TESSERA_RUN_DIR/go; do sleep 0.01; done; echo first"));
  wait_for(base + "/run/up");
  const std::string before = wait_for(base + "/run/launch.json");  // written after the ranks are started
  LaunchOptions second = script(1, "echo second");
  expect_error<IoError>([&] { (void)launch(second); }, {base + "/run", "is in use by an active run", "--run-dir"});
  EXPECT_EQ(content(base + "/run/launch.json"), before);
  std::ofstream(base + "/run/go") << "";
  EXPECT_EQ(exit_code_of(first), 0);
  EXPECT_EQ(printed(), std::vector<std::string>{"[0] first"});
  EXPECT_EQ(launch(second).exit_code, 0) << "the directory is free again";
}

TEST_F(Launch, PinnedRanksHaveCoresAndThreadsOfTheirOwn) {
  ::unsetenv("TESSERA_THREADS");
  LaunchOptions options = script(static_cast<int>(std::thread::hardware_concurrency()),
                                 "grep Cpus_allowed_list /proc/self/status; echo threads $TESSERA_THREADS");
  options.pinned = true;
  EXPECT_EQ(launch(options).exit_code, 0) << said();
  std::set<std::string> cores;
  std::size_t threads = 0;
  for (const std::string& line : printed()) {
    if (line.ends_with("] threads 1")) ++threads;
    if (const std::size_t at = line.find("list:"); at != std::string::npos) cores.insert(line.substr(at));
  }
  EXPECT_EQ(cores.size(), static_cast<std::size_t>(options.ranks)) << "one core each";
  EXPECT_EQ(threads, static_cast<std::size_t>(options.ranks));
  options.ranks = 4096;
  expect_error<InvalidArgument>([&] { (void)launch(options); }, {"4096 ranks", "do not pin"});
}

TEST_F(Launch, TheRunDirectoryIsPrivateUnlessShared) {
  const auto mode = [](const std::string& path) { return std::filesystem::status(path).permissions(); };
  LaunchOptions options = script(1, "true");
  EXPECT_EQ(launch(options).exit_code, 0);
  EXPECT_EQ(mode(options.run_dir), std::filesystem::perms(0700));
  EXPECT_EQ(mode(options.run_dir + "/launch.json"), std::filesystem::perms(0600));
  options.run_dir = base + "/shared";
  options.shared = true;
  EXPECT_EQ(launch(options).exit_code, 0);
  EXPECT_EQ(mode(options.run_dir), std::filesystem::perms(0750));
  EXPECT_EQ(mode(options.run_dir + "/launch.json"), std::filesystem::perms(0640));
}

TEST_F(Launch, APlantedLinkIsReplacedAndNotFollowed) {
  std::filesystem::create_directory(base + "/run");
  std::ofstream(base + "/victim") << "old";
  std::filesystem::create_symlink(base + "/victim", base + "/run/launch.json");
  EXPECT_EQ(launch(script(1, "true")).exit_code, 0);
  EXPECT_FALSE(std::filesystem::is_symlink(base + "/run/launch.json"));
  EXPECT_EQ(content(base + "/victim"), "old");
}

const std::string kOnceRecorded = "until test -f $TESSERA_RUN_DIR/launch.json; do sleep 0.01; done; ";

TEST_F(Launch, ARunDirectoryThatIsRemovedIsAFailureAndIsNotMadeAgain) {
  LaunchOptions options = script(1, kOnceRecorded + "mv $TESSERA_RUN_DIR $TESSERA_RUN_DIR.gone");
  EXPECT_EQ(launch(options).exit_code, 1);
  EXPECT_NE(said().find(base + "/run' was removed or renamed"), std::string::npos) << said();
  EXPECT_FALSE(std::filesystem::exists(base + "/run"));
  std::filesystem::remove_all(base + "/run.gone");
  options = script(1, kOnceRecorded + "mv $TESSERA_RUN_DIR $TESSERA_RUN_DIR.gone; mkdir $TESSERA_RUN_DIR; exit 5");
  options.restarts = 3;
  const LaunchReport report = launch(options);
  EXPECT_EQ(report.exit_code, 5);
  EXPECT_EQ(report.restarts, 0) << said();
  EXPECT_TRUE(std::filesystem::is_empty(base + "/run")) << "it is another's";
}

TEST_F(Launch, GoesOnWhereItsRecordCannotBeWrittenAndSaysSo) {
  const LaunchReport report = launch(
      script(2,
             "cd $TESSERA_RUN_DIR; test $RANK = 1 || until test -e told; do sleep 0.01; done; test $RANK = 0 || { "
             "until test -f launch.json; do sleep 0.01; done; rm launch.json; mkdir -p launch.json/in_its_place; "
             "touch told; }; echo rank $RANK went on"));
  EXPECT_EQ(report.exit_code, 1) << "the record is missing";
  EXPECT_EQ(printed(), (std::vector<std::string>{"[0] rank 0 went on", "[1] rank 1 went on"}));
  EXPECT_NE(said().find("launch.json is out of date: "), std::string::npos) << said();
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
  EXPECT_NE(said().find("rank 1 did not exit within 50 ms of SIGTERM; killing it"), std::string::npos) << said();
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
  EXPECT_NE(said().find("restarting all 2 ranks (restart 2 of 5)"), std::string::npos) << said();
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

TEST_F(Launch, RecordsTheSignalsThatItSendsBecauseARankFailed) {
  LaunchOptions options =
      script(3,
             "if [ $RANK = 2 ]; then trap '' TERM; touch $TESSERA_RUN_DIR/deaf; while :; do sleep 1000; done; fi; "
             "until [ -e $TESSERA_RUN_DIR/deaf ]; do sleep 0.01; done; test $RANK = 1 && kill -9 $$; exec sleep 1000");
  options.grace = 1s;  // rank 0 must have ended by then, even on a busy machine
  EXPECT_EQ(launch(options).exit_code, 137);
  const nlohmann::json json = record();
  EXPECT_EQ(json.at("launch_id").get<std::string>().size(), 16u);
  const nlohmann::json& ranks = json.at("starts").at(0).at("ranks");
  EXPECT_FALSE(ranks.at(1).contains("signals")) << "the launcher did not kill it: " << ranks.at(1);
  const nlohmann::json& stopped = ranks.at(0).at("signals");
  ASSERT_EQ(stopped.size(), 1u) << stopped;
  EXPECT_EQ(stopped.at(0).at("signal"), SIGTERM);
  EXPECT_EQ(stopped.at(0).at("name"), "SIGTERM");
  EXPECT_EQ(stopped.at(0).at("reason"), "rank_failed");
  EXPECT_EQ(stopped.at(0).at("failed_rank"), 1);
  EXPECT_EQ(stopped.at(0).at("text"), "rank 1 was killed by signal 9 (Killed)");
  EXPECT_EQ(stopped.at(0).at("time").get<std::string>().size(), std::string("2026-11-16T06:43:20Z").size());
  const nlohmann::json& killed = ranks.at(2).at("signals");
  ASSERT_EQ(killed.size(), 2u) << killed;
  EXPECT_EQ(killed.at(0).at("reason"), "rank_failed");
  EXPECT_EQ(killed.at(1).at("signal"), SIGKILL);
  EXPECT_EQ(killed.at(1).at("reason"), "grace_expired");
  EXPECT_EQ(killed.at(1).at("failed_rank"), 1);
}

TEST_F(Launch, RecordsTheSignalsThatItForwards) {
  const pid_t launcher = start(
      script(1, "trap 'touch $TESSERA_RUN_DIR/got' INT; touch $TESSERA_RUN_DIR/up; while :; do sleep 0.01; done"));
  wait_for(base + "/run/up");
  ::kill(launcher, SIGINT);
  wait_for(base + "/run/got");
  const nlohmann::json before = record().at("starts").at(0).at("ranks").at(0).at("signals");
  ASSERT_EQ(before.size(), 1u) << "written before it is sent";
  EXPECT_EQ(before.at(0).at("signal"), SIGINT);
  EXPECT_EQ(before.at(0).at("reason"), "received");
  EXPECT_EQ(before.at(0).at("sender_pid"), ::getpid());
  EXPECT_EQ(before.at(0).at("sender_uid"), ::getuid());
  ::kill(launcher, SIGTERM);
  EXPECT_EQ(exit_code_of(launcher), 137);
  const nlohmann::json signals = record().at("starts").at(0).at("ranks").at(0).at("signals");
  ASSERT_EQ(signals.size(), 2u) << signals;
  EXPECT_EQ(signals.at(1).at("signal"), SIGKILL);
  EXPECT_EQ(signals.at(1).at("reason"), "received_again");
}

// The shell does what a recorder does: creates a file in memory, named after its process, and a link to it.
TEST_F(Launch, KeepsTheRecordOfAKilledRankInTheRunDirectory) {
  std::filesystem::create_directory(base + "/memory");
  ::setenv("TESSERA_RECORD_DIR", (base + "/memory").c_str(), 1);
  const LaunchReport report =
      launch(script(1,
                    "name=tessera-n$(stat -Lc %i /proc/self/ns/pid)-p$$-t$(cut -d' ' -f22 /proc/$$/stat)-r0-0.record; "
                    "echo evidence > $TESSERA_RECORD_DIR/$name; "
                    "ln -s $TESSERA_RECORD_DIR/$name $TESSERA_RUN_DIR/rank-0.host.$$.0.record; kill -9 $$"));
  ::unsetenv("TESSERA_RECORD_DIR");
  EXPECT_EQ(report.exit_code, 137) << said();
  EXPECT_TRUE(std::filesystem::is_empty(base + "/memory"));
  const std::string kept = base + "/run/rank-0.host." + std::to_string(report.ends.at(0).pid) + ".0.record";
  EXPECT_FALSE(std::filesystem::is_symlink(kept));
  EXPECT_EQ(content(kept), "evidence\n");
}

TEST_F(Launch, NamesWhatCannotBeStarted) {
  LaunchOptions options = script(2, "");
  options.command = {"./no-such-program"};
  expect_error<IoError>([&] { launch(options); }, {"./no-such-program", "No such file"});
  options.command = {base};
  expect_error<IoError>([&] { launch(options); }, {base, "Permission denied"});
  options.command = {};
  expect_error<InvalidArgument>([&] { launch(options); }, {"command must name a program"});
  options = script(0, "true");
  expect_error<InvalidArgument>([&] { launch(options); }, {"ranks must be in [1, 4096], got 0"});
  options = script(1, "true");
  options.run_dir = "/proc/nothing/here";
  expect_error<IoError>([&] { launch(options); }, {"/proc/nothing/here", "--run-dir"});
  const TcpStoreServer taken({.secret = "s"});
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
  options.restarts = 3;  // ranks that are requested to stop are not restarted
  const pid_t launcher = start(options);
  for (const char* rank : {"0", "1"}) wait_for(base + "/run/up." + rank);
  ::kill(launcher, SIGINT);
  for (const char* rank : {"0", "1"}) wait_for(base + "/run/got." + rank);
  ::kill(launcher, SIGINT);
  EXPECT_EQ(exit_code_of(launcher), 137);
  EXPECT_EQ(record().at("starts").size(), 1u);
}

// Ended processes stay zombies until their parent reaps them, so a rank of a killed launcher becomes our child.
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
