#include "tessera/layout/layout.h"

#include <gtest/gtest.h>

#include "tessera/base/testing/expect_error.h"
#include "tessera/layout/detail/layout_state.h"

namespace tessera::layout {
namespace {

TEST(Layout, PrintsPlacementsAndReadsThemBack) {
  const Mesh mesh = Mesh::parse("dp=2,tp=4");
  const Layout layout = Layout::create(mesh, {Shard(0), Partial(Reduction::kMax)});
  EXPECT_EQ(layout.placements_text(), "{Shard(0), Partial(max)}");
  EXPECT_EQ(layout.text(), "dp=2,tp=4 {Shard(0), Partial(max)}");
  EXPECT_EQ(Layout::parse(layout.text()), layout);
  EXPECT_EQ(Layout::parse(mesh, "S0,P(max)"), layout);
  EXPECT_EQ(Layout::parse(mesh, "{S(0), P(max)}"), layout);
}

TEST(Layout, GoldenTexts) {
  for (const char* text :
       {"dp=2,tp=4 {Shard(0, order=1), Shard(0, order=0)}", "dp=2,tp=4 {Shard(0), Shard(1, blocks=4)}",
        "dp=2,tp=8 {Shard(0, sizes=3/5), 2:Shard(0)*4:Replicate()}", "0+ {}",
        "tp=12 {2:Shard(0, order=1)*2:Partial(avg)*3:Shard(0, order=0)}"}) {
    EXPECT_EQ(Layout::parse(text).text(), text);
  }
}

}  // namespace
}  // namespace tessera::layout
