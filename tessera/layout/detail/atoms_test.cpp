#include "tessera/layout/detail/atoms.h"

#include <gtest/gtest.h>

#include "tessera/base/error.h"
#include "tessera/base/testing/expect_error.h"
#include "tessera/layout/arithmetic.h"

namespace tessera::layout::detail {
namespace {

Atoms atoms_for(const std::vector<Layout>& layouts) {
  std::string why;
  auto atoms = atoms_of(layouts, why);
  EXPECT_TRUE(atoms) << why;
  return atoms.value_or(Atoms{});
}

TEST(Atoms, AreWholeAxesWhereNothingElseIsUsed) {
  const Mesh mesh = Mesh::parse("a=2,b=1,c=6");
  const Atoms atoms = atoms_for({Layout::parse(mesh, "S0,R,P"), Layout::parse(mesh, "R,R,R")});
  EXPECT_EQ(atoms.list, (std::vector<SubAxis>{{0, 1, 2}, {2, 1, 6}}));
}

TEST(Atoms, AreTheFinestPartsInUse) {
  const Mesh mesh = Mesh::parse("a=24");
  const Atoms atoms = atoms_for({Layout::parse(mesh, "2:R*12:S0"), Layout::parse(mesh, "8:S1*3:P")});
  EXPECT_EQ(atoms.list, (std::vector<SubAxis>{{0, 1, 2}, {0, 2, 4}, {0, 8, 3}}));
}

TEST(Atoms, SayWhichAxisDoesNotNest) {
  const Mesh mesh = Mesh::parse("a=2,b=6");
  std::string why;
  EXPECT_FALSE(atoms_of(std::vector{Layout::parse(mesh, "R,2:S0*3:R"), Layout::parse(mesh, "R,3:S0*2:R")}, why));
  EXPECT_NE(why.find("'b' of 6"), std::string::npos) << why;
  expect_error<InvalidArgument>(
      [&] {
        atoms_of(std::vector{Layout::parse(mesh, "R,R"), Layout::parse("a=2 R")}, why);
      },
      {"layouts must be on one mesh"});
}

TEST(Atoms, CutTheSamePieces) {
  const Mesh mesh = Mesh::parse("a=2,b=12");
  const Layout whole = Layout::parse(mesh, "S(0,order=1),S(0,order=0)");
  const Layout parts = Layout::parse(mesh, "R,2:P(avg)*2:P*3:S(1,blocks=5)");
  const Atoms atoms = atoms_for({whole, parts});
  ASSERT_EQ(atoms.list.size(), 4U);
  const Shape shape{48, 15};
  std::string why;
  const auto of_whole = to_atoms(atoms, whole, shape, why);
  ASSERT_TRUE(of_whole) << why;
  EXPECT_EQ(of_whole->dims[0].shardings, (SmallVector<AtomSharding, 6>{{1, 1}, {2, 1}, {3, 1}, {0, 1}}));
  EXPECT_TRUE(of_whole->dims[1].shardings.empty());
  const auto of_parts = to_atoms(atoms, parts, shape, why);
  ASSERT_TRUE(of_parts) << why;
  EXPECT_EQ(of_parts->dims[1].shardings, (SmallVector<AtomSharding, 6>{{3, 5}}));
  EXPECT_EQ(of_parts->partials,
            (std::vector<std::optional<Reduction>>{std::nullopt, Reduction::kAvg, Reduction::kSum, std::nullopt}));
  EXPECT_EQ(from_atoms(atoms, *of_whole, shape), whole);
  EXPECT_EQ(from_atoms(atoms, *of_parts, shape), parts);
}

TEST(Atoms, NeedEvenPiecesToSplitACut) {
  const Mesh mesh = Mesh::parse("a=4");
  const Layout whole = Layout::parse(mesh, "S0");
  const Layout half = Layout::parse(mesh, "2:S0*2:R");
  const Atoms atoms = atoms_for({whole, half});
  std::string why;
  EXPECT_TRUE(to_atoms(atoms, whole, {8}, why));
  EXPECT_FALSE(to_atoms(atoms, whole, {6}, why));
  EXPECT_NE(why.find("'a'"), std::string::npos) << why;
  EXPECT_TRUE(to_atoms(atoms, half, {7}, why)) << "it is an atom itself";
  EXPECT_TRUE(to_atoms(atoms_for({whole}), whole, {7}, why)) << "and so is the axis, where nobody uses its parts";
  const Layout given = Layout::parse(mesh, "S(0,sizes=2/2/2/2)");
  EXPECT_FALSE(to_atoms(atoms, given, {8}, why));
  EXPECT_NE(why.find("explicit sizes"), std::string::npos) << why;
}

TEST(Atoms, OfEveryRankMustBeEven) {
  const Mesh mesh = Mesh::parse("a=4,b=5");
  const Layout nested = Layout::parse(mesh, "S(0,order=1),S(0,order=0)");  // b first
  const Atoms atoms = atoms_for({nested, Layout::parse(mesh, "2:S0*2:R,R")});
  std::string why;
  EXPECT_TRUE(to_atoms(atoms, nested, {40}, why)) << why;
  EXPECT_TRUE(to_atoms(atoms, nested, {36}, why)) << "8, 8, 8, 8 and 4: " << why;
  EXPECT_TRUE(to_atoms(atoms, nested, {16}, why)) << "4, 4, 4, 4 and nothing: " << why;
  EXPECT_FALSE(to_atoms(atoms, nested, {38}, why)) << "8, 8, 8, 8 and 6";
}

TEST(Atoms, MustKeepToRunsThatBlocksLeft) {
  const Mesh mesh = Mesh::parse("a=2,b=6");
  // runs of 24: chunks of 8 keep them, chunks of 16 do not
  const Layout layout = Layout::parse(mesh, "S(0,blocks=2),S0");
  std::string why;
  EXPECT_TRUE(to_atoms(atoms_for({layout}), layout, {96}, why)) << why;
  EXPECT_TRUE(to_atoms(atoms_for({layout, Layout::parse(mesh, "R,2:S0*3:R")}), layout, {96}, why)) << why;
  EXPECT_FALSE(to_atoms(atoms_for({layout, Layout::parse(mesh, "R,3:S0*2:R")}), layout, {96}, why));
  EXPECT_NE(why.find("shards of 16"), std::string::npos) << why;
}

TEST(Atoms, JoinCutsOnlyWhereTheyAreEven) {
  const Mesh mesh = Mesh::parse("a=8");
  const Layout parts = Layout::parse(mesh, "2:S0*2:S0*2:S0");
  const Atoms atoms = atoms_for({parts});
  std::string why;
  EXPECT_EQ(from_atoms(atoms, *to_atoms(atoms, parts, {16}, why), {16}), Layout::parse(mesh, "S0"));
  EXPECT_EQ(from_atoms(atoms, *to_atoms(atoms, parts, {12}, why), {12}), Layout::parse(mesh, "4:S0*2:S0"));
  EXPECT_EQ(from_atoms(atoms, *to_atoms(atoms, parts, {13}, why), {13}), parts);
}

TEST(Atoms, KeepGivenSizes) {
  const Mesh mesh = Mesh::parse("a=2,b=2");
  const Layout layout = Layout::parse(mesh, "S(0,sizes=3/5),S0");
  const Atoms atoms = atoms_for({layout});
  std::string why;
  const auto made = to_atoms(atoms, layout, {8, 2}, why);
  ASSERT_TRUE(made) << why;
  EXPECT_EQ(*made->dims[0].sizes, (std::vector<std::int64_t>{3, 5}));
  EXPECT_EQ(from_atoms(atoms, *made, {8, 2}), layout);
  expect_error<InvalidArgument>([&] { to_atoms(atoms, layout, {9, 2}, why); }, {"sum to"});
}

}  // namespace
}  // namespace tessera::layout::detail
