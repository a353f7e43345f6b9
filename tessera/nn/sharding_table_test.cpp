// The sharding table: layouts by meaning, and its errors.
#include "tessera/nn/sharding_table.h"

#include <gtest/gtest.h>

#include "tessera/base/error.h"
#include "tessera/base/testing/expect_error.h"

namespace tessera::nn {
namespace {

const layout::Mesh& mesh() {
  static const layout::Mesh all = layout::Mesh::create({{"dp", 2}, {"fsdp", 2}, {"tp", 4}});
  return all;
}

TEST(ShardingTable, MapsMeaningsToAxes) {
  const ShardingTable table({{"batch", "dp+fsdp"}, {"mlp", "tp"}, {"embed", ""}});
  EXPECT_EQ(table.layout_of(mesh(), {"batch", "", "mlp"}, "x").placements_text(), "{Shard(0), Shard(0), Shard(2)}");
  EXPECT_EQ(table.layout_of(mesh(), {"embed"}, "x").placements_text(), "{Replicate(), Replicate(), Replicate()}");
  EXPECT_FALSE(table.layout_of(layout::Mesh(), {"batch"}, "x")) << "no mesh, no layout";
  EXPECT_EQ(table.with("batch", "").layout_of(mesh(), {"batch"}, "x").placements_text(),
            "{Replicate(), Replicate(), Replicate()}");
}

TEST(ShardingTable, StoresParametersInShardsOfTheirFirstDimension) {
  const ShardingTable table = standard_sharding(mesh());
  const ParameterLayouts query = table.layouts_of(mesh(), {64, 32}, {{"heads", 8}, "embed"}, "q");
  EXPECT_EQ(query.in_use.placements_text(), "{Replicate(), Replicate(), Shard(0)}");
  EXPECT_EQ(query.stored.placements_text(), "{Replicate(), Shard(0, order=1), Shard(0, order=0)}");
  EXPECT_EQ(table.layouts_of(mesh(), {32, 64}, {"embed", "mlp"}, "down").stored.placements_text(),
            "{Replicate(), Shard(0), Shard(1)}");
  EXPECT_EQ(table.layouts_of(mesh(), {3}, {}, "any").stored.placements_text(), "{Replicate(), Shard(0), Replicate()}");
  const ShardingTable without = standard_sharding(layout::Mesh::create({{"dp", 2}}));
  EXPECT_EQ(without.parameter_axis(), "");
  EXPECT_TRUE(without.rows().at("mlp").empty()) << "axes that the mesh lacks are left out";
}

TEST(ShardingTable, ErrorsNameTheParameterAndTheRow) {
  const ShardingTable table({{"batch", "dp"}, {"mlp", "tp"}, {"heads", "tp"}, {"far", "pp"}, {"parameters", "fsdp"}});
  const auto refuses = [&](const Shape& shape, const Meaning& meaning, std::initializer_list<std::string_view> words) {
    expect_error<InvalidArgument>([&] { (void)table.layouts_of(mesh(), shape, meaning, "parameter a.weight"); }, words);
  };
  refuses({8, 8}, {"mlp", "embed"},
          {"meaning 'embed' of parameter a.weight", "must have a row", "batch, far, heads, mlp, parameters",
           "embed = \"\""});
  refuses({8, 8}, {"mlp", "heads"},
          {"dimensions of parameter a.weight must use different axes", "tp for both mlp and heads"});
  refuses({8}, {"far"}, {"row far = \"pp\" must name axes of the mesh (dp, fsdp, tp), got pp for parameter a.weight"});
  refuses({6}, {"mlp"}, {"dimension 0 of parameter a.weight, mlp = \"tp\", must be divisible by 4 ranks, got 6"});
  refuses({24}, {{"heads", 4}}, {"must be divisible by 4 ranks in groups of 4, got 24"});
  refuses({8, 8}, {"mlp"}, {"parameter a.weight must have one meaning per dimension of [8, 8], got 1"});
  const ShardingTable both({{"mlp", "fsdp"}, {"parameters", "fsdp"}});
  expect_error<InvalidArgument>([&] { (void)both.layouts_of(mesh(), {8}, {"mlp"}, "w"); },
                                {"w must use axis fsdp once", "the row parameters"});
}

TEST(ShardingTable, RejectsRowsThatAreNotRows) {
  const auto refuses = [](std::initializer_list<std::pair<std::string, std::string>> rows, const char* word) {
    expect_error<InvalidArgument>([&] { (void)ShardingTable(rows); }, {word});
  };
  refuses({{"", "dp"}}, "a meaning must not be empty");
  refuses({{"a", "dp"}, {"a", "tp"}}, "'a' must occur once");
  refuses({{"a", "dp++tp"}}, "row a must name axes separated by '+', got 'dp++tp'");
  refuses({{"a", "dp+"}}, "got 'dp+'");
  refuses({{"a", "dp+dp"}}, "row a must name each axis once, got 'dp+dp'");
  refuses({{"parameters", "dp+tp"}}, "row parameters must name one axis, got 'dp+tp'");
}

}  // namespace
}  // namespace tessera::nn
