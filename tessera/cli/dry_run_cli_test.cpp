// Tests `tessera train --dry-run`. tessera/train/predict_test.cpp compares predictions with measurements.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tessera/cli/testing/train_directory.h"

namespace tessera::cli::testing {
namespace {

class DryRun : public TrainDirectory {};

TEST_F(DryRun, PrintsThePredictionAndStartsNothing) {
  const Outcome outcome = train("--dry-run --train.dtype f32");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(outcome.out.starts_with("llama tiny: ")) << outcome.out;
  for (const char* part : {"\nmesh dp=1 on 1 rank; ", "\nmemory per rank: ", "\n  parameters ", "\n  gradients ",
                           "\n  optimizer ", "\n  activations ", "\nfits: ", "\noperations: ",
                           "\ncommunication: none\n", "\ntime: about ", "\ndry run: nothing was started\n"})
    EXPECT_TRUE(contains(outcome.out, part)) << part << outcome.out;
  EXPECT_FALSE(std::filesystem::exists(directory + "/runs"));
}

TEST_F(DryRun, TakesAMeshOfAnySize) {
  const Outcome outcome =
      train("--dry-run --mesh.dp 4 --mesh.fsdp 8 --mesh.tp 2 --train.batch 64 --run.peak_flops 1e12");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  for (const char* part : {"mesh dp=4, fsdp=8, tp=2 on 64 ranks; ", "\n  all_gather     fsdp            8 ranks ",
                           " at 1 TFLOP/s (run.peak_flops)"})
    EXPECT_TRUE(contains(outcome.out, part)) << part << outcome.out;
}

TEST_F(DryRun, TakesAnyFamilyOfModels) {
  const Outcome outcome = train("--dry-run --model gpt2");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(outcome.out.starts_with("gpt2 tiny: ")) << outcome.out;
}

TEST_F(DryRun, ChecksTheOptionsOfTheRun) {
  const Outcome outcome = train("--dry-run -n 3 --mesh.tp 2");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_TRUE(contains(outcome.err, "must divide the world of 3 ranks, got 2")) << outcome.err;
}

TEST_F(DryRun, AModelThatDoesNotFitIsReportedWithFixes) {
  const Outcome outcome = script("TESSERA_HOST_CAPACITY=1MiB $tessera train --dry-run\n");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(contains(outcome.out, "\ndoes not fit: train: predicted peak ")) << outcome.out;
}

}  // namespace
}  // namespace tessera::cli::testing
