#include "tessera/train/flops.h"

#include <gtest/gtest.h>

namespace tessera::train {
namespace {

ModelConfig preset(const char* name, bool tied) {
  Config config;
  config.model.preset = name;
  config.model.tied = tied;
  return resolved(config, 1).model;
}

TEST(Flops, CountsAModelByHand) {
  // Width 4, one block, 2 heads of 2, 1 of keys: matrices 4x4 (q), 4x2 (k), 4x2 (v), 4x4 (o), three of 4x6, head 4x8.
  const ModelConfig model{
      .width = 4, .layers = 1, .heads = 2, .kv_heads = 1, .hidden = 6, .vocabulary = 8, .sequence = 10};
  const double matrices = 16 + 8 + 8 + 16 + 3 * 24 + 32;
  const double attention = 2 * (2 * 10 * 4);  // scores, then values: 10 keys, 4 elements each
  EXPECT_DOUBLE_EQ(flops_per_token(model).full, 3 * (2 * matrices + attention));
  EXPECT_DOUBLE_EQ(flops_per_token(model).causal, 3 * (2 * matrices + attention / 2));
  EXPECT_EQ(parameter_count(model), 32 + 32 + 3 * 4 + 120);
}

TEST(Flops, PresetsHaveTheSizesTheyAreNamedFor) {
  EXPECT_NEAR(static_cast<double>(parameter_count(preset("124m", true))) / 1e6, 124, 1);
  EXPECT_NEAR(static_cast<double>(parameter_count(preset("1b", true))) / 1e9, 1.24, 0.01);
  EXPECT_NEAR(static_cast<double>(parameter_count(preset("8b", false))) / 1e9, 8.03, 0.01);
}

TEST(Flops, AreAboutSixForEachNumberOfALargeModel) {
  const ModelConfig model = preset("8b", false);
  const double six = 6 * static_cast<double>(parameter_count(model));
  EXPECT_GT(flops_per_token(model).full, six);
  EXPECT_LT(flops_per_token(model).full, 1.3 * six);
}

}  // namespace
}  // namespace tessera::train
