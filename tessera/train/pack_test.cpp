// data.pack: documents that share a sample do not attend to each other. nn/packing.h has tests of the values.
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "tessera/base/error.h"
#include "tessera/base/rank.h"
#include "tessera/base/testing/expect_error.h"
#include "tessera/comm/world.h"
#include "tessera/train/detail/resume.h"
#include "tessera/train/run.h"
#include "tessera/train/testing/runs.h"
#include "tessera/train/testing/told_runs.h"

namespace tessera::train {
namespace {

constexpr std::uint32_t kEndOfText = 6;  // the synthetic samples contain it

std::vector<double> losses_of(const Config& given) {
  std::vector<double> losses;
  const int ranks = given.mesh.dp * given.mesh.fsdp * given.mesh.tp;
  simulate(ranks, [&] {
    const Config config = resolved(given, ranks);
    const SampleReader samples = testing::synthetic_samples(config);
    Trainer trainer(config, samples, kEndOfText);
    std::vector<double> own;
    while (trainer.step_count() < 8) own.push_back(trainer.step().loss);
    own.push_back(trainer.evaluate(samples, 8));
    (void)trainer.sample({kEndOfText}, 4, 0, 1);  // generates without documents
    own.push_back(trainer.evaluate(samples, 8));
    if (current_place().rank == Rank(0)) losses = std::move(own);
  });
  return losses;
}

TEST(Pack, HasTheSameLossesOnEveryMesh) {
  for (const char* family : {"llama", "gpt2"}) {
    Config config = testing::small_config();
    config.model.family = family;
    if (config.model.family == "gpt2") config.model.kv_heads = config.model.heads;
    const std::vector<double> apart = losses_of(config);
    config.data.pack = true;
    const std::vector<double> want = losses_of(config);
    EXPECT_GT(std::abs(want[0] - apart[0]), 1e-5 * want[0]) << family;
    EXPECT_EQ(want[8], want[9]) << family;
    for (const auto& [dp, fsdp, tp] : {std::array{2, 1, 1}, {1, 2, 2}}) {
      const std::vector<double> got = losses_of(testing::on_mesh(config, dp, fsdp, tp));
      for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-5 * want[i]) << family << i;
    }
  }
}

TEST(Pack, RefusesWhatItCannotSplit) {
  Config config = testing::small_config();
  config.data.pack = true;
  expect_error<InvalidArgument>(
      [&] { (void)Trainer(resolved(config, 1), testing::synthetic_samples(resolved(config, 1))); },
      {"data.pack: requires the end-of-text token"});
  Config replayed = config;
  replayed.train.graph = true;
  expect_error<InvalidArgument>([&] { (void)resolved(replayed, 1); },
                                {"data.pack: requires steps without train.graph"});
  Config now = config;
  now.data.pack = false;
  EXPECT_EQ(detail::differing_options(config, now), "data.pack is false here, and was true");
}

class PackedRun : public testing::ToldRuns {};

TEST_F(PackedRun, TakesTheEndOfTextTokenOfItsTokenizer) {
  Config packed = config();
  packed.data.pack = true;
  const RunSummary summary = run_and(packed);
  EXPECT_EQ(summary.end, RunEnd::kDone);
  EXPECT_LT(*summary.last_loss, *summary.first_loss);
}

}  // namespace
}  // namespace tessera::train
