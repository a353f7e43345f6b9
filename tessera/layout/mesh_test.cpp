// Hand-written cases of meshes. arithmetic_fuzz.cpp compares random meshes with tables.
#include "tessera/layout/mesh.h"

#include <gtest/gtest.h>

#include <thread>

#include "tessera/base/error.h"
#include "tessera/base/testing/expect_error.h"

namespace tessera::layout {
namespace {

using Names = std::vector<std::string>;
using Numbers = std::vector<std::int64_t>;

Numbers members(const RankSet& set) {
  Numbers all;
  for (std::int64_t i = 0; i < set.size(); ++i) all.push_back(set.at(i).value());
  return all;
}

TEST(Mesh, IsRowMajorFromItsFirstRank) {
  const Mesh mesh = Mesh::create({{"dp", 2}, {"tp", 4}}, Rank(8));
  EXPECT_EQ(mesh.size(), 8);
  EXPECT_EQ(mesh.coordinates(Rank(13)), (Coordinates{1, 1}));
  EXPECT_EQ(mesh.rank_at(Numbers{1, 1}), Rank(13));
  EXPECT_EQ(members(mesh.ranks()), (Numbers{8, 9, 10, 11, 12, 13, 14, 15}));
  for (const int off : {-1, 0, 7, 16}) EXPECT_FALSE(mesh.contains(Rank(off)));
  expect_error<InvalidArgument>([&] { (void)mesh.coordinates(Rank(16)); }, {"rank 16", "8+dp=2,tp=4"});
}

TEST(Mesh, EqualMeshesAreTheSameObject) {
  const Mesh mesh = Mesh::create({{"dp", 2}, {"tp", 4}});
  EXPECT_EQ(mesh, Mesh::parse("dp=2,tp=4"));
  EXPECT_EQ(mesh.id(), Mesh::parse(" dp=2 , tp=4@nvlink ").id());
  EXPECT_EQ(mesh, Mesh::parse("dp=2:4,tp=4:1"));
  EXPECT_NE(mesh.id(), Mesh::parse("dp=4,tp=2").id());
  EXPECT_FALSE(mesh == Mesh::parse("dp=2,tp=4@pcie"));
  EXPECT_FALSE(mesh == Mesh());
}

TEST(Mesh, IsTheSameObjectOnAllThreads) {
  std::vector<Mesh> made(4);
  std::vector<std::thread> threads;
  for (Mesh& mesh : made) {
    threads.emplace_back([&mesh] {
      for (int i = 0; i < 200; ++i) mesh = Mesh::create({{"threads", 2 + i % 50}, {"x", 3}});
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Mesh& mesh : made) EXPECT_EQ(mesh, made.front());
}

TEST(Mesh, AxesOfSizeOneCostNothing) {
  const Mesh mesh = Mesh::parse("pp=1,dp=2,cp=1,tp=2");
  EXPECT_EQ(mesh.coordinates(Rank(3)), (Coordinates{0, 1, 0, 1}));
  EXPECT_EQ(mesh.ranks().steps.size(), 1U);
  EXPECT_EQ(mesh.text(), "pp=1,dp=2,cp=1,tp=2");
}

TEST(Mesh, SlicesKeepTheirStrides) {
  const Mesh mesh = Mesh::parse("pp=2,dp=3,tp=4");
  const Mesh slice = mesh.slice(Names{"pp", "tp"}, Rank(17));  // (1, 1, 1)
  EXPECT_EQ(slice.text(), "4+pp=2:12,tp=4:1");
  EXPECT_EQ(members(slice.ranks()), (Numbers{4, 5, 6, 7, 16, 17, 18, 19}));
  EXPECT_EQ(slice.coordinates(Rank(17)), (Coordinates{1, 1}));
  EXPECT_FALSE(slice.contains(Rank(8)));
  EXPECT_EQ(Mesh::parse(slice.text()), slice);
  EXPECT_EQ(mesh.slice(Names{"tp", "dp"}, Rank(0)).text(), "tp=4:1,dp=3:4");
  EXPECT_EQ(mesh.slice(Names{"pp", "dp", "tp"}, Rank(5)), mesh);
  EXPECT_EQ(mesh.at("dp", 1), slice);
  EXPECT_EQ(mesh.at("pp", 1).text(), "12+dp=3,tp=4");
  expect_error<InvalidArgument>([&] { (void)mesh.at("dp", 3); }, {"dp", "must be in [0, 3), got 3"});
}

TEST(Mesh, WithoutAxesIsOneRank) {
  const Mesh one = Mesh::parse("x=4").at("x", 2);
  EXPECT_EQ(one.text(), "2+");
  EXPECT_EQ(one.size(), 1);
  EXPECT_TRUE(one.contains(Rank(2)));
  EXPECT_EQ(Mesh::parse("2+"), one);
  EXPECT_EQ(Mesh::create({}).text(), "0+");
}

TEST(Mesh, FlattensAndUnflattens) {
  const Mesh mesh = Mesh::parse("dp=2@network,ep=3,tp=4@pcie{backend=nccl}");
  const Mesh flat = mesh.flatten(Names{"dp", "ep"}, "dep");
  EXPECT_EQ(flat.text(), "dep=6@network,tp=4@pcie{backend=nccl}");
  EXPECT_EQ(mesh.flatten(Names{"ep", "tp"}, "x").text(), "dp=2@network,x=12@pcie");
  EXPECT_EQ(flat.unflatten("dep", std::vector<AxisSpec>{{"dp", 2, Link::kNetwork}, {"ep", 3}}), mesh);

  const Mesh turned = mesh.flatten(Names{"tp", "dp"}, "x");
  EXPECT_EQ(turned.text(), "ep=3:4,x=4:1*2:12@network");
  EXPECT_EQ(turned.coordinates(mesh.rank_at(Numbers{1, 2, 3})), (Coordinates{2, 7}));
  EXPECT_EQ(Mesh::parse(turned.text()), turned);
  const Mesh parts = turned.unflatten("x", std::vector<AxisSpec>{{"a", 2}, {"b", 4}});
  EXPECT_EQ(parts.text(), "ep=3:4,a=2:2,b=2:1*2:12");
}

TEST(Mesh, RefusesCutsThatBreakAFlattenedAxis) {
  const Mesh flat = Mesh::parse("a=2,b=3,c=2").flatten(Names{"c", "b"}, "x");
  EXPECT_EQ(flat.text(), "a=2:6,x=2:1*3:2");
  expect_error<InvalidArgument>(
      [&] {
        (void)flat.unflatten("x", std::vector<AxisSpec>{{"p", 3}, {"q", 2}});
      },
      {"'x'", "'q'", "would split"});
  expect_error<InvalidArgument>(
      [&] {
        (void)flat.unflatten("x", std::vector<AxisSpec>{{"p", 3}, {"q", 3}});
      },
      {"'x' (6), got 9"});
  expect_error<InvalidArgument>([&] { (void)flat.flatten(Names{"a", "a"}, "y"); }, {"'a'", "twice"});
  expect_error<InvalidArgument>([&] { (void)flat.flatten(Names{"x"}, "a"); },
                                {"names of axes must be distinct, got 'a' twice"});
}

TEST(Mesh, GroupsAreInTheOrderOfTheirAxes) {
  const Mesh mesh = Mesh::parse("pp=2,dp=2,tp=2");
  EXPECT_EQ(members(mesh.group(std::vector<int>{0, 2}, Rank(3))), (Numbers{2, 3, 6, 7}));
  EXPECT_EQ(members(mesh.group(std::vector<int>{2, 0}, Rank(3))), (Numbers{2, 6, 3, 7}));
  EXPECT_EQ(members(mesh.group(std::vector<int>{}, Rank(3))), (Numbers{3}));
  EXPECT_EQ(mesh.group(std::vector<int>{1, 2}, Rank(7)), (RankSet{4, {{4, 1}}})) << "steps in a row are one";
  expect_error<InvalidArgument>([&] { (void)mesh.group(std::vector<int>{1, 1}, Rank(0)); }, {"'dp'", "twice"});
}

TEST(RankSet, FindsPlacesWhateverTheOrderOfSteps) {
  const RankSet set{3, {{2, 10}, {3, 100}, {4, 2}}};
  for (std::int64_t i = 0; i < set.size(); ++i) EXPECT_EQ(set.place_of(set.at(i)), i);
  for (const int off : {0, 2, 4, 11, 23, 303}) EXPECT_EQ(set.place_of(Rank(off)), -1) << off;
  expect_error<InvalidArgument>([&] { (void)set.at(24); }, {"index must be in [0, 24), got 24"});
}

TEST(Mesh, HoldsTwoToThe31Ranks) {
  const Mesh mesh = Mesh::parse("a=1290,b=1290,c=1290");
  EXPECT_EQ(mesh.size(), std::int64_t{1290} * 1290 * 1290);
  EXPECT_EQ(mesh.coordinates(Rank(2'000'000'000)), (Coordinates{1201, 1097, 770}));
  EXPECT_EQ(mesh.rank_at(Numbers{1201, 1097, 770}), Rank(2'000'000'000));
  EXPECT_EQ(Mesh::parse("x=2147483648").size(), std::int64_t{1} << 31);
  EXPECT_TRUE(Mesh::parse("x=2147483648").contains(Rank(2147483647)));
  expect_error<InvalidArgument>([] { Mesh::parse("x=65536,y=65536"); }, {"'y'", "2^31"});
  expect_error<InvalidArgument>([] { Mesh::parse("1+x=2147483648"); }, {"last rank", "2147483648"});
  expect_error<InvalidArgument>([] { Mesh::parse("x=4611686018427387904:1*4611686018427387904:1"); },
                                {"column 25", "63 bits"});
}

TEST(Mesh, GoldenTexts) {
  for (const char* text :
       {"x=1", "dp=2,tp=4", "dp=2@network,tp=4", "8+x=2:16*4:1", "a=2@memory{backend=gloo,timeout=30s},b=3@pcie",
        "3+a=2,b=1,c=4", "a=2:1,b=1,c=2:2", "_x9=5{k.a-b=}", "0+"}) {
    EXPECT_EQ(Mesh::parse(text).text(), text);
  }
  EXPECT_EQ(Mesh::create({{"a", 2, Link::kNetwork, {{"z", "1"}, {"b", "x=y"}}}}).text(), "a=2@network{b=x=y,z=1}");
  EXPECT_EQ(Mesh::parse("a=4,b=2").flatten(Names{"a"}, "c").text(), "c=4,b=2");
}

TEST(Mesh, SaysWhereATextIsWrong) {
  struct Wrong {
    const char* text;
    std::initializer_list<std::string_view> words;
  };
  for (const Wrong& wrong : std::initializer_list<Wrong>{
           {"", {"column 1", "name of an axis"}},
           {"dp", {"column 3", "'='"}},
           {"dp=x", {"column 4", "number"}},
           {"dp=0", {"column 4", "'dp'", "at least 1"}},
           {"dp=2,", {"column 6", "text ends"}},
           {"dp=2;tp=4", {"column 5", "';tp=4'"}},
           {"dp=2@nvlnk", {"column 6", "did you mean 'nvlink'"}},
           {"dp=2{backend}", {"column 13", "key=value"}},
           {"dp=2{a=1,a=2}", {"'dp'", "'a'", "twice"}},
           {"dp=2:4,tp=4", {"'tp'", "no stride"}},
           {"dp=2*4", {"column 5", "'dp'", "stride"}},
           {"dp=2:2,tp=4:1", {"'dp'", "multiple of 4", "got 2"}},
           {"dp=2:0", {"stride of axis 'dp' must be in [1, 2^31), got 0"}},
           {"dp=2,dp=4", {"names of axes must be distinct, got 'dp' twice"}},
           {"dp=99999999999999999999", {"column", "2^62"}},
           {"9999999999999+dp=2", {"first rank"}},
           {"a=1,b=1,c=1,d=1,e=1,f=1,g=1,h=1,i=1,j=1,k=1,l=1,m=1", {"column", "at most 12 axes"}},
       }) {
    SCOPED_TRACE(wrong.text);
    expect_error<InvalidArgument>([&] { Mesh::parse(wrong.text); }, wrong.words);
  }
}

TEST(Mesh, RefusesWhatItsTextCouldNotHold) {
  expect_error<InvalidArgument>([] { Mesh::create({{"2x", 2}}); }, {"name of an axis must be", "got '2x'"});
  expect_error<InvalidArgument>([] { Mesh::create({{"", 2}}); }, {"name of an axis must be", "got ''"});
  expect_error<InvalidArgument>([] { Mesh::create({{"x", 0}}); }, {"size of axis 'x' must be in [1, 2^31], got 0"});
  expect_error<InvalidArgument>(
      [] {
        Mesh::create({{"x", 2}}, Rank(-1));
      },
      {"first rank must be in [0, 2^31), got -1"});
  expect_error<InvalidArgument>([] { Mesh::create({{"x", 2, Link::kPcie, {{"a b", "1"}}}}); }, {"'x'", "'a b'"});
  expect_error<InvalidArgument>([] { Mesh::create({{"x", 2, Link::kPcie, {{"a", "1,2"}}}}); }, {"'x'", "'a'", "'1,2'"});
  expect_error<InvalidArgument>([] { Mesh::create({{"x", 2, Link::kPcie, {{"a", "\n"}}}}); }, {"'?'"});
}

TEST(Mesh, NamesTheNearestAxis) {
  const Mesh mesh = Mesh::parse("data=2,model=4");
  EXPECT_EQ(mesh.index_of("model"), 1);
  expect_error<InvalidArgument>([&] { (void)mesh.index_of("modle"); }, {"'modle'", "did you mean 'model'", "data"});
  expect_error<InvalidArgument>([&] { (void)mesh.axis(2); }, {"axis must be in [0, 2), got 2"});
  expect_error<InvalidArgument>([] { (void)parse_link("infiniband"); }, {"infiniband", "network"});
  EXPECT_EQ(parse_link("pcie"), Link::kPcie);
}

TEST(Mesh, EmptyHandleSaysSo) {
  expect_error<InvalidArgument>([] { (void)Mesh().text(); }, {"mesh", "empty"});
  EXPECT_FALSE(Mesh());
  EXPECT_TRUE(Mesh::parse("x=1"));
}

}  // namespace
}  // namespace tessera::layout
