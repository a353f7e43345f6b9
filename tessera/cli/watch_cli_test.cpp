// Tests `tessera watch` from the command line: the table of a waiting run, and keys and signals in a pseudo terminal.
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
#include <vector>

#include "tessera/base/probe/recorder.h"
#include "tessera/cli/testing/pseudo_terminal.h"
#include "tessera/cli/testing/run_program.h"
#include "tessera/cli/testing/simulated_run.h"

namespace tessera {
namespace {

using cli::testing::contains;
using cli::testing::Outcome;
using cli::testing::PseudoTerminal;
namespace fs = std::filesystem;

const std::string kEnter = "\033[?1049h";
const std::string kLeave = "\033[?1049l";

std::vector<std::vector<std::string>> rows_of(const std::string& text) {
  std::vector<std::vector<std::string>> rows;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream cells(line);
    rows.emplace_back();
    for (std::string cell; std::getline(cells, cell, '\t');) rows.back().push_back(cell);
  }
  return rows;
}

// Returns the lines sent to a terminal, without cursor movements and colors.
std::vector<std::string> lines_of(const std::string& shown) {
  std::vector<std::string> lines(1);
  for (std::size_t i = 0; i < shown.size(); ++i) {
    if (shown[i] == '\033') {
      const std::size_t end = shown.find_first_of("mHJKhl", i);
      if (end == std::string::npos) break;
      if (shown[end] == 'H') lines.emplace_back();
      i = end;
    } else if (shown[i] == '\n') {
      lines.emplace_back();
    } else if (shown[i] != '\r') {
      lines.back() += shown[i];
    }
  }
  return lines;
}

class Watch : public cli::testing::SimulatedRun {};

TEST_F(Watch, OnceShowsWhoIsInWhichOperation) {
  Outcome outcome;
  work([&](const comm::ProcessGroup& group, const device::Stream& stream) {
    if (group.rank() == 1) (void)comm::store()->get("seen", std::chrono::minutes(5));
    const comm::Work last = group.launch({.kind = comm::OpKind::kBarrier}, stream);
    if (group.rank() == 0) {
      std::ofstream(directory + "/live/metrics.jsonl")
          << "{\"rank\":1,\"step\":7,\"loss\":2.5,\"tokens_per_second\":9752.4}\n";
      do {
        outcome = cli::testing::tessera("watch --once --hung-after 0 " + directory + "/live");
      } while (outcome.code == 0 && contains(outcome.out, "queued"));  // its thread needs a moment
      comm::store()->set("seen", "");
    }
    last.wait();
  });
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const auto rows = rows_of(outcome.out);
  ASSERT_GE(rows.size(), 3U) << outcome.out;
  using Row = std::vector<std::string>;
  EXPECT_EQ(rows[0], (Row{"RANK", "STATE", "STEP", "LOSS", "RATE", "MEMORY", "FOR", "IN FLIGHT"}));
  EXPECT_EQ(rows[1][1], "running");
  EXPECT_EQ(rows[1][7], "world 4: barrier, waits for others in gradients");
  EXPECT_TRUE(rows[1][6].ends_with(" s") || rows[1][6].ends_with(" min")) << rows[1][6];
  EXPECT_EQ(rows[2][2], "7");
  EXPECT_EQ(rows[2][3], "2.5000");
  EXPECT_EQ(rows[2][4], "9752 tok/s");
  EXPECT_EQ(rows[2][7], "-");
}

// Leaves the record of a rank whose process died without reporting.
void leave_a_dead_rank(const std::string& run) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const probe::Recorder recorder(
        RankPlace{.rank = tessera::Rank{0}, .world_size = 1, .run_dir = run},
        {.nbytes = probe::RecordOptions::kMinBytes, .directory = std::filesystem::path(run).parent_path().string()});
    ::_exit(0);
  }
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
}

TEST_F(Watch, OnceEndsWithWhatExplainsATrouble) {
  leave_a_dead_rank(run);
  const Outcome outcome = cli::testing::tessera("watch --once " + run);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const auto rows = rows_of(outcome.out);
  ASSERT_EQ(rows.size(), 4U) << "a row, an empty line, and what explains it: " << outcome.out;
  EXPECT_EQ(rows[1][1], "died");
  EXPECT_TRUE(contains(rows[3][0], "rank 0")) << outcome.out;
}

TEST_F(Watch, WithoutATerminalItPrintsOneTableAndEnds) {
  work();
  const Outcome outcome = cli::testing::tessera("watch " + run, "</dev/null");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(rows_of(outcome.out).size(), 3U) << outcome.out;
  EXPECT_FALSE(contains(outcome.out, "\033"));
  EXPECT_EQ(rows_of(outcome.out)[1][1], "running") << "the process that simulated it";
}

TEST_F(Watch, RefusesWhatItCannotRead) {
  const Outcome outcome = cli::testing::tessera("watch " + directory + "/none");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_TRUE(contains(outcome.err, directory + "/none")) << outcome.err;
  EXPECT_EQ(cli::testing::tessera("watch " + run + " --interval 0").code, 2);
  EXPECT_EQ(cli::testing::tessera("watch").code, 1) << "there is no run under ./runs";
}

// In a terminal, on an ended run; read once unless a key requests another read.
class WatchTerminal : public Watch {
 protected:
  void SetUp() override {
    Watch::SetUp();
    work();
  }
  std::unique_ptr<PseudoTerminal> start(unsigned short columns = 100, unsigned short lines = 20,
                                        const std::string& interval = "3600") {
    auto terminal = std::make_unique<PseudoTerminal>(std::vector<std::string>{"watch", run, "--interval", interval},
                                                     columns, lines);
    before = terminal->is_there() ? terminal->settings() : 0;
    return terminal;
  }
  // Checks that the screen and echo of the shell are restored.
  void expect_restored(const PseudoTerminal& terminal) const {
    EXPECT_EQ(terminal.settings() & (ICANON | ECHO), static_cast<tcflag_t>(ICANON | ECHO));
    const std::size_t left = terminal.shown().rfind(kLeave);
    ASSERT_NE(left, std::string::npos);
    EXPECT_EQ(terminal.shown().find(kEnter, left), std::string::npos);
    EXPECT_NE(terminal.shown().rfind("\033[?25h"), std::string::npos) << "the cursor is back";
    EXPECT_EQ(terminal.shown().find("RANK", left), std::string::npos) << "nothing is drawn on the shell's screen";
  }
  tcflag_t before = 0;
};

#define START_OR_SKIP(terminal, ...)        \
  const auto terminal = start(__VA_ARGS__); \
  if (!terminal->is_there()) GTEST_SKIP() << "there are no pseudo-terminals here"

TEST_F(WatchTerminal, ShowsTheTableAnswersKeysAndGivesTheScreenBack) {
  START_OR_SKIP(terminal);
  ASSERT_TRUE(terminal->wait_for(kEnter)) << terminal->shown();
  ASSERT_TRUE(terminal->wait_for("RANK")) << terminal->shown();
  ASSERT_TRUE(terminal->wait_for("No hang detected.")) << terminal->shown();
  EXPECT_EQ(terminal->settings() & (ICANON | ECHO), 0U);
  terminal->press("?");
  ASSERT_TRUE(terminal->wait_for("STATE      state of the process")) << terminal->shown();
  terminal->press("?");
  ASSERT_TRUE(terminal->wait_for("RANK")) << terminal->shown();
  terminal->press("p");
  ASSERT_TRUE(terminal->wait_for("Profile requested")) << terminal->shown();
  EXPECT_TRUE(fs::exists(run + "/profile.request"));
  terminal->press("e");
  ASSERT_TRUE(terminal->wait_for("e back")) << terminal->shown();
  terminal->press("e");
  ASSERT_TRUE(terminal->wait_for("RANK")) << terminal->shown();
  terminal->press("xq");
  EXPECT_EQ(terminal->end(), 0);
  expect_restored(*terminal);
}

// The next start would write a profile that no user waits for.
TEST_F(WatchTerminal, OfARunThatIsOverNoProfileIsAskedFor) {
  fs::remove_all(run);
  fs::create_directories(run);
  leave_a_dead_rank(run);
  START_OR_SKIP(terminal);
  ASSERT_TRUE(terminal->wait_for("RANK")) << terminal->shown();
  terminal->press("p");
  ASSERT_TRUE(terminal->wait_for("No rank is running; no steps remain to profile.")) << terminal->shown();
  EXPECT_FALSE(fs::exists(run + "/profile.request"));
  terminal->press("q");
  EXPECT_EQ(terminal->end(), 0);
}

TEST_F(WatchTerminal, ReadsAgainByItselfAndWhenAKeyAsksForIt) {
  START_OR_SKIP(terminal);
  ASSERT_TRUE(terminal->wait_for("No hang detected.")) << terminal->shown();
  std::ofstream(run + "/metrics.jsonl") << "{\"rank\":1,\"step\":4711,\"loss\":2.5}\n";
  terminal->press("r");
  ASSERT_TRUE(terminal->wait_for("4711")) << terminal->shown();
  const auto often = start(100, 20, "0.05");
  ASSERT_TRUE(often->wait_for("4711")) << often->shown();
  std::ofstream(run + "/metrics.jsonl") << "{\"rank\":1,\"step\":4712,\"loss\":2.5}\n";
  ASSERT_TRUE(often->wait_for("4712")) << often->shown();
  fs::remove_all(run);
  ASSERT_TRUE(often->wait_for(": no such directory")) << often->shown();
  often->press("q");
  EXPECT_EQ(often->end(), 0);
}

TEST_F(WatchTerminal, ASignalGivesTheScreenBackToo) {
  for (const int signal : {SIGTERM, SIGHUP, SIGINT}) {
    START_OR_SKIP(terminal);
    ASSERT_TRUE(terminal->wait_for("No hang detected.")) << terminal->shown();
    if (signal == SIGINT) {
      terminal->press("\003");  // as Ctrl-C does
    } else {
      ::kill(terminal->process(), signal);
    }
    EXPECT_EQ(terminal->end(), 128 + signal);
    expect_restored(*terminal);
  }
}

TEST_F(WatchTerminal, WhenItIsStoppedTheScreenIsTheShellsUntilItGoesOn) {
  START_OR_SKIP(terminal);
  ASSERT_TRUE(terminal->wait_for("No hang detected.")) << terminal->shown();
  ::kill(terminal->process(), SIGTSTP);
  ASSERT_TRUE(terminal->wait_for(kLeave)) << terminal->shown();
  int status = 0;
  ASSERT_EQ(::waitpid(terminal->process(), &status, WUNTRACED), terminal->process());
  ASSERT_TRUE(WIFSTOPPED(status));
  EXPECT_EQ(terminal->settings() & (ICANON | ECHO), static_cast<tcflag_t>(ICANON | ECHO));
  ::kill(terminal->process(), SIGCONT);
  ASSERT_TRUE(terminal->wait_for(kEnter)) << terminal->shown();
  ASSERT_TRUE(terminal->wait_for("RANK")) << terminal->shown();
  terminal->press("q");
  EXPECT_EQ(terminal->end(), 0);
}

TEST_F(WatchTerminal, LinesFitTheTerminalAlsoAfterItsSizeChanged) {
  START_OR_SKIP(terminal, 60, 20);
  ASSERT_TRUE(terminal->wait_for("No hang detected.")) << terminal->shown();
  for (const std::string& line : lines_of(terminal->shown())) EXPECT_LE(line.size(), 60U) << line;
  const std::size_t drawn = terminal->shown().size();
  terminal->resize(30, 5);
  ASSERT_TRUE(terminal->wait_for("1 of 2 ranks")) << terminal->shown();
  terminal->press("q");
  EXPECT_EQ(terminal->end(), 0);
  for (const std::string& line : lines_of(terminal->shown().substr(drawn))) EXPECT_LE(line.size(), 30U) << line;
}

}  // namespace
}  // namespace tessera
