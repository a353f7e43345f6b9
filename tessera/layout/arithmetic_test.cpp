#include "tessera/layout/arithmetic.h"

#include <gtest/gtest.h>

#include "tessera/base/error.h"
#include "tessera/base/testing/expect_error.h"

namespace tessera::layout {
namespace {

std::vector<std::int64_t> sizes_on_ranks(const Layout& layout, const Shape& shape) {
  std::vector<std::int64_t> sizes;
  for (std::int64_t i = 0; i < layout.mesh().size(); ++i) {
    sizes.push_back(local_shape(layout, shape, layout.mesh().ranks().at(i)).numel());
  }
  return sizes;
}

TEST(Arithmetic, CutsUnevenSizesIntoCeilChunks) {
  EXPECT_EQ(sizes_on_ranks(Layout::parse("x=4 S0"), {5}), (std::vector<std::int64_t>{2, 2, 1, 0}));
}

TEST(Arithmetic, NestedCutsDifferFromOneCut) {
  EXPECT_EQ(sizes_on_ranks(Layout::parse("x=2,y=3 S0,S0"), {8}), (std::vector<std::int64_t>{2, 2, 0, 2, 2, 0}));
  EXPECT_EQ(sizes_on_ranks(Layout::parse("x=6 S0"), {8}), (std::vector<std::int64_t>{2, 2, 2, 2, 0, 0}));
}

TEST(Arithmetic, BlocksAreRuns) {
  const Layout layout = Layout::parse("x=2 S(0,blocks=4)");
  EXPECT_EQ(index_map(layout, {24}, 0, Rank(1)), (IndexMap{3, 3, {{4, 6}}}));
  EXPECT_EQ(owners(layout, {24}, std::vector<std::int64_t>{9}), (RankSet{1, {}}));
}

}  // namespace
}  // namespace tessera::layout
