#include "tessera/layout/mesh.h"

#include <gtest/gtest.h>

#include "tessera/base/testing/expect_error.h"

namespace tessera::layout {
namespace {

TEST(Mesh, IsRowMajorFromItsFirstRank) {
  const Mesh mesh = Mesh::create({{"dp", 2}, {"tp", 4}}, Rank(8));
  EXPECT_EQ(mesh.size(), 8);
  EXPECT_EQ(mesh.coordinates(Rank(13)), (Coordinates{1, 1}));
  EXPECT_EQ(mesh.rank_at(std::vector<std::int64_t>{1, 1}), Rank(13));
  EXPECT_FALSE(mesh.contains(Rank(7)));
  EXPECT_FALSE(mesh.contains(Rank(16)));
}

TEST(Mesh, EqualMeshesAreTheSameObject) {
  EXPECT_EQ(Mesh::create({{"dp", 2}, {"tp", 4}}), Mesh::parse("dp=2,tp=4"));
  EXPECT_FALSE(Mesh::parse("dp=2,tp=4") == Mesh::parse("dp=4,tp=2"));
}

}  // namespace
}  // namespace tessera::layout
