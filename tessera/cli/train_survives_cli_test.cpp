// Tests `tessera train` in adverse conditions: a full disk, and a scheduler that ends and restarts the job. Uses real
// processes, signals and a real full file system.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <nlohmann/json.hpp>

#include "tessera/cli/testing/train_directory.h"

namespace tessera::cli::testing {
namespace {

namespace fs = std::filesystem;

class Survives : public TrainDirectory {
 protected:
  // Returns the tensor files of each rank in a checkpoint, by name.
  static std::map<std::string, std::string> tensors(const std::string& checkpoint) {
    std::map<std::string, std::string> all;
    for (const auto& entry : fs::directory_iterator(checkpoint)) {
      const std::string name = entry.path().filename().string();
      if (name.starts_with("rank-")) all[name] = content(entry.path().string());
    }
    return all;
  }

  // A model that trains quickly.
  const std::string small =
      "--model.width 32 --model.layers 1 --model.hidden 32 --model.sequence 16 --model.dropout 0.1 --data.files text "
      "--eval.every 0 --eval.samples 8 --run.log_every 1 ";
};

// Gives this process and its children separate mounts; without root, in a new user namespace.
bool have_own_mounts() {
  const uid_t user = ::geteuid();
  const gid_t group = ::getegid();
  if (user == 0) return ::unshare(CLONE_NEWNS) == 0;
  if (::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
  const auto write = [](const char* path, const std::string& text) {
    return static_cast<bool>(std::ofstream(path) << text << std::flush);
  };
  return write("/proc/self/setgroups", "deny") && write("/proc/self/uid_map", "0 " + std::to_string(user) + " 1") &&
         write("/proc/self/gid_map", "0 " + std::to_string(group) + " 1");
}

// Mounts a file system of `nbytes` bytes in memory. Returns the reason for a failure, or "".
std::string mount_of(const std::string& where, std::uintmax_t nbytes) {
  fs::create_directory(where);
  const std::string options = "size=" + std::to_string(nbytes);
  if (!have_own_mounts()) return std::string("no mounts of its own: ") + std::strerror(errno);
  if (::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0)
    return std::string("mounts cannot be made private: ") + std::strerror(errno);
  if (::mount("tmpfs", where.c_str(), "tmpfs", 0, options.c_str()) != 0)
    return std::string("no tmpfs: ") + std::strerror(errno);
  return {};
}

// Returns the size of a directory there, where files occupy full pages.
std::uintmax_t pages_of(const std::string& path) {
  constexpr std::uintmax_t kPage = 4096;
  std::uintmax_t nbytes = kPage;
  for (const auto& entry : fs::recursive_directory_iterator(path))
    nbytes += entry.is_regular_file() ? (entry.file_size() + kPage - 1) / kPage * kPage : kPage;
  return nbytes;
}

TEST_F(Survives, AFullDiskKeepsTheLastGoodCheckpoint) {
  const std::string options = "train -n 2 --mesh.fsdp 2 " + small + "--train.steps 12 --checkpoint.every 2 ";
  const Outcome whole = in_directory(options + "--run.directory whole");
  ASSERT_EQ(whole.code, 0) << whole.err;
  const std::string last = "/step-000000012";
  // Room for one and a half checkpoints.
  const std::uintmax_t nbytes = pages_of(directory + "/whole/checkpoints" + last) * 3 / 2;
  const std::string reason = mount_of(directory + "/full", nbytes);
  if (!reason.empty()) GTEST_SKIP() << "needs a small file system: " << reason << "; as root there is one";

  const Outcome outcome = in_directory(options + "--checkpoint.directory full --run.directory run");
  EXPECT_EQ(outcome.code, 1) << "what it trained is not on disk\n" << outcome.out << outcome.err;
  EXPECT_TRUE(contains(outcome.out, "a checkpoint could not be written: ")) << outcome.out;
  EXPECT_TRUE(contains(outcome.out, "No space left on device")) << outcome.out;
  EXPECT_TRUE(contains(outcome.out, "step 12/12")) << outcome.out;
  EXPECT_TRUE(contains(outcome.out, "5 checkpoints could not be written")) << outcome.out;
  EXPECT_TRUE(contains(outcome.err, "No space left on device")) << "the log has it too\n" << outcome.err;
  const nlohmann::json told = summary("run");
  EXPECT_EQ(told.at("end"), "failed");
  EXPECT_TRUE(contains(told.at("reason"), "the last checkpoint could not be written")) << told.at("reason");
  EXPECT_TRUE(contains(told.at("reason"), "the same command resumes after step 2")) << told.at("reason");
  EXPECT_EQ(told.at("steps"), 12) << "training went on to its end";
  EXPECT_EQ(told.at("checkpoints").at("errors").size(), 5u) << told.at("checkpoints");
  EXPECT_EQ(told.at("checkpoints").at("last"), 2);
  EXPECT_EQ(content(directory + "/run/loss.csv"), content(directory + "/whole/loss.csv"));

  const Outcome verified = in_directory("checkpoint verify full");
  EXPECT_EQ(verified.code, 0) << verified.out << verified.err;
  const Outcome again = in_directory(options + "--run.directory again --checkpoint.resume full");
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_TRUE(contains(again.out, "resuming after step 2 from " + directory + "/full/step-000000002")) << again.out;
  const auto want = tensors(directory + "/whole/checkpoints" + last);
  EXPECT_EQ(want.size(), 2u);
  EXPECT_TRUE(tensors(directory + "/again/checkpoints" + last) == want) << "the same bits";
  EXPECT_EQ(::umount((directory + "/full").c_str()), 0);
}

// The disk is full for a while.
TEST_F(Survives, AFullRunDirectoryLosesLinesAndNothingElse) {
  const std::string reason = mount_of(directory + "/full", 64 << 20);
  if (!reason.empty()) GTEST_SKIP() << "needs a small file system: " << reason << "; as root there is one";
  const std::string command =
      "$tessera train -n 2 --mesh.fsdp 2 " + small +
      "--train.steps 3000 --checkpoint.every 3000 --run.directory full/run >said 2>&1 &\njob=$!\n";
  const std::string until = "() { until grep -qs \"$1\" said; do kill -0 $job || exit 99; sleep 0.02; done; }\n";
  const Outcome outcome =
      script("until_said" + until + command +
             "until_said 'step 20/'\ncat /dev/zero >full/ballast\n"
             "until_said 'a line of metrics.jsonl is lost'\nuntil_said 'a line of loss.csv is lost'\n"
             "rm full/ballast\nwait $job\n");
  const std::string said = content(directory + "/said");
  EXPECT_EQ(outcome.code, 1) << "lines are missing\n" << said << outcome.err;
  EXPECT_TRUE(contains(said, "metrics.jsonl can be written again; ")) << said;
  EXPECT_TRUE(contains(said, "missing from rank 0: ")) << said;
  EXPECT_TRUE(contains(said, "missing from rank 1: ")) << said;
  const nlohmann::json told = summary("full/run");
  EXPECT_EQ(told.at("end"), "done");
  EXPECT_EQ(told.at("checkpoints").at("last"), 3000);
  std::size_t missing = 6000;
  std::istringstream lines(content(directory + "/full/run/metrics.jsonl"));
  for (std::string line; std::getline(lines, line); --missing) EXPECT_TRUE(nlohmann::json::accept(line)) << line;
  EXPECT_GT(missing, 0u);
  const Outcome again = in_directory("train -n 2 --mesh.fsdp 2 " + small +
                                     "--train.steps 3000 --checkpoint.every 3000 --run.directory full/run");
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_TRUE(contains(again.out, "is already finished")) << again.out;
  EXPECT_EQ(::umount((directory + "/full").c_str()), 0);
}

TEST_F(Survives, ACheckpointOfATermCountsWhateverFailedBefore) {
  const Outcome outcome = script(
      "echo no directory >blocked\n$tessera train -n 2 " + small +
      "--train.steps 100000 --checkpoint.every 5 --checkpoint.directory blocked --run.directory run >said 2>&1 &\n"
      "job=$!\nuntil grep -qs 'could not be written' said; do kill -0 $job || exit 99; sleep 0.02; done\n"
      "rm blocked\nuntil ls blocked/step-*/index.json >list 2>&1; do kill -0 $job || exit 99; sleep 0.02; done\n"
      "kill $job\nwait $job\n");
  EXPECT_EQ(outcome.code, 0) << content(directory + "/said");
  EXPECT_EQ(summary("run").at("end"), "interrupted");
  EXPECT_EQ(summary("run").at("checkpoints").at("last"), summary("run").at("steps"));
}

// Returns a script for a job of two tasks as srun starts them, in the `start`-th start; it exits with 0 if both do.
std::string job(int number, int start, const std::string& command, const std::string& then = "") {
  std::string lines = "export SLURM_JOB_ID=" + std::to_string(number) +
                      " SLURM_STEP_ID=0 SLURM_NTASKS=2 SLURM_STEP_NUM_TASKS=2 SLURM_NODEID=0 "
                      "SLURM_STEP_TASKS_PER_NODE=2 SLURM_STEP_NODELIST=localhost SLURM_JOB_NODELIST=localhost\n";
  if (start > 0) lines += "export SLURM_RESTART_COUNT=" + std::to_string(start) + "\n";
  for (const char* task : {"0", "1"}) {
    lines += std::string("SLURM_PROCID=") + task + " SLURM_LOCALID=" + task + " $tessera train " + command + " &\n";
    lines += std::string("task") + task + "=$!\n";
  }
  return lines + then + "wait $task0 || exit 50\nwait $task1 || exit 51\n";
}

TEST_F(Survives, ARequeuedSlurmJobGoesOnWithTheSameCommand) {
  const std::string options = "--mesh.fsdp 2 " + small + "--train.steps 200 --checkpoint.every 50 ";
  const int number = ::getpid();
  const Outcome whole = script(job(number, 0, options + "--run.directory whole"));
  ASSERT_EQ(whole.code, 0) << whole.out << whole.err;
  // A scheduler preempts a job with SIGTERM to every task.
  const std::string preempt =
      "until grep -qs '\"step\":50,' runs/$SLURM_JOB_ID/metrics.jsonl; do kill -0 $task0 || exit 99; sleep 0.02; done\n"
      "kill -TERM $task0 $task1\n";
  const std::string command = options + "--run.directory runs/$SLURM_JOB_ID";
  const std::string run = "runs/" + std::to_string(number);
  const Outcome stopped = script(job(number, 0, command, preempt));
  ASSERT_EQ(stopped.code, 0) << "it ends in order\n" << stopped.out << stopped.err;
  const nlohmann::json first = summary(run);
  EXPECT_EQ(first.at("end"), "interrupted");
  EXPECT_EQ(first.at("checkpoints").at("last"), first.at("steps"));
  EXPECT_LT(first.at("steps"), 200);

  const Outcome done = script(job(number, 1, command));
  ASSERT_EQ(done.code, 0) << done.out << done.err;
  EXPECT_TRUE(contains(done.out, "resuming after step " + first.at("steps").dump())) << done.out;
  const nlohmann::json second = summary(run);
  EXPECT_EQ(second.at("end"), "done");
  EXPECT_EQ(second.at("resumed_from"), nlohmann::json::array({first.at("steps")}));
  EXPECT_EQ(content(directory + "/" + run + "/loss.csv"), content(directory + "/whole/loss.csv"));
  const auto want = tensors(directory + "/whole/checkpoints/step-000000200");
  EXPECT_EQ(want.size(), 2u);
  EXPECT_TRUE(tensors(directory + "/" + run + "/checkpoints/step-000000200") == want) << "the same bits";
}

// A failing node ends the job without a signal; Slurm restarts it on another node.
TEST_F(Survives, ASlurmJobWhoseMachineFailedGoesOnFromItsLastCheckpoint) {
  const std::string command =
      "--mesh.fsdp 2 " + small + "--train.steps 200 --checkpoint.every 20 --run.directory runs/$SLURM_JOB_ID";
  const int number = ::getpid();
  const std::string run = "runs/" + std::to_string(number);
  const std::string fail =
      "until grep -qs '\"step\":50,' runs/$SLURM_JOB_ID/metrics.jsonl; do kill -0 $task0 || exit 99; sleep 0.02; done\n"
      "kill -KILL $task0 $task1\n";
  EXPECT_EQ(script(job(number, 0, command, fail)).code, 50);
  const Outcome done = script(job(number, 1, command));
  ASSERT_EQ(done.code, 0) << done.out << done.err;
  EXPECT_EQ(summary(run).at("end"), "done");
  ASSERT_EQ(summary(run).at("resumed_from").size(), 1u);
  EXPECT_GE(summary(run).at("resumed_from").at(0), 20) << "the one of step 40 may not have been whole";
  const Outcome whole = script(
      job(number, 0, "--mesh.fsdp 2 " + small + "--train.steps 200 --checkpoint.every 20 --run.directory whole"));
  ASSERT_EQ(whole.code, 0) << whole.err;
  EXPECT_TRUE(tensors(directory + "/" + run + "/checkpoints/step-000000200") ==
              tensors(directory + "/whole/checkpoints/step-000000200"))
      << "the same bits";
}

}  // namespace
}  // namespace tessera::cli::testing
