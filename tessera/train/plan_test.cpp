// Plans: layouts, rejected configurations, and the samples of each rank.
#include "tessera/train/plan.h"

#include <gtest/gtest.h>

#include <set>

#include "tessera/base/error.h"
#include "tessera/base/testing/expect_error.h"
#include "tessera/train/detail/shrinking.h"
#include "tessera/train/testing/runs.h"

namespace tessera::train {
namespace {

Config on(int dp, int fsdp, int tp) { return testing::on_mesh(testing::small_config(), dp, fsdp, tp); }

TEST(ParallelPlan, AWorldOfOneHasNoMesh) {
  const ParallelPlan plan = ParallelPlan::create(on(1, 1, 1), 1);
  EXPECT_FALSE(plan.mesh());
  EXPECT_FALSE(plan.batch_layout(2));
}

TEST(ParallelPlan, ShardsParametersOverTpAndFsdp) {
  const ParallelPlan plan = ParallelPlan::create(on(2, 2, 2), 8);
  const auto stored = [&](const Shape& shape, const nn::Meaning& meaning) {
    return plan.table().layouts_of(plan.mesh(), shape, meaning, "w").stored.placements_text();
  };
  EXPECT_EQ(plan.table().layouts_of(plan.mesh(), {32, 32}, {"heads", "embed"}, "w").in_use.placements_text(),
            "{Replicate(), Replicate(), Shard(0)}");
  EXPECT_EQ(stored({32, 32}, {"heads", "embed"}), "{Replicate(), Shard(0, order=1), Shard(0, order=0)}");
  EXPECT_EQ(stored({32, 32}, {"embed", "heads"}), "{Replicate(), Shard(0), Shard(1)}");
  EXPECT_EQ(stored({32}, {"embed"}), "{Replicate(), Shard(0), Replicate()}");
  const auto activation = [&](const nn::ShardingTable& table, const nn::Meaning& meaning) {
    return table.layout_of(plan.mesh(), meaning, "x").placements_text();
  };
  EXPECT_EQ(activation(plan.table(), {"batch", "sequence", "embed"}), "{Shard(0), Shard(0), Shard(1)}");
  EXPECT_EQ(activation(plan.table(), {"batch", "", "embed"}), "{Shard(0), Shard(0), Replicate()}");
  EXPECT_EQ(activation(plan.table().with("batch", ""), {"batch", "", "embed"}),
            "{Replicate(), Replicate(), Replicate()}");
}

TEST(ParallelPlan, WhatDoesNotFitIsRefusedWithTheReason) {
  const auto refuses = [](const Config& config, int ranks, std::initializer_list<std::string_view> words) {
    expect_error<InvalidArgument>([&] { (void)ParallelPlan::create(config, ranks); }, words);
  };
  refuses(on(2, 1, 2), 8, {"mesh.dp 2 x mesh.fsdp 1 x mesh.tp 2 must equal the world of 8 ranks, got 4"});
  Config config = on(1, 1, 8);
  refuses(config, 8, {"model.kv_heads: must be a multiple of mesh.tp (8), got 4"});
  config = on(1, 1, 3);
  refuses(config, 3, {"model.heads: must be a multiple of mesh.tp (3), got 8"});
  config = on(1, 1, 4);
  config.model.hidden = 50;
  refuses(config, 4, {"model.hidden: must be a multiple of mesh.tp (4), got 50"});
  config = on(1, 1, 4);
  config.model.sequence = 6;
  refuses(config, 4, {"model.sequence: must be a multiple of mesh.tp (4), got 6"});
  config.mesh.sequence_parallel = false;
  EXPECT_NO_THROW((void)ParallelPlan::create(config, 4));
  config = on(1, 1, 4);
  config.model.vocabulary = 33;
  refuses(config, 4, {"model.vocabulary: must be a multiple of mesh.tp (4), got 33"});
  config = on(4, 2, 1);
  refuses(config, 8, {"train.batch: must be a multiple of", "mesh.dp 4 x mesh.fsdp 2", "got 4"});
  config = on(2, 1, 1);
  config.train.accumulate = 3;
  refuses(config, 2, {"train.batch: must be a multiple of", "train.accumulate 3", "got 4"});
  config = on(1, 1, 1);
  config.model.heads = 3;
  config.model.kv_heads = 1;
  refuses(config, 1, {"model.width: must be a multiple of model.heads (3), got 32"});
  config.model.heads = 32;
  refuses(config, 1, {"model.width / model.heads: must be even, got 32 / 32 = 1"});
}

TEST(ParallelPlan, EverySampleIsReadOnceWhateverTheMesh) {
  for (const auto& [dp, fsdp, tp] : {std::array{1, 1, 1}, {4, 1, 1}, {2, 2, 2}, {1, 2, 4}}) {
    Config config = on(dp, fsdp, tp);
    config.train.batch = 8;
    config.train.accumulate = 2;
    const int ranks = dp * fsdp * tp;
    const ParallelPlan plan = ParallelPlan::create(config, ranks);
    std::multiset<std::uint64_t> read;
    for (int rank = 0; rank < ranks; ++rank) {
      for (const std::uint64_t k : {4U, 5U}) {
        for (const std::uint64_t number : plan.sample_numbers(k, Rank(rank))) read.insert(number);
      }
    }
    for (std::uint64_t number = 16; number < 24; ++number) {
      EXPECT_EQ(read.count(number), static_cast<std::size_t>(tp)) << number;
    }
    EXPECT_EQ(read.size(), static_cast<std::size_t>(8 * tp));
  }
}

TEST(SmallerMesh, KeepsTensorRanksAndTakesAsManyAsShareTheBatch) {
  const auto smaller = [](MeshConfig mesh, std::int64_t batch, std::int64_t accumulate, int ranks) -> std::string {
    Config config;
    config.mesh = mesh;
    config.train.batch = batch;
    config.train.accumulate = accumulate;
    const auto found = detail::smaller_mesh(config, ranks);
    if (!found) return "none";
    return std::to_string(found->dp) + " " + std::to_string(found->fsdp) + " " + std::to_string(found->tp);
  };
  EXPECT_EQ(smaller({.dp = 4, .fsdp = 1, .tp = 1}, 8, 1, 3), "2 1 1");
  EXPECT_EQ(smaller({.dp = 4, .fsdp = 1, .tp = 1}, 12, 1, 3), "3 1 1");
  EXPECT_EQ(smaller({.dp = 2, .fsdp = 2, .tp = 1}, 8, 1, 3), "1 2 1") << "pieces stay where they can";
  EXPECT_EQ(smaller({.dp = 1, .fsdp = 4, .tp = 1}, 8, 1, 3), "1 2 1");
  EXPECT_EQ(smaller({.dp = 2, .fsdp = 1, .tp = 2}, 8, 1, 3), "1 1 2");
  EXPECT_EQ(smaller({.dp = 2, .fsdp = 1, .tp = 2}, 8, 1, 1), "none");
  EXPECT_EQ(smaller({.dp = 8, .fsdp = 1, .tp = 1}, 8, 1, 7), "4 1 1");
  EXPECT_EQ(smaller({.dp = 2, .fsdp = 1, .tp = 1}, 8, 8, 1), "1 1 1");
}

}  // namespace
}  // namespace tessera::train
