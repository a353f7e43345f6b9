#include "tessera/layout/layout.h"

#include <gtest/gtest.h>

#include <thread>
#include <unordered_set>

#include "tessera/base/error.h"
#include "tessera/base/testing/expect_error.h"
#include "tessera/layout/detail/layout_state.h"

namespace tessera::layout {
namespace {

using Sizes = std::vector<std::int64_t>;

std::shared_ptr<const Sizes> given(Sizes sizes) { return std::make_shared<const Sizes>(std::move(sizes)); }

TEST(Layout, PrintsPlacementsAndReadsThemBack) {
  const Mesh mesh = Mesh::parse("dp=2,tp=4");
  const Layout layout = Layout::create(mesh, {Shard(0), Partial(Reduction::kMax)});
  EXPECT_EQ(layout.placements_text(), "{Shard(0), Partial(max)}");
  EXPECT_EQ(layout.text(), "dp=2,tp=4 {Shard(0), Partial(max)}");
  for (const char* text : {"{Shard(0), Partial(max)}", "S0,P(max)", " { S(0) , P(max) } ", "Shard( 0 ),Partial(max)"}) {
    EXPECT_EQ(Layout::parse(mesh, text), layout) << text;
  }
  EXPECT_EQ(Layout::parse(layout.text()), layout);
  EXPECT_EQ(Layout::parse("dp=2, tp=4  S0, P(max)"), layout);
  EXPECT_EQ(Layout::parse(mesh, "R,P"), Layout::create(mesh, {Replicate(), Partial()}));
  EXPECT_EQ(Layout::parse(mesh, "R(),P()"), Layout::parse(mesh, "Replicate,P(sum)"));
}

TEST(Layout, ReadsPlacementsByNameInAnyOrder) {
  const Mesh mesh = Mesh::parse("dp=2,tp=4");
  EXPECT_EQ(Layout::parse(mesh, "{dp: Shard(0), tp: Partial(max)}"), Layout::parse(mesh, "S0,P(max)"));
  EXPECT_EQ(Layout::parse(mesh, "{tp: Shard(1)}"), Layout::parse(mesh, "R,S1"));
  EXPECT_EQ(Layout::parse(mesh, " tp : S0 , dp: S0 "), Layout::parse(mesh, "S0,S0"));  // axis order, as without names
  EXPECT_EQ(Layout::parse(mesh, "{tp: 2:S0*2:R}"), Layout::parse(mesh, "R,2:S0*2:R"));
  EXPECT_EQ(Layout::parse(mesh, "{}"), Layout::replicated(mesh));
  EXPECT_EQ(Layout::parse("dp=2,tp=4 {dp: Shard(0)}"), Layout::parse(mesh, "S0,R"));
  const auto refused = [&](const char* text, const char* why) {
    expect_error<InvalidArgument>([&] { Layout::parse(mesh, text); }, {why});
  };
  refused("{dq: S0}", "has no axis 'dq' (did you mean 'dp'?)");
  refused("{dp: S0, dp: R}", "column 10: axis 'dp' is named twice");
  refused("{dp: S0, R}", "expected ':'");
  refused("{dp: S0", "expected '}'");
  refused("", "2 axes, got 0 placements");
}

TEST(Layout, GoldenTexts) {
  for (const char* text :
       {"dp=2,tp=4 {Replicate(), Replicate()}", "dp=2,tp=4 {Shard(0, order=1), Shard(0, order=0)}",
        "dp=2,tp=4 {Shard(0), Shard(1, blocks=4)}", "dp=2,tp=8 {Shard(0, sizes=3/5), 2:Shard(0)*4:Replicate()}",
        "0+ {}", "tp=12 {2:Shard(0, order=1)*2:Partial(avg)*3:Shard(0, order=0)}",
        "8+x=2:16*4:1 {2:Replicate()*4:Shard(63)}", "a=2@network{backend=nccl},b=3 {Partial(min), Shard(2)}",
        "a=4,b=2 {2:Shard(0, order=2)*2:Shard(0, order=0, blocks=3), Shard(0, order=1)}",
        "a=4 {2:Partial(avg)*2:Partial()}", "a=2,b=2 {Shard(0, order=1, blocks=2), Shard(0, order=0, sizes=0/7)}",
        "a=4 {2:Shard(0)*2:Shard(0)}", "a=1,b=2 {Replicate(), Partial(prod)}"}) {
    EXPECT_EQ(Layout::parse(text).text(), text);
    const std::string_view placements = std::string_view(text).substr(std::string_view(text).find(" {") + 1);
    EXPECT_EQ(Layout::parse(text).placements_text(), placements);
  }
}

TEST(Layout, HashIsTheSameInEveryProcess) {
  const LayoutHash hash = Layout::parse("dp=2,tp=4 {Shard(0), Partial(max)}").hash();
  EXPECT_EQ(hash.high, 0x4b2208f599d261d7U);
  EXPECT_EQ(hash.low, 0x8911119ccd0613a6U);
  EXPECT_NE(hash, Layout::parse("dp=2,tp=4 {Shard(0), Partial(min)}").hash());
  EXPECT_NE(hash, Layout::parse("dp=2,tp=4@pcie {Shard(0), Partial(max)}").hash());
}

TEST(Layout, EqualLayoutsAreTheSameObject) {
  const Mesh mesh = Mesh::parse("dp=2,tp=4");
  const Layout a = Layout::create(mesh, {Shard(1), Shard(0)});
  LayoutParts parts;
  parts.dims = {{{{{1, 1, 4}, 1}}, {}}, {{{{0, 1, 2}, 1}}, {}}, {}, {}};
  const Layout b = Layout::create(mesh, parts);
  EXPECT_EQ(a, b);
  EXPECT_EQ(a.id(), b.id());
  EXPECT_NE(a.id(), LayoutId());
  EXPECT_EQ(a.ndim(), 2) << "dimensions that are not cut at the end have no say";
  EXPECT_EQ(Layout::create(mesh, a.parts()), a);
  EXPECT_FALSE(a == Layout::create(mesh, {Shard(0), Shard(1)}));
  EXPECT_FALSE(a == Layout::create(Mesh::parse("dp=2,tp=4@pcie"), {Shard(1), Shard(0)}));
  std::unordered_set<Layout> set = {a, b, Layout()};
  EXPECT_EQ(set.size(), 2U);
}

TEST(Layout, TellsCutsAndPartials) {
  const Layout layout = Layout::parse("a=2,b=6,c=2 {Shard(1, order=1), 3:Shard(1, order=0)*2:Partial(avg), Partial()}");
  EXPECT_EQ(layout.ndim(), 2);
  EXPECT_TRUE(layout.shardings(0).empty());
  ASSERT_EQ(layout.shardings(1).size(), 2U);
  EXPECT_EQ(layout.shardings(1)[0], (Sharding{{1, 1, 3}, 1}));
  EXPECT_EQ(layout.shardings(1)[1], (Sharding{{0, 1, 2}, 1}));
  EXPECT_TRUE(layout.shardings(7).empty());
  EXPECT_TRUE(layout.sizes(1).empty());
  ASSERT_EQ(layout.partials().size(), 2U);
  EXPECT_EQ(layout.partials()[0], (PartialAxis{{1, 3, 2}, Reduction::kAvg}));
  EXPECT_FALSE(layout.is_replicated());
  EXPECT_TRUE(Layout::replicated(layout.mesh()).is_replicated());
  EXPECT_EQ(Layout::parse(layout.mesh(), "R,R,R"), Layout::replicated(layout.mesh()));
  expect_error<InvalidArgument>([&] { (void)layout.shardings(-1); }, {"dimension must be at least 0, got -1"});
}

TEST(Layout, WhatHasSizeOneIsDropped) {
  const Mesh mesh = Mesh::parse("a=1,b=4");
  EXPECT_EQ(Layout::parse(mesh, "S0,S1"), Layout::parse(mesh, "R,S1"));
  EXPECT_EQ(Layout::parse(mesh, "P(max),P(max)"), Layout::parse(mesh, "R,P(max)"));
  EXPECT_EQ(Layout::parse(mesh, "S(0,sizes=7),S0"), Layout::parse(mesh, "R,S0"));
  EXPECT_EQ(Layout::parse(mesh, "R,1:S0*4:S1"), Layout::parse(mesh, "R,S1"));
  LayoutParts parts;
  parts.dims = {{{{{1, 2, 1}, 5}}, {}}};
  EXPECT_TRUE(Layout::create(mesh, parts).is_replicated());
}

TEST(Layout, PartialPartsAreJoinedAndCutsAreNot) {
  const Mesh mesh = Mesh::parse("x=12");
  EXPECT_EQ(Layout::parse(mesh, "2:P*2:P*3:P"), Layout::parse(mesh, "P"));
  EXPECT_EQ(Layout::parse(mesh, "2:P(avg)*2:P*3:P").placements_text(), "{2:Partial(avg)*6:Partial()}");
  EXPECT_FALSE(Layout::parse(mesh, "2:S0*6:S0") == Layout::parse(mesh, "S0"));
  EXPECT_FALSE(Layout::parse(mesh, "2:S0*6:S0") == Layout::parse(mesh, "6:S0*2:S0"));
}

TEST(Layout, OrderOfCutsMatters) {
  const Mesh mesh = Mesh::parse("a=2,b=2,c=2");
  EXPECT_EQ(Layout::parse(mesh, "S(0,order=0),S0,S0"), Layout::parse(mesh, "S0,S0,S0"));
  const Layout turned = Layout::parse(mesh, "S0,S0,S(0,order=0)");
  EXPECT_EQ(turned.placements_text(), "{Shard(0, order=1), Shard(0, order=2), Shard(0, order=0)}");
  EXPECT_FALSE(turned == Layout::parse(mesh, "S0,S0,S0"));
}

TEST(Layout, RefusesMixedPartials) {
  const Mesh mesh = Mesh::parse("dp=2,tp=4");
  EXPECT_NO_THROW(Layout::parse(mesh, "P(sum),P(avg)"));
  EXPECT_NO_THROW(Layout::parse(mesh, "P(min),P(min)"));
  expect_error<InvalidArgument>([&] { Layout::parse(mesh, "P(sum),P(max)"); }, {"'dp'", "sum", "'tp'", "max"});
  expect_error<InvalidArgument>([&] { Layout::parse(mesh, "P(min),P(max)"); }, {"min", "max"});
  expect_error<InvalidArgument>([&] { Layout::parse(mesh, "P(avg),P(prod)"); }, {"avg", "prod"});
  EXPECT_TRUE(can_mix(Reduction::kAvg, Reduction::kSum));
  EXPECT_FALSE(can_mix(Reduction::kMin, Reduction::kSum));
}

TEST(Layout, RefusesAnAxisUsedTwice) {
  const Mesh mesh = Mesh::parse("dp=2,tp=12");
  LayoutParts parts;
  parts.dims = {{{{{1, 1, 12}, 1}}, {}}, {{{{1, 2, 3}, 1}}, {}}};
  expect_error<InvalidArgument>([&] { Layout::create(mesh, parts); }, {"'tp'", "twice", "tp(2:3)"});
  parts.dims = {{{{{0, 1, 2}, 1}}, {}}};
  parts.partials = {{{0, 1, 2}, Reduction::kSum}};
  expect_error<InvalidArgument>([&] { Layout::create(mesh, parts); }, {"'dp'", "twice"});
  parts.dims = {};
  parts.partials = {{{0, 1, 2}, Reduction::kSum}, {{0, 1, 2}, Reduction::kSum}};
  expect_error<InvalidArgument>([&] { Layout::create(mesh, parts); }, {"'dp'", "twice"});
}

TEST(Layout, RefusesPartsThatDoNotNest) {
  const Mesh mesh = Mesh::parse("x=36");
  LayoutParts parts;
  parts.dims = {{{{{0, 1, 2}, 1}}, {}}, {{{{0, 9, 4}, 1}}, {}}};  // 2 x .. and 9 x 4: 9 is not a multiple of 2
  expect_error<InvalidArgument>([&] { Layout::create(mesh, parts); }, {"'x'", "do not nest", "x(9:4)"});
  parts.dims = {{{{{0, 1, 5}, 1}}, {}}};
  expect_error<InvalidArgument>([&] { Layout::create(mesh, parts); }, {"'x'", "5", "divide"});
  parts.dims = {{{{{0, 0, 2}, 1}}, {}}};
  expect_error<InvalidArgument>([&] { Layout::create(mesh, parts); }, {"'x'", "divide"});
  parts.dims = {{{{{1, 1, 2}, 1}}, {}}};
  expect_error<InvalidArgument>([&] { Layout::create(mesh, parts); }, {"no axis 1"});
  const Mesh flat = Mesh::parse("x=2:1*3:2");
  EXPECT_NO_THROW(Layout::parse(flat, "2:S0*3:R"));
  expect_error<InvalidArgument>([&] { Layout::parse(flat, "3:S0*2:R"); }, {"'x'", "flattened"});
}

TEST(Layout, GivenSizesAreCounted) {
  const Mesh mesh = Mesh::parse("x=2");
  const std::size_t before = detail::interned_layouts();
  LayoutId id;
  {
    LayoutParts parts;
    parts.dims = {{{{{0, 1, 2}, 1}}, given({3, 5})}};
    const Layout a = Layout::create(mesh, parts);
    id = a.id();
    EXPECT_EQ(detail::interned_layouts(), before + 1);
    EXPECT_EQ(a.placements_text(), "{Shard(0, sizes=3/5)}");
    EXPECT_EQ(a.sizes(0).size(), 2U);
    Layout b = Layout::parse(mesh, "S(0,sizes=3/5)");
    EXPECT_EQ(a, b);
    EXPECT_EQ(a.hash(), b.hash());
    Layout c = b;
    b = Layout();
    const Layout d = std::move(c);
    EXPECT_EQ(d, a);
    EXPECT_FALSE(Layout::parse(mesh, "S(0,sizes=4/4)") == a);
    EXPECT_FALSE(Layout::parse(mesh, "S0") == a);
  }
  EXPECT_EQ(detail::interned_layouts(), before + 1) << "{Shard(0)} alone stays";
  EXPECT_NE(Layout::parse(mesh, "S(0,sizes=3/5)").id(), id) << "an id is never used again";
}

TEST(Layout, RefusesGivenSizesThatMakeNoSense) {
  const Mesh mesh = Mesh::parse("x=2,y=2");
  LayoutParts parts;
  parts.dims = {{{{{0, 1, 2}, 1}}, given({3, 5, 1})}};
  expect_error<InvalidArgument>([&] { Layout::create(mesh, parts); }, {"dimension 0", "'x' (2)", "got 3 sizes"});
  parts.dims = {{{{{0, 1, 2}, 1}}, given({3, -5})}};
  expect_error<InvalidArgument>([&] { Layout::create(mesh, parts); }, {"sizes must be at least 0, got -5"});
  parts.dims = {{{{{0, 1, 2}, 1}}, given({INT64_MAX, 5})}};
  expect_error<InvalidArgument>([&] { Layout::create(mesh, parts); }, {"fit"});
  parts.dims = {{{{{0, 1, 2}, 3}}, given({3, 5})}};
  expect_error<InvalidArgument>([&] { Layout::create(mesh, parts); }, {"both sizes and blocks"});
  parts.dims = {{{}, given({3, 5})}};
  expect_error<InvalidArgument>([&] { Layout::create(mesh, parts); }, {"not sharded"});
  parts.dims = {{{{{0, 1, 2}, 0}}, {}}};
  expect_error<InvalidArgument>([&] { Layout::create(mesh, parts); }, {"must be in [1, 2^62], got 0"});
}

TEST(Layout, CountsHoldersOnAllThreads) {
  const Mesh mesh = Mesh::parse("x=2");
  const std::size_t before = detail::interned_layouts();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&mesh] {
      for (int i = 0; i < 2000; ++i) {
        const Layout layout = Layout::parse(mesh, i % 2 == 0 ? "S(0,sizes=1/2)" : "S(0,sizes=2/1)");
        Layout copy;
        copy = layout;
        ASSERT_EQ(copy.sizes(0)[0], i % 2 == 0 ? 1 : 2);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(detail::interned_layouts(), before);
}

TEST(Layout, SaysWhereATextIsWrong) {
  const Mesh mesh = Mesh::parse("dp=2,tp=4");
  struct Wrong {
    const char* text;
    std::initializer_list<std::string_view> words;
  };
  for (const Wrong& wrong : std::initializer_list<Wrong>{
           {"", {"column 1", "dp=2,tp=4", "0 placements"}},
           {"S0", {"1 placements", "2 axes"}},
           {"S0,R,R", {"column 6", "2 axes"}},
           {"S0,", {"column 4", "'tp'"}},
           {"S0,X", {"column 4", "'tp'", "Shard(0)"}},
           {"Shrd(0),R", {"column 1", "did you mean 'Shard'"}},
           {"S0,R}", {"column 5"}},
           {"{S0,R", {"column 6", "'}'"}},
           {"{S0,R} x", {"column 8"}},
           {"S,R", {"column 2", "'('"}},
           {"S(-1),R", {"column 3", "dimension"}},
           {"S(64),R", {"column 3", "below 64"}},
           {"S99999999999999999999,R", {"2^62"}},
           {"S(0,ordr=1),R", {"column 5", "did you mean 'order'"}},
           {"S(0,order=1),R", {"column 1", "order must be in [0, 1), got order=1"}},
           {"S(0,order=0),S(0,order=0)", {"column 14", "two axes of dimension 0"}},
           {"S(0,order=0,order=0),R", {"column 13", "twice"}},
           {"S(0,blocks=0),R", {"column 5", "blocks must be at least 1"}},
           {"S(0,blocks=2,blocks=2),R", {"twice"}},
           {"S(0,blocks=4611686018427387905),R", {"column 30", "2^62"}},
           {"S0,S(0,sizes=1/2/3/4)", {"column 4", "first axis"}},
           {"S(0,sizes=),R", {"column 11", "number"}},
           {"S(0,sizes=1/2/3),R", {"3 sizes", "'dp'"}},
           {"P(maxx),R", {"column 3", "did you mean 'max'"}},
           {"P(max,R", {"column 6", "')'"}},
           {"R,3:S0*2:R", {"column 3", "'tp'", "3"}},
           {"R,2:S0", {"column 3", "'tp'", "2 ranks", "4"}},
           {"R,2:S0*", {"column 8", "number"}},
           {"R,0:S0", {"column 3"}},
       }) {
    SCOPED_TRACE(wrong.text);
    expect_error<InvalidArgument>([&] { Layout::parse(mesh, wrong.text); }, wrong.words);
  }
  expect_error<InvalidArgument>([] { Layout::parse("dp=2,tp=4{S0,R}"); }, {"column 13", "'tp'", "key=value"});
  expect_error<InvalidArgument>([] { Layout::parse("dp=2:2,tp=4:1 R,R"); }, {"'dp'", "multiple of 4"});
}

TEST(Layout, ReadsNumbersUpToTwoToThe62) {
  const char* text = "x=2 {Shard(0, blocks=4611686018427387904)}";
  EXPECT_EQ(Layout::parse(text).text(), text);
}

TEST(Layout, RefusesPlacementsThatDoNotSuitTheMesh) {
  const Mesh mesh = Mesh::parse("dp=2,tp=4");
  expect_error<InvalidArgument>([&] { Layout::create(mesh, {Shard(0)}); }, {"2 axes", "got 1 placements"});
  expect_error<InvalidArgument>(
      [&] {
        Layout::create(mesh, {Shard(-1), Replicate()});
      },
      {"'dp'", "must be in [0, 64), got dimension -1"});
  expect_error<InvalidArgument>(
      [&] {
        Layout::create(mesh, {Shard(64), Replicate()});
      },
      {"'dp'", "must be in [0, 64), got dimension 64"});
  expect_error<InvalidArgument>([&] { Layout::replicated(Mesh()); }, {"mesh must not be empty"});
  expect_error<InvalidArgument>([&] { (void)Layout().text(); }, {"layout", "empty"});
  EXPECT_FALSE(Layout());
  EXPECT_EQ(Layout(), Layout());
}

TEST(Reduction, IsReadByName) {
  EXPECT_EQ(parse_reduction("prod"), Reduction::kProd);
  expect_error<InvalidArgument>([] { (void)parse_reduction("mean"); }, {"mean", "avg"});
  expect_error<InvalidArgument>([] { (void)parse_reduction("summ"); }, {"did you mean 'sum'"});
}

}  // namespace
}  // namespace tessera::layout
