// Options of a config.toml, as a trainer writes them and as they may arrive.
#include <gtest/gtest.h>

#include "tessera/analysis/report/detail/configuration.h"

namespace tessera::analysis::detail {
namespace {

TEST(Configuration, AnOptionHasItsHelpItsValueAndItsDefaultIfItDiffers) {
  const auto options = options_of_toml(
      "[model]\n# Number of blocks (integer)\nlayers = 6  # default: 4\n# Share the weights\ntied = false\n\n"
      "[data]\n# Files: PATH\nfiles = [\"a # b\", \"c\\\"#\"]  # default: []\n");
  ASSERT_EQ(options.size(), 3U);
  EXPECT_EQ(options[0].name, "model.layers");
  EXPECT_EQ(options[0].value, "6");
  EXPECT_EQ(options[0].by_default, "4");
  EXPECT_EQ(options[0].help, "Number of blocks (integer)");
  EXPECT_EQ(options[1].name, "model.tied");
  EXPECT_EQ(options[1].value, "false");
  EXPECT_EQ(options[1].by_default, "");
  EXPECT_EQ(options[2].value, R"(["a # b", "c\"#"])") << "a quoted # is no comment";
  EXPECT_EQ(options[2].by_default, "[]");
  const PageJson rows = configuration_json(options);
  EXPECT_EQ(rows[0]["default"], "4");
  EXPECT_EQ(rows[1]["default"], nullptr);
}

TEST(Configuration, OtherLinesAreSkippedAndTextsAreBounded) {
  EXPECT_TRUE(options_of_toml("").empty());
  EXPECT_TRUE(options_of_toml("layers = 6\n[]\nx = 1\n[a b]\ny = 2\n[<b>]\nz = 3").empty()) << "no valid section";
  EXPECT_TRUE(options_of_toml("[a]\n<script> = 1\n= 2\nnothing\n").empty());
  const auto open = options_of_toml("[a]\nb = \"never closed # default: 1\nc = 2");
  ASSERT_EQ(open.size(), 2U);
  EXPECT_EQ(open[0].value, "\"never closed # default: 1");
  EXPECT_EQ(open[1].value, "2") << "the last line has no end";
  EXPECT_LT(options_of_toml("[a]\nb = " + std::string(100'000, 'x'))[0].value.size(), 3000U);
  std::string many = "[a]\n";
  for (int i = 0; i < 5000; ++i) many += "b = 1\n";
  EXPECT_EQ(options_of_toml(many).size(), 1000U);
}

TEST(Configuration, WithoutTheFileThereAreNoOptions) {
  EXPECT_TRUE(configured_options("/nonexistent").empty());
  EXPECT_TRUE(configuration_json({}).is_array());
}

}  // namespace
}  // namespace tessera::analysis::detail
