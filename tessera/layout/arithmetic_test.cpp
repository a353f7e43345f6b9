// Hand-written cases of the arithmetic. arithmetic_fuzz.cpp compares random layouts with tables.
#include "tessera/layout/arithmetic.h"

#include <gtest/gtest.h>

#include "tessera/base/error.h"
#include "tessera/base/testing/expect_error.h"

namespace tessera::layout {
namespace {

using Numbers = std::vector<std::int64_t>;

constexpr std::int64_t kHuge = std::int64_t{1} << 62;

Numbers sizes_on_ranks(const Layout& layout, const Shape& shape) {
  Numbers sizes;
  for (std::int64_t i = 0; i < layout.mesh().size(); ++i) {
    sizes.push_back(local_shape(layout, shape, layout.mesh().ranks().at(i)).numel());
  }
  return sizes;
}

Numbers members(const RankSet& set) {
  Numbers all;
  for (std::int64_t i = 0; i < set.size(); ++i) all.push_back(set.at(i).value());
  return all;
}

Numbers indices(const IndexMap& map) {
  Numbers all;
  for (std::int64_t i = 0; i < map.size(); ++i) all.push_back(map.global(i));
  return all;
}

TEST(Arithmetic, CutsUnevenSizesIntoCeilChunks) {
  const Layout layout = Layout::parse("x=4 S0");
  EXPECT_EQ(sizes_on_ranks(layout, {5}), (Numbers{2, 2, 1, 0}));
  EXPECT_EQ(sizes_on_ranks(layout, {8}), (Numbers{2, 2, 2, 2}));
  EXPECT_EQ(sizes_on_ranks(layout, {0}), (Numbers{0, 0, 0, 0}));
  EXPECT_EQ(local_box(layout, {5, 3}, Rank(2)).text(), "[4:5, 0:3]");
  EXPECT_EQ(local_box(layout, {5, 3}, Rank(3)).text(), "[5:5, 0:3]") << "an empty part lies at the end";
  EXPECT_EQ(index_map(layout, {5}, 0, Rank(3)), (IndexMap{5, 0, {}}));
  EXPECT_EQ(largest_local_numel(layout, {5, 3}), 6);
}

TEST(Arithmetic, NestedCutsDifferFromOneCut) {
  EXPECT_EQ(sizes_on_ranks(Layout::parse("x=2,y=3 S0,S0"), {8}), (Numbers{2, 2, 0, 2, 2, 0}));
  EXPECT_EQ(sizes_on_ranks(Layout::parse("x=6 2:S0*3:S0"), {8}), (Numbers{2, 2, 0, 2, 2, 0}));
  EXPECT_EQ(sizes_on_ranks(Layout::parse("x=6 S0"), {8}), (Numbers{2, 2, 2, 2, 0, 0}));
  EXPECT_EQ(local_box(Layout::parse("x=2,y=3 S0,S0"), {8}, Rank(2)).text(), "[8:8]");
}

TEST(Arithmetic, CutsInTheirOrder) {
  const Layout layout = Layout::parse("x=2,y=2 S(0,order=1),S(0,order=0)");
  EXPECT_EQ(local_box(layout, {8}, Rank(1)).text(), "[4:6]") << "y = 1 cuts first";
  EXPECT_EQ(local_box(layout, {8}, Rank(2)).text(), "[2:4]");
  EXPECT_EQ(members(owners(layout, {8}, Numbers{5})), (Numbers{1}));
}

TEST(Arithmetic, BlocksAreRuns) {
  const Layout layout = Layout::parse("x=2 S(0,blocks=4)");
  EXPECT_EQ(index_map(layout, {24}, 0, Rank(1)), (IndexMap{3, 3, {{4, 6}}}));
  EXPECT_EQ(indices(index_map(layout, {8}, 0, Rank(1))), (Numbers{1, 3, 5, 7}));
  EXPECT_EQ(index_map(layout, {24}, 0, Rank(1)).local(10), std::optional<std::int64_t>(4));
  EXPECT_EQ(index_map(layout, {24}, 0, Rank(1)).local(12), std::nullopt);
  EXPECT_EQ(owners(layout, {24}, Numbers{9}), (RankSet{1, {}}));
  EXPECT_EQ(sizes_on_ranks(layout, {20}), (Numbers{12, 8})) << "blocks of 5 are cut into 3 and 2";
  EXPECT_EQ(index_map(layout, {4}, 0, Rank(0)), (IndexMap{0, 4, {}})) << "whole blocks are one run";
  EXPECT_EQ(index_map(layout, {4}, 0, Rank(1)), (IndexMap{4, 0, {}}));
  EXPECT_EQ(local_box(layout, {4, 2}, Rank(0)).text(), "[0:4, 0:2]");
  expect_error<InvalidArgument>([&] { local_box(layout, {24}, Rank(1)); }, {"rank 1", "dimension 0", "index_map"});
}

TEST(Arithmetic, BlocksNest) {
  // [4, 6] flattened, with the 4 sharded by x and the 6 by y: x splits, then y splits the remaining two blocks.
  const Layout layout = Layout::parse("x=2,y=3 S0,S(0,blocks=2)");
  EXPECT_EQ(indices(index_map(layout, {24}, 0, Rank(4))), (Numbers{14, 15, 20, 21}));
  // Blocks inside runs that earlier blocks left.
  const Layout both = Layout::parse("x=2,y=2 S(0,blocks=2),S(0,blocks=4)");
  EXPECT_EQ(index_map(both, {32}, 0, Rank(3)), (IndexMap{10, 2, {{2, 16}, {2, 4}}}));
  // A later split of complete runs, and of the inside of one run.
  const Layout later = Layout::parse("x=2,y=2 S(0,blocks=4),S0");
  EXPECT_EQ(indices(index_map(later, {16}, 0, Rank(3))), (Numbers{10, 11, 14, 15}));
  const Layout inside = Layout::parse("x=2,y=4 S(0,blocks=2),S0");
  EXPECT_EQ(indices(index_map(inside, {16}, 0, Rank(7))), (Numbers{14, 15}));
}

TEST(Arithmetic, GivenSizes) {
  const Layout layout = Layout::parse("x=4,y=2 S(0,sizes=3/0/5/1),S0");
  EXPECT_EQ(sizes_on_ranks(layout, {9}), (Numbers{2, 1, 0, 0, 3, 2, 1, 0}));
  EXPECT_EQ(local_box(layout, {9}, Rank(4)).text(), "[3:6]");
  EXPECT_EQ(local_box(layout, {9}, Rank(2)).text(), "[9:9]");
  EXPECT_EQ(members(owners(layout, {9}, Numbers{3})), (Numbers{4})) << "the empty piece before owns nothing";
  EXPECT_EQ(members(owners(layout, {9}, Numbers{8})), (Numbers{6}));
  EXPECT_EQ(largest_local_numel(layout, {9, 2}), 6);
  expect_error<InvalidArgument>([&] { check_fits(layout, {10}); }, {"dimension 0", "10", "'x'", "sum to 9"});
}

TEST(Arithmetic, OwnersAreReplicasInTheOrderOfAxes) {
  const Mesh mesh = Mesh::parse("a=2,b=2,c=2");
  EXPECT_EQ(members(owners(Layout::parse(mesh, "R,S0,P"), {4}, Numbers{2})), (Numbers{2, 3, 6, 7}));
  EXPECT_EQ(members(owners(Layout::parse(mesh, "R,R,R"), {}, Numbers{})), (Numbers{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(owners(Layout::parse(mesh, "R,R,S0"), {2}, Numbers{1}), (RankSet{1, {{4, 2}}}));
  EXPECT_EQ(members(owners(Layout::parse("a=6 2:R*3:S0"), {3}, Numbers{1})), (Numbers{1, 4}));
  EXPECT_EQ(members(owners(Layout::parse("a=2:1,b=3:2 R,S0"), {3}, Numbers{2})), (Numbers{4, 5}));
  expect_error<InvalidArgument>([&] { owners(Layout::parse(mesh, "R,S0,R"), {4}, Numbers{4}); },
                                {"index must be in [0, 4) in dimension 0 of shape [4], got 4"});
  expect_error<InvalidArgument>([&] { owners(Layout::parse(mesh, "R,S0,R"), {4}, Numbers{1, 1}); }, {"got 2 numbers"});
}

TEST(Arithmetic, RanksOffTheMeshHoldNothing) {
  const Layout layout = Layout::parse("4+x=2:8,y=2:1 S0,R");
  EXPECT_EQ(local_shape(layout, {4, 6}, Rank(5)), (Shape{2, 6}));
  for (const int off : {-1, 0, 6, 11, 14}) {
    EXPECT_EQ(local_shape(layout, {4, 6}, Rank(off)), (Shape{0, 0})) << off;
    EXPECT_EQ(local_box(layout, {4, 6}, Rank(off)).text(), "[4:4, 6:6]");
    EXPECT_EQ(index_map(layout, {4, 6}, 1, Rank(off)).size(), 0);
  }
}

TEST(Arithmetic, GoesUpToTwoToThe62) {
  const Layout layout = Layout::parse("x=2147483647 S0");
  const std::int64_t chunk = kHuge / 2147483647 + 1;
  EXPECT_EQ(local_shape(layout, {kHuge}, Rank(0)), (Shape{chunk}));
  const Box last = local_box(layout, {kHuge}, Rank(2147483646));
  EXPECT_EQ(last.offset[0] + last.size[0], kHuge);
  EXPECT_LT(last.size[0], chunk);
  EXPECT_EQ(owners(layout, {kHuge}, Numbers{kHuge - 1}).first, (kHuge - 1) / chunk);
  const Layout two = Layout::parse("x=3,y=7 S0,S(0,blocks=2)");
  EXPECT_EQ(largest_local_numel(two, {kHuge - 4}), ((kHuge - 4) / 3 / 2 + 6) / 7 * 2);
  const IndexMap map = index_map(two, {kHuge - 4}, 0, Rank(20));
  EXPECT_EQ(map.global(map.size() - 1), kHuge - 5);
  EXPECT_EQ(map.local(kHuge - 5), std::optional(map.size() - 1));
  expect_error<InvalidArgument>([&] { check_fits(layout, {kHuge + 1}); }, {"dimension 0", "at most 2^62"});
  expect_error<InvalidArgument>([&] { largest_local_numel(layout, {kHuge, kHuge}); }, {"63 bits"});
}

TEST(CheckFits, NamesTheDimensionAndTheAxis) {
  expect_error<InvalidArgument>([] { check_fits(Layout::parse("x=2 S2"), {4, 4}); }, {"shards dimension 2", "[4, 4]"});
  expect_error<InvalidArgument>(
      [] {
        check_fits(Layout::parse("x=2 S(1,blocks=3)"), {4, 4});
      },
      {"dimension 1", "'x'", "not a multiple of 3 blocks"});
  EXPECT_NO_THROW(check_fits(Layout::parse("x=2 S(1,blocks=3)"), {4, 6}));
  EXPECT_NO_THROW(check_fits(Layout::parse("x=2 S(1,blocks=3)"), {4, 0}));
}

TEST(CheckFits, LooksAtTheShortPiecesToo) {
  // 10 over 4 gives 3, 3, 3 and 1; the 1 does not divide.
  const Layout layout = Layout::parse("x=4,y=2 S0,S(0,blocks=3)");
  expect_error<InvalidArgument>([&] { check_fits(layout, {10}); }, {"'y'", "1 elements", "not a multiple of 3 blocks"});
  expect_error<InvalidArgument>([&] { local_shape(layout, {10}, Rank(0)); }, {"'y'"});
  EXPECT_NO_THROW(check_fits(layout, {12}));
  EXPECT_NO_THROW(check_fits(layout, {9})) << "3, 3, 3 and nothing";
  EXPECT_NO_THROW(check_fits(layout, {21})) << "6, 6, 6 and 3";
}

TEST(CheckFits, RefusesCutsThatBreakRuns) {
  const Layout layout = Layout::parse("x=2,y=2 S(0,blocks=3),S0");  // three runs, split in two
  expect_error<InvalidArgument>([&] { check_fits(layout, {12}); }, {"dimension 0", "'y'", "runs", "2 long"});
  EXPECT_NO_THROW(check_fits(layout, {6})) << "runs of 1: two and one of them";
  const Layout aligned = Layout::parse("x=2,y=2 S(0,blocks=4),S0");
  EXPECT_NO_THROW(check_fits(aligned, {24}));
  EXPECT_NO_THROW(check_fits(aligned, {4})) << "whole blocks are one run, whatever cuts it";
}

TEST(CheckFits, TakesNoTimeForManyCuts) {
  std::string text = "x=2147483648 ";
  for (int i = 0; i < 30; ++i) text += "2:S0*";
  const Layout layout = Layout::parse(text + "2:S(0,blocks=2)");
  EXPECT_NO_THROW(check_fits(layout, {kHuge}));
  expect_error<InvalidArgument>([&] { check_fits(layout, {kHuge - 1}); }, {"not a multiple of 2 blocks"});
}

TEST(Box, Intersects) {
  const Box a{{0, 4}, {4, 4}};
  const Box b{{2, 0}, {8, 5}};
  EXPECT_EQ(intersect(a, b).text(), "[2:4, 4:5]");
  EXPECT_EQ(intersect(a, b), intersect(b, a));
  EXPECT_EQ(intersect(a, Box{{4, 4}, {1, 1}}).numel(), 0);
  EXPECT_EQ(intersect(Box{{kHuge - 1}, {1}}, Box{{0}, {kHuge}}).numel(), 1);
  EXPECT_EQ(Box().numel(), 1);
  EXPECT_EQ((Box{{0, 0, 0}, {kHuge, kHuge, 0}}).numel(), 0);
  expect_error<InvalidArgument>([&] { intersect(a, Box{{0}, {1}}); }, {"[0:4, 4:8]", "[0:1]"});
  expect_error<InvalidArgument>([&] { (void)Box{{0, 0}, {kHuge, 4}}.numel(); }, {"box"});
}

TEST(IndexMap, RefusesLocalIndicesItDoesNotHave) {
  const IndexMap map{2, 3, {{2, 10}}};
  EXPECT_EQ(indices(map), (Numbers{2, 3, 4, 12, 13, 14}));
  expect_error<InvalidArgument>([&] { (void)map.global(6); }, {"local index must be in [0, 6), got 6"});
  expect_error<InvalidArgument>([&] { (void)map.global(-1); }, {"local index must be in [0, 6), got -1"});
  for (const std::int64_t off : {std::int64_t{-1}, std::int64_t{1}, std::int64_t{5}, std::int64_t{15}, std::int64_t{22},
                                 std::numeric_limits<std::int64_t>::min()}) {
    EXPECT_EQ(map.local(off), std::nullopt) << off;
  }
}

TEST(IndexMap, CountsDimensionsFromTheEndToo) {
  const Layout layout = Layout::parse("x=2 S1");
  EXPECT_EQ(index_map(layout, {3, 4}, -1, Rank(1)), (IndexMap{2, 2, {}}));
  EXPECT_EQ(index_map(layout, {3, 4}, 0, Rank(1)), (IndexMap{0, 3, {}}));
  expect_error<InvalidArgument>(
      [&] {
        index_map(layout, {3, 4}, 2, Rank(1));
      },
      {"dimension must be in [-2, 2), got 2"});
}

}  // namespace
}  // namespace tessera::layout
