// Tests `tessera run` from the command line. tessera/comm/launch has detailed tests of the launcher.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <nlohmann/json.hpp>

#include "tessera/cli/testing/run_program.h"

namespace tessera::cli::testing {
namespace {

class Run : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/tessera_run_XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    directory = name;
  }
  void TearDown() override { std::filesystem::remove_all(directory); }

  Outcome run(const std::string& arguments) const {
    return tessera("run --run-dir " + directory + "/run " + arguments, "cd " + directory + " &&");
  }

  std::string directory;
};

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t times = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++times;
  return times;
}

TEST_F(Run, StartsRanksAndPrefixesTheirLines) {
  const Outcome outcome = run("-n 3 -- sh -c 'echo rank $RANK of $WORLD_SIZE; echo oops >&2'");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  for (const char* line : {"[0] rank 0 of 3\n", "[1] rank 1 of 3\n", "[2] rank 2 of 3\n"})
    EXPECT_EQ(count(outcome.out, line), 1u) << outcome.out;
  for (const char* line : {"[0] oops\n", "[1] oops\n", "[2] oops\n"})
    EXPECT_EQ(count(outcome.err, line), 1u) << outcome.err;
}

TEST_F(Run, ExitsWithTheCodeOfTheFirstFailureAndSaysWhose) {
  Outcome outcome = run("-n 2 -- sh -c 'test $RANK = 0 || exit 42; exec sleep 1000'");
  EXPECT_EQ(outcome.code, 42);
  EXPECT_EQ(outcome.err, "tessera run: rank 1 exited with 42\ntessera run: stopping the other 1 rank\n");
  outcome = run("-n 1 -- sh -c 'kill -9 $$'");
  EXPECT_EQ(outcome.code, 137);
  EXPECT_EQ(outcome.err, "tessera run: rank 0 was killed by signal 9 (Killed)\n");
}

TEST_F(Run, HandsArgumentsOnAsTheyAre) {
  const Outcome outcome =
      run("-n 1 -- sh -c 'for a in \"$@\"; do echo \"<$a>\"; done' sh -n 5 --port x --help '' 'a b' -- --");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out,
            "[0] <-n>\n[0] <5>\n[0] <--port>\n[0] <x>\n[0] <--help>\n[0] <>\n[0] <a b>\n[0] <-->\n[0] <-->\n");
}

TEST_F(Run, OptionsReachTheLauncher) {
  Outcome outcome = run("-n 1 --restarts 2 -- sh -c 'exit 7'");
  EXPECT_EQ(outcome.code, 7);
  EXPECT_TRUE(contains(outcome.err, "restart 2 of 2")) << outcome.err;
  outcome = run("-n 2 --on-failure keep -- sh -c 'test $RANK = 0 && exit 3; echo on'");
  EXPECT_EQ(outcome.code, 3);
  EXPECT_EQ(outcome.out, "[1] on\n");
  EXPECT_FALSE(contains(outcome.err, "stopping")) << outcome.err;
}

TEST_F(Run, LeavesARunDirectory) {
  EXPECT_EQ(run("-n 2 -- true").code, 0);
  const auto json = nlohmann::json::parse(content(directory + "/run/launch.json"));
  EXPECT_EQ(json.at("command"), nlohmann::json::array({"true"}));
  EXPECT_EQ(json.at("exit_code"), 0);
  EXPECT_EQ(json.at("starts").at(0).at("ranks").size(), 2u);
  EXPECT_EQ(tessera("run -n 1 -- true", "cd " + directory + " &&").code, 0);
  std::size_t found = 0;
  for (const auto& entry : std::filesystem::directory_iterator(directory + "/runs"))
    found += std::filesystem::exists(entry.path() / "launch.json") ? 1 : 0;
  EXPECT_EQ(found, 1u) << "without --run-dir it is ./runs/TIME-PID";
  EXPECT_EQ(tessera("run -n 1 -- sh -c 'echo $TESSERA_RUN_DIR'", "TESSERA_RUN_DIR=" + directory + "/env").out,
            "[0] " + directory + "/env\n");
}

TEST_F(Run, ColoursWhenAsked) {
  const Outcome outcome = tessera("run -n 1 --run-dir " + directory + "/run -- echo hello", "TESSERA_LOG_COLOR=always");
  EXPECT_EQ(outcome.out, "\x1b[36m[0]\x1b[0m hello\n");
}

TEST_F(Run, PassesItsDeadlineToTheRanks) {
  const Outcome given = run("-n 2 --deadline 7 -- sh -c 'echo deadline $TESSERA_DEADLINE'");
  EXPECT_EQ(given.code, 0) << given.err;
  for (const char* line : {"[0] deadline 7\n", "[1] deadline 7\n"}) EXPECT_EQ(count(given.out, line), 1u) << given.out;
  EXPECT_EQ(run("-n 1 --deadline 0 -- true").code, 2);
  EXPECT_EQ(run("-n 1 --deadline soon -- true").code, 2);
}

TEST_F(Run, HasAStatusLineOnATerminal) {
  if (std::system("script -qec true /dev/null </dev/null >/dev/null 2>&1") != 0)
    GTEST_SKIP() << "script(1) cannot make a terminal here: it is absent, or there are no pseudo-terminals";
  const std::string command = "script -qec \"'" TESSERA_PROGRAM "' run -n 2 --run-dir " + directory +
                              "/run -- echo hello\" /dev/null </dev/null >" + directory + "/out";
  EXPECT_EQ(std::system(command.c_str()), 0);
  const std::string text = content(directory + "/out");
  EXPECT_TRUE(contains(text, "2 of 2 ranks running, 00:00:0")) << text;
  EXPECT_TRUE(contains(text, "\x1b[36m[0]\x1b[0m hello\r\n")) << text;
}

TEST_F(Run, SaysWhatMakesNoSense) {
  EXPECT_EQ(run("-- true").code, 2);
  EXPECT_EQ(run("-n 0 -- true").code, 2);
  EXPECT_EQ(run("-n 2").code, 2);
  EXPECT_EQ(run("-n 2 --on-failure explode -- true").code, 2);
  const Outcome port = run("-n 2 --port 99999 -- true");
  EXPECT_EQ(port.code, 2);
  EXPECT_TRUE(contains(port.err, "--port: must be in [0, 65535], got 99999; 0 selects a free port")) << port.err;
  const Outcome unknown = run("-n 2 --restart 3 -- true");
  EXPECT_EQ(unknown.code, 2);
  EXPECT_TRUE(contains(unknown.err, "'--restart' (did you mean '--restarts'?)")) << unknown.err;
  const Outcome missing = run("-n 2 -- ./no-such-program");
  EXPECT_EQ(missing.code, 1);
  EXPECT_EQ(missing.err,
            "tessera: cannot start './no-such-program': No such file or directory; use a path such as ./program, or a "
            "program on PATH\n");
  const Outcome help = run("--help");
  EXPECT_EQ(help.code, 0);
  EXPECT_TRUE(contains(help.out, "  tessera run -n 4 -- ./train --steps 1000")) << help.out;
}

TEST_F(Run, RemovesTheDirectoryOfAStartThatFailed) {
  EXPECT_EQ(run("-n 2 -- ./no-such-program").code, 1);
  EXPECT_EQ(tessera("run -n 2 -- ./no-such-program", "cd " + directory + " &&").code, 1);
  EXPECT_TRUE(std::filesystem::is_empty(directory)) << "neither run nor runs";
  std::filesystem::create_directory(directory + "/run");
  EXPECT_EQ(run("-n 2 -- ./no-such-program").code, 1);
  EXPECT_TRUE(std::filesystem::exists(directory + "/run")) << "it was there before";
}

TEST_F(Run, HidesTheSecretFromTheTableOfVariables) {
  const Outcome outcome = run("-n 1 -- '" TESSERA_PROGRAM "' info --env --json");
  EXPECT_TRUE(contains(outcome.out, "(hidden)")) << outcome.out;
}

}  // namespace
}  // namespace tessera::cli::testing
