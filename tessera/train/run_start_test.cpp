// A start in a directory that holds a run: it changes nothing if it is rejected or the run is finished, and it warns
// about requests for earlier steps.
#include <gtest/gtest.h>

#include <csignal>
#include <nlohmann/json.hpp>

#include "tessera/base/error.h"
#include "tessera/base/testing/expect_error.h"
#include "tessera/comm/world.h"
#include "tessera/train/checkpoint/testing/checkpoints.h"
#include "tessera/train/detail/run_signals.h"
#include "tessera/train/run.h"
#include "tessera/train/testing/told_runs.h"

namespace tessera::train {
namespace {

namespace fs = std::filesystem;
using testing::contains;
using testing::content;

class RunStart : public testing::ToldRuns {
 protected:
  // Returns every file of the run, by its path.
  [[nodiscard]] std::map<std::string, std::string> files() const {
    std::map<std::string, std::string> all;
    for (const auto& entry : fs::recursive_directory_iterator(path())) {
      if (entry.is_regular_file()) all[entry.path().string()] = content(entry.path());
    }
    return all;
  }
};

TEST_F(RunStart, OtherDataAreRefusedBeforeAnythingIsChanged) {
  Config stopped = config();
  EXPECT_EQ(run_and(stopped, "step 5/").end, RunEnd::kInterrupted);
  std::ofstream(path("other")) << std::string(9000, 'x');
  Config other = config();
  other.data.files = {path("other").string()};
  const auto before = files();
  expect_error<InvalidArgument>([&] { (void)run_and(other); }, {"the data differ"});
  EXPECT_TRUE(files() == before);
  EXPECT_FALSE(contains(said, "resuming after step")) << said;
  simulate(2, [&] {
    try {
      (void)run(other, nullptr);
      ADD_FAILURE() << "two ranks must refuse it too";
    } catch (const Error&) {  // that of this rank, or of the other
    }
  });
  EXPECT_TRUE(files() == before);
  other.model.vocabulary = 16;  // too small for the data
  EXPECT_ANY_THROW((void)run_and(other));
  EXPECT_TRUE(files() == before);
}

TEST_F(RunStart, ARunThatIsAskedToEndBeforeItsFirstStepChangesNothing) {
  {
    const detail::RunSignals signals;
    ::raise(SIGTERM);
    EXPECT_EQ(run_and(config()).end, RunEnd::kInterrupted);
  }
  EXPECT_EQ(said, "interrupted: stop requested before the first step; run the same command to start again\n");
  EXPECT_FALSE(fs::exists(path()));
  EXPECT_EQ(run_and(config(), "step 6/").end, RunEnd::kInterrupted);
  // The signal arrives while checkpoints are verified: the newest is corrupt, and reported.
  const fs::path newest = path() / "checkpoints" / "step-000000006" / "rank-000000.safetensors";
  testing::flip_byte(newest, static_cast<std::int64_t>(fs::file_size(newest)) - 3);
  const auto before = files();
  EXPECT_EQ(run_and(config(), "checkpoint ").end, RunEnd::kInterrupted);
  EXPECT_TRUE(contains(said, "is skipped")) << said;
  EXPECT_TRUE(contains(said, "stop requested before the first step")) << said;
  EXPECT_TRUE(files() == before);
  EXPECT_EQ(run_and(config()).end, RunEnd::kDone);
}

TEST_F(RunStart, AVocabularyThatIsTooSmallIsNamedWithOneThatFits) {
  Config small = config();
  small.model.vocabulary = 100;
  expect_error<InvalidArgument>(
      [&] { (void)run_and(small); },
      {"model.vocabulary: must be larger than every token of data.files, got 100 with token 255; "
       "use --model.vocabulary 256 or more"});
  std::vector<std::uint16_t> tokens(2000, 7);
  tokens[1000] = 4242;
  std::ofstream(path("tokens"), std::ios::binary)
      .write(reinterpret_cast<const char*>(tokens.data()), static_cast<std::streamsize>(2 * tokens.size()));
  small.data.files = {path("tokens").string()};
  small.data.format = "u16";
  small.mesh.tp = 2;
  simulate(2, [&] {
    expect_error<InvalidArgument>([&] { (void)run(small, nullptr); },
                                  {"got 100 with token 4242; use --model.vocabulary 4244 or more"});
  });
  EXPECT_FALSE(fs::exists(path())) << "a rejected start leaves no empty directory";
  fs::create_directory(path());
  EXPECT_ANY_THROW((void)run_and(small));
  EXPECT_TRUE(fs::exists(path())) << "but one that was there stays";
}

TEST_F(RunStart, TellsWhatItIsAboutToDo) {
  (void)run_and(config());
  EXPECT_TRUE(said.starts_with("llama tiny (changed): ")) << said;
  EXPECT_TRUE(contains(said, " parameters, 1 layer, vocabulary 260, sequence 16\ndata: ")) << said;
  EXPECT_TRUE(contains(said, " held out; from " + path("text").string() +
                                 "\nmesh dp=1 on 1 rank (host); batch 4 x 16 tokens; f32 compute, f32 "
                                 "state\ncompute: oneDNN "))
      << said;
  EXPECT_TRUE(contains(said, " GFLOP/s per thread; ")) << said;
  EXPECT_TRUE(contains(said, " per rank predicted (parameters ")) << said;
  EXPECT_TRUE(contains(said, " free on host\nrun directory: " + path().string() + "\nstep 1/12 ")) << said;
}

TEST_F(RunStart, AFinishedRunHasNothingToDo) {
  EXPECT_FALSE(run_and(config()).was_finished);
  const auto before = files();
  Config again = config();
  again.run.log_every = 3;
  const RunSummary summary = run_and(again);
  EXPECT_TRUE(summary.was_finished);
  EXPECT_EQ(summary.end, RunEnd::kDone);
  EXPECT_EQ(summary.steps, 12);
  EXPECT_EQ(said, "the run in " + path().string() + " is already finished with these options; nothing to do\n");
  again.mesh.fsdp = 2;  // possible after ranks were lost
  simulate(2, [&] { EXPECT_TRUE(run(again, nullptr).was_finished); });
  EXPECT_TRUE(is_finished_already(again, path().string(), 2));
  EXPECT_TRUE(files() == before);

  const auto refuses = [&](const std::string& words, const std::function<void(Config&)>& change) {
    Config changed = config();
    change(changed);
    expect_error<IoError>([&] { (void)run_and(changed); },
                          {"already contains a finished run", words, "--run.directory"});
    expect_error<IoError>([&] { (void)is_finished_already(changed, path().string(), 1); },
                          {"already contains a finished run"});
    EXPECT_TRUE(files() == before) << words;
  };
  refuses("train.seed is 2 here, and was 1", [](Config& c) { c.train.seed = 2; });
  refuses("train.steps is 10 here, and was 12", [](Config& c) { c.train.steps = 10; });
  refuses("run.sample is 5 here, and was 0", [](Config& c) { c.run.sample = 5; });
  refuses("data.files", [&](Config& c) { c.data.files = {path("other").string()}; });
}

TEST_F(RunStart, WhoStartsRanksIsToldFirstThatTheyWillBeRefused) {
  EXPECT_FALSE(is_finished_already(config(), path().string(), 1)) << "there is nothing yet";
  EXPECT_FALSE(fs::exists(path())) << "and there still is not";
  EXPECT_EQ(run_and(config(), "step 5/").end, RunEnd::kInterrupted);
  const auto before = files();
  EXPECT_FALSE(is_finished_already(config(), path().string(), 2)) << "it goes on";
  Config other = config();
  other.train.seed = 2;
  expect_error<InvalidArgument>([&] { (void)is_finished_already(other, path().string(), 1); }, {"train.seed is 2"});
  other = config();
  std::ofstream(path("other")) << std::string(9000, 'x');
  other.data.files = {path("other").string()};
  expect_error<InvalidArgument>([&] { (void)is_finished_already(other, path().string(), 1); }, {"the data differ"});
  other = config();
  other.checkpoint.resume = "never";
  expect_error<IoError>([&] { (void)is_finished_already(other, path().string(), 1); }, {"never"});
  fs::remove_all(path() / "checkpoints");
  other = config();
  other.train.seed = 2;
  expect_error<IoError>([&] { (void)is_finished_already(other, path().string(), 1); }, {"no valid checkpoint"});
  std::string refused;
  const testing::LineListener out([&](const std::string& line) {
    if (!line.starts_with("step 5/") || !refused.empty()) return;
    expect_error<IoError>([&] { (void)is_finished_already(config(), path().string(), 1); },
                          {"is in use by an active run"});
    refused = line;
  });
  EXPECT_EQ(run(config(), out.file()).end, RunEnd::kDone);
  EXPECT_FALSE(refused.empty());
}

TEST_F(RunStart, StepsThatWereAskedForAndAreBehindAreTold) {
  EXPECT_EQ(run_and(config(), "step 5/").end, RunEnd::kInterrupted);
  Config late = config();
  late.run.dump_step = 3;
  late.run.profile_steps = "2..5";
  EXPECT_EQ(run_and(late).end, RunEnd::kDone);
  EXPECT_TRUE(contains(said, "run.dump_step 3 is before the resume step, 5")) << said;
  EXPECT_TRUE(contains(said, "run.profile_steps 2..5 is before the resume step, 5")) << said;
  Config early = config("early");
  early.run.dump_step = 3;
  EXPECT_EQ(run_and(early, "step 5/").end, RunEnd::kInterrupted);
  EXPECT_EQ(run_and(early).end, RunEnd::kDone);
  EXPECT_FALSE(contains(said, "is before the resume step")) << "the start before has written it\n" << said;
}

TEST_F(RunStart, ADirectoryMayHaveANameThatIsNoUtf8) {
  Config strange = config("run\xff\xc3");
  strange.mesh.fsdp = 2;
  simulate(2, [&] { EXPECT_EQ(run(strange, nullptr).end, RunEnd::kDone); });
  const auto summary = nlohmann::json::parse(content(path("run\xff\xc3") / "summary.json"));
  EXPECT_EQ(summary.at("end"), "done");
  EXPECT_EQ(summary.at("checkpoints").at("last"), 12);
  EXPECT_EQ(summary.at("checkpoints").at("errors"), nlohmann::json::array());
  simulate(2, [&] { EXPECT_TRUE(run(strange, nullptr).was_finished); });
}

}  // namespace
}  // namespace tessera::train
