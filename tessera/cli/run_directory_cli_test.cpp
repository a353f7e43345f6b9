// Tests the run directory of `tessera run` and `tessera train`: modes, planted links, a removed directory, records of
// killed ranks, and a closed terminal or reader.
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>
#include <nlohmann/json.hpp>

#include "tessera/cli/testing/pseudo_terminal.h"
#include "tessera/cli/testing/train_directory.h"

namespace tessera::cli::testing {
namespace {

namespace fs = std::filesystem;

class RunDirectoryCli : public TrainDirectory {
 protected:
  // Starts an endless training run and runs `then` after some steps. If the run directory is gone by then, records
  // cannot be moved and stay in the directory of the test.
  [[nodiscard]] Outcome while_training(const std::string& ranks, const std::string& then) const {
    fs::create_directories(directory + "/memory");
    return script("export TESSERA_RECORD_DIR=$PWD/memory\n$tessera train " + ranks + small +
                  "--train.steps 10000000 &\njob=$!\n" + "until_test grep -qs '\"step\":20,' run/metrics.jsonl\n" +
                  then + "\nwait $job\n");
  }
  void wait_for(const std::string& file) const {
    while (!fs::exists(directory + "/" + file)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  static fs::perms mode(const std::string& path) { return fs::symlink_status(path).permissions(); }

  const std::string small =
      "--model.width 32 --model.layers 1 --model.hidden 32 --model.sequence 16 --data.files text --eval.every 0 "
      "--eval.samples 8 --run.directory run ";
};

std::string pid_of_rank(int rank) {
  return "$(tr -d ' \\n' <run/launch.json | sed 's/.*\"rank\":" + std::to_string(rank) +
         ",\"pid\":\\([0-9]*\\).*/\\1/')";
}

TEST_F(RunDirectoryCli, ThatIsRemovedDuringTrainingIsAFailureAndIsNotMadeAgain) {
  for (const char* ranks : {"", "-n 2 "}) {
    SCOPED_TRACE(ranks);
    const Outcome outcome = while_training(ranks, "mv run gone && rm -rf gone");
    EXPECT_EQ(outcome.code, 1) << outcome.err;
    EXPECT_TRUE(contains(outcome.err, "run directory '" + directory + "/run' was removed or renamed")) << outcome.err;
    EXPECT_FALSE(fs::exists(directory + "/run"));
  }
}

TEST_F(RunDirectoryCli, ThatIsReplacedDuringTrainingIsAFailureAndTheNewOneStaysEmpty) {
  for (const char* ranks : {"", "-n 2 "}) {
    SCOPED_TRACE(ranks);
    const Outcome outcome = while_training(ranks, "mkdir new && mv run gone && mv new run");
    EXPECT_EQ(outcome.code, 1) << outcome.err;
    EXPECT_TRUE(contains(outcome.err, "run directory '" + directory + "/run' was ")) << outcome.err;
    for (const auto& entry : fs::directory_iterator(directory + "/run")) ADD_FAILURE() << entry.path();
    fs::remove_all(directory + "/run");
    fs::remove_all(directory + "/gone");
  }
}

// Runs without a launcher, each in a separate directory: the next run finds the memory of the killed one.
TEST_F(RunDirectoryCli, TheNextRunKeepsTheRecordOfAKilledOne) {
  fs::create_directory(directory + "/memory");
  const Outcome outcome = script("export TESSERA_RECORD_DIR=$PWD/memory\n$tessera train " + small +
                                 "--train.steps 10000000 &\njob=$!\n"
                                 "until_test grep -qs '\"step\":20,' run/metrics.jsonl\nkill -9 $job\nwait $job\n"
                                 "$tessera train " +
                                 small + "--run.directory next --train.steps 1\n");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(fs::is_empty(directory + "/memory"));
  int records = 0;
  for (const auto& entry : fs::directory_iterator(directory + "/run")) {
    EXPECT_FALSE(entry.is_symlink()) << entry.path();
    records += entry.path().filename().string().starts_with("rank-") ? 1 : 0;
  }
  EXPECT_EQ(records, 1);
}

TEST_F(RunDirectoryCli, KeepsTheRecordOfAKilledRank) {
  fs::create_directory(directory + "/memory");
  const std::string use_memory = "export TESSERA_RECORD_DIR=" + directory + "/memory\n";
  const Outcome outcome = script(use_memory + "$tessera train -n 2 " + small +
                                 "--train.steps 10000000 &\njob=$!\n"
                                 "until_test grep -qs '\"step\":20,' run/metrics.jsonl\nkill -9 " +
                                 pid_of_rank(1) + "\nwait $job\n");
  EXPECT_EQ(outcome.code, 137) << outcome.err;
  EXPECT_TRUE(fs::is_empty(directory + "/memory"));
  int records = 0;
  for (const auto& entry : fs::directory_iterator(directory + "/run")) {
    EXPECT_FALSE(entry.is_symlink()) << entry.path();
    records += entry.path().filename().string().starts_with("rank-") ? 1 : 0;
  }
  EXPECT_EQ(records, 2);
}

TEST_F(RunDirectoryCli, FilesArePrivateUnlessShared) {
  const auto expect_modes = [&](const std::string& path, unsigned of_directory, unsigned of_file) {
    EXPECT_EQ(mode(path), fs::perms(of_directory));
    for (const auto& entry : fs::recursive_directory_iterator(path))
      EXPECT_EQ(entry.status().permissions(), fs::perms(entry.is_directory() ? of_directory : of_file)) << entry.path();
  };
  const std::string all = "-n 1 --train.steps 3 --checkpoint.every 1 --dump-step 2 --profile-steps 1..2 " + small;
  ASSERT_EQ(train(all).code, 0);
  for (const char* format : {"torch-fr", "chrome", "torch-memory", "json"})
    ASSERT_EQ(in_directory(std::string("export run --to ") + format).code, 0);
  expect_modes(directory + "/run", 0700, 0600);
  fs::remove_all(directory + "/run");
  ASSERT_EQ(train(all + "--checkpoint.directory apart/checkpoints").code, 0);
  expect_modes(directory + "/run", 0700, 0600);
  expect_modes(directory + "/apart/checkpoints", 0700, 0600);
  ASSERT_EQ(in_directory("checkpoint reshard apart/checkpoints --ranks 2 --out resharded").code, 0);
  expect_modes(directory + "/resharded", 0700, 0600);
  fs::remove_all(directory + "/run");
  ASSERT_EQ(train("--run.shared true " + all).code, 0);
  expect_modes(directory + "/run", 0750, 0640);
  ASSERT_EQ(in_directory("run -n 1 --shared --run-dir launched -- true").code, 0);
  EXPECT_EQ(mode(directory + "/launched"), fs::perms(0750));
}

// Files that are written at once replace a link; appended files and folders that are links are rejected.
TEST_F(RunDirectoryCli, PlantedLinksAreNotFollowed) {
  fs::create_directory(directory + "/run");
  fs::create_directory(directory + "/victims");
  const auto plant = [&](const std::string& name) {
    if (name != "config.toml" && name != "checkpoints") std::ofstream(directory + "/victims/" + name) << "old";
    fs::create_symlink(directory + "/victims/" + name, directory + "/run/" + name);
  };
  for (const char* name : {"launch.json", "config.toml", "summary.json", "report.html"}) plant(name);
  const Outcome outcome = train("-n 1 --train.steps 2 " + small);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  for (const char* name : {"launch.json", "config.toml", "summary.json", "report.html"})
    EXPECT_FALSE(fs::is_symlink(directory + "/run/" + name)) << name;
  fs::remove_all(directory + "/run");
  for (const std::string name : {"metrics.jsonl", "loss.csv", "checkpoints"}) {
    SCOPED_TRACE(name);
    fs::create_directory(directory + "/run");
    plant(name);
    const Outcome refused = train("--train.steps 2 " + small);
    EXPECT_EQ(refused.code, 1);
    EXPECT_TRUE(contains(refused.err, "/run/" + name + "'")) << refused.err;
    EXPECT_TRUE(contains(refused.err, "symbolic link")) << refused.err;
    fs::remove_all(directory + "/run");
  }
  int victims = 0;
  for (const auto& entry : fs::directory_iterator(directory + "/victims")) {
    EXPECT_EQ(content(entry.path().string()), "old") << entry.path();
    ++victims;
  }
  EXPECT_EQ(victims, 5) << "nothing was made through a link that led nowhere";
}

// Files in folders that a run creates on demand.
TEST_F(RunDirectoryCli, PlantedLinksInFoldersAreNotFollowed) {
  fs::create_directory(directory + "/victims");
  const auto plant = [&](const std::string& name) {
    std::ofstream(directory + "/victims/" + fs::path(name).filename().string()) << "old";
    fs::create_directories(fs::path(directory + "/run/" + name).parent_path());
    fs::create_symlink(directory + "/victims/" + fs::path(name).filename().string(), directory + "/run/" + name);
  };
  const auto expect_replaced = [&](const std::string& name) {
    EXPECT_TRUE(fs::exists(directory + "/run/" + name)) << name;
    EXPECT_FALSE(fs::is_symlink(directory + "/run/" + name)) << name;
    EXPECT_EQ(content(directory + "/victims/" + fs::path(name).filename().string()), "old") << name;
  };
  const std::vector<std::string> files = {"dump-2/rank-0.safetensors", "profile-1/rank-0.trace.json",
                                          "profile-1/rank-0.memory.pickle"};
  for (const std::string& name : files) plant(name);
  ASSERT_EQ(train("-n 1 --train.steps 3 --dump-step 2 --profile-steps 1..2 " + small).code, 0);
  for (const std::string& name : files) expect_replaced(name);
  fs::remove_all(directory + "/run");
  plant("bad-step-2/rank-0.safetensors");
  EXPECT_EQ(
      train("-n 1 --train.steps 3 --optimizer.kind sgd --optimizer.learning_rate 1e30 --optimizer.clip 0 " + small)
          .code,
      1);
  expect_replaced("bad-step-2/rank-0.safetensors");
}

TEST_F(RunDirectoryCli, PlantedLinksOfReportsAreNotFollowed) {
  fs::create_directory(directory + "/victims");
  const Outcome outcome = while_training(
      "-n 2 ",
      "for f in explain.txt explain.json explain.claim; do echo old >victims/$f; touch -d 2001-01-01 victims/$f; "
      "ln -s $PWD/victims/$f run/$f; done\nkill -9 " +
          pid_of_rank(1));
  EXPECT_EQ(outcome.code, 137) << outcome.err;
  for (const char* name : {"explain.txt", "explain.json", "explain.claim"})
    EXPECT_EQ(content(directory + "/victims/" + name), "old\n") << name;
  EXPECT_FALSE(fs::is_symlink(directory + "/run/explain.txt"));
  EXPECT_TRUE(contains(content(directory + "/run/explain.txt"), "rank 1")) << outcome.err;
}

TEST_F(RunDirectoryCli, ASecondLauncherIsRefused) {
  const Outcome outcome = script(
      "$tessera run -n 1 --run-dir run -- sh -c 'touch up; until test -e go; do sleep 0.02; done' &\njob=$!\n"
      "until_test test -e up\nuntil_test test -s run/launch.json\ncp run/launch.json before\n$tessera run -n 1 "
      "--run-dir run -- touch second\n"
      "code=$?\ncmp run/launch.json before || exit 98\ntouch go\nwait $job || exit 97\nexit $code\n");
  EXPECT_EQ(outcome.code, 1) << outcome.err;
  EXPECT_TRUE(contains(outcome.err, directory + "/run' is in use by an active run")) << outcome.err;
  EXPECT_FALSE(fs::exists(directory + "/second"));
}

TEST_F(RunDirectoryCli, WithoutAReaderTrainingEndsWithACheckpoint) {
  const Outcome outcome = script("mkfifo pipe\n$tessera train -n 2 " + small +
                                 "--train.steps 10000000 >pipe &\njob=$!\n"
                                 "head -n 2 <pipe >/dev/null\nwait $job\n");
  EXPECT_EQ(outcome.code, 128 + SIGPIPE) << outcome.err;
  EXPECT_EQ(summary().at("end"), "interrupted");
  EXPECT_FALSE(fs::is_empty(directory + "/run/checkpoints"));
}

TEST_F(RunDirectoryCli, ATerminalThatClosesEndsTheRun) {
  const std::string script =
      "cd $TESSERA_RUN_DIR; trap 'touch end.$RANK; exit 0' HUP TERM; echo ready; touch up.$RANK; "
      "while :; do sleep 0.01; done";
  PseudoTerminal terminal({"run", "-n", "2", "--run-dir", directory + "/run", "--", "sh", "-c", script}, 80, 24);
  if (!terminal.is_there()) GTEST_SKIP() << "there are no pseudo-terminals here";
  wait_for("run/up.0");
  wait_for("run/up.1");
  terminal.hang_up();
  (void)terminal.end();
  EXPECT_TRUE(fs::exists(directory + "/run/end.0") && fs::exists(directory + "/run/end.1"));
  EXPECT_TRUE(nlohmann::json::parse(content(directory + "/run/launch.json")).contains("exit_code"));
}

TEST_F(RunDirectoryCli, ATerminalThatClosesEndsTrainingWithACheckpoint) {
  for (const std::string ranks : {"1", "2"}) {
    SCOPED_TRACE(ranks);
    PseudoTerminal terminal({"train",
                             "-n",
                             ranks,
                             "--model.width",
                             "32",
                             "--model.layers",
                             "1",
                             "--model.hidden",
                             "32",
                             "--model.sequence",
                             "16",
                             "--data.files",
                             directory + "/text",
                             "--eval.every",
                             "0",
                             "--eval.samples",
                             "8",
                             "--train.steps",
                             "10000000",
                             "--run.directory",
                             directory + "/run"},
                            80, 24);
    if (!terminal.is_there()) GTEST_SKIP() << "there are no pseudo-terminals here";
    while (content(directory + "/run/metrics.jsonl").find("\"step\":20,") == std::string::npos)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    terminal.hang_up();
    (void)terminal.end();
    EXPECT_EQ(summary().at("end"), "interrupted");
    EXPECT_EQ(summary().at("checkpoints").at("last"), summary().at("steps"));
    fs::remove_all(directory + "/run");
  }
}

TEST_F(RunDirectoryCli, ATerminalThatClosesLeavesARunThatIgnoresHangups) {
  const auto handler = ::signal(SIGHUP, SIG_IGN);  // as nohup does
  const std::string script =
      "cd $TESSERA_RUN_DIR; test -e again && exit 0; touch again up; "
      "until test -e go; do echo line; sleep 0.01; done; exit 7";
  PseudoTerminal terminal(
      {"run", "-n", "1", "--restarts", "1", "--run-dir", directory + "/run", "--", "sh", "-c", script}, 80, 24);
  ::signal(SIGHUP, handler);
  if (!terminal.is_there()) GTEST_SKIP() << "there are no pseudo-terminals here";
  wait_for("run/up");
  terminal.hang_up();
  ::kill(terminal.process(), SIGHUP);
  std::ofstream(directory + "/run/go") << "";
  EXPECT_EQ(terminal.end(), 0);
  EXPECT_EQ(nlohmann::json::parse(content(directory + "/run/launch.json")).at("starts").size(), 2U);
}

}  // namespace
}  // namespace tessera::cli::testing
