// The section [sharding]: rows of the table, their errors, equal numbers under other tables, and the printed table.
#include <gtest/gtest.h>

#include "tessera/base/error.h"
#include "tessera/base/testing/expect_error.h"
#include "tessera/train/make_model.h"
#include "tessera/train/plan.h"
#include "tessera/train/testing/runs.h"

namespace tessera::train {
namespace {

Config on(int dp, int fsdp, int tp) { return testing::on_mesh(testing::small_config(), dp, fsdp, tp); }

TEST(Sharding, RowsReplaceThoseOfTheStandardTable) {
  Config config = on(2, 2, 2);
  config.train.batch = 8;
  set(config, "sharding.mlp", "");
  set(config, "sharding.vocab", "fsdp+tp");
  set(config, "sharding.batch", "tp+dp");
  set(config, "sharding.heads", "none");
  set(config, "sharding.sequence", "");
  set(config, "sharding.other", "patch=dp");
  const ParallelPlan plan = ParallelPlan::create(config, 8);
  const auto text = [&](const nn::Meaning& meaning) {
    return plan.table().layout_of(plan.mesh(), meaning, "x").placements_text();
  };
  EXPECT_EQ(text({"mlp"}), "{Replicate(), Replicate(), Replicate()}");
  EXPECT_EQ(text({"vocab"}), "{Replicate(), Shard(0), Shard(0)}");
  EXPECT_EQ(text({"patch"}), "{Shard(0), Replicate(), Replicate()}");
  EXPECT_EQ(plan.batch_ranks(), 4);
  EXPECT_EQ(plan.own_rows(), 2);
  // Rank 3 is at dp 0, fsdp 1, tp 1: the third of 4 shards of the batch.
  EXPECT_EQ(plan.data_place(Rank(3)), 2);
  EXPECT_EQ(plan.sample_numbers(1, Rank(3)), (std::vector<std::uint64_t>{12, 13}));
}

TEST(Sharding, ErrorsNameTheOption) {
  const auto refuses = [](const Config& base, const char* name, const char* value,
                          std::initializer_list<std::string_view> words) {
    Config config = base;
    set(config, name, value);
    const int ranks = config.mesh.dp * config.mesh.fsdp * config.mesh.tp;
    expect_error<InvalidArgument>([&] { (void)resolved(config, ranks); }, words);
  };
  refuses(on(1, 1, 1), "sharding.mlp", "pp", {"sharding.mlp: must be axes of the mesh (dp, fsdp, tp)", "got 'pp'"});
  refuses(on(1, 1, 1), "sharding.mlp", "tp+", {"sharding.mlp: must be", "got 'tp+'"});
  refuses(on(1, 1, 1), "sharding.parameters", "fsdp+dp", {"sharding.parameters: must be", "must name one axis"});
  refuses(on(1, 1, 1), "sharding.other", "patch", {"sharding.other: must be MEANING=AXES", "got 'patch'"});
  refuses(on(1, 1, 1), "sharding.other", "patch=pp", {"sharding.other: must be", "got 'pp'"});
  Config config = on(1, 5, 1);
  config.train.batch = 5;
  refuses(config, "sharding.mlp", "fsdp",
          {"model.hidden: must be a multiple of sharding.mlp = \"fsdp\" (5), got 48; use 50, or change sharding.mlp"});
  refuses(on(2, 1, 4), "sharding.batch", "dp+tp", {"train.batch: must be a multiple of 8 (sharding.batch dp+tp x"});
}

TEST(Sharding, OtherTablesTrainTheSameModel) {
  Config config = testing::small_config();
  config.train.steps = 10;
  const testing::Curve want = testing::run_on_ranks(config);
  const auto expect_same = [&](Config changed, std::initializer_list<std::pair<const char*, const char*>> rows) {
    std::string text;
    for (const auto& [name, axes] : rows) {
      set(changed, name, axes);
      text += std::string(name) + " = \"" + axes + "\" ";
    }
    EXPECT_EQ(testing::difference(testing::run_on_ranks(changed), want, 1e-5), "")
        << text << testing::mesh_name(changed.mesh);
  };
  const Config tp = testing::on_mesh(config, 1, 1, 2);
  const Config both = testing::on_mesh(config, 1, 2, 2);
  expect_same(tp, {{"sharding.mlp", ""}});
  expect_same(tp, {{"sharding.heads", ""}, {"sharding.sequence", ""}});
  expect_same(tp, {{"sharding.vocab", ""},
                   {"sharding.parameters", "tp"},
                   {"sharding.heads", ""},
                   {"sharding.mlp", ""},
                   {"sharding.sequence", ""},
                   {"sharding.batch", "tp"}});
  expect_same(both, {{"sharding.parameters", ""}});
  expect_same(both, {{"sharding.batch", "dp"}});
  expect_same(testing::on_mesh(config, 2, 2, 1), {{"sharding.parameters", "dp"}, {"sharding.batch", "fsdp+dp"}});
}

TEST(Sharding, IsPrintedForEveryParameter) {
  const std::string text = sharding_text(resolved(on(1, 2, 2), 4));
  EXPECT_NE(text.find("mesh: dp=1, fsdp=2, tp=2\n[sharding]\nbatch = \"dp+fsdp\"\n"), std::string::npos) << text;
  EXPECT_NE(text.find("layers.1.mlp.down_proj.weight"), std::string::npos) << text;
  EXPECT_NE(text.find("{Replicate(), Shard(0), Shard(1)}"), std::string::npos) << text;
  // f32[32, 48] over 4 ranks.
  EXPECT_NE(text.find("1.5 KiB"), std::string::npos) << text;
  Config config = on(1, 2, 2);
  set(config, "sharding.embed", "tp");
  expect_error<InvalidArgument>(
      [&] { (void)sharding_text(resolved(config, 4)); },
      {"dimensions of parameter embed_tokens.weight must use different axes", "got tp for both vocab and embed"});
  Config largest;
  largest.model.preset = "405b";  // in shapes alone: its parameters have 1.6 TB
  largest.mesh = {.dp = 1, .fsdp = 8, .tp = 8};
  EXPECT_NE(sharding_text(resolved(largest, 64)).find("lm_head.weight"), std::string::npos);
  EXPECT_NE(sharding_text(resolved(on(1, 1, 1), 1)).find("lm_head.weight"), std::string::npos);
}

}  // namespace
}  // namespace tessera::train
