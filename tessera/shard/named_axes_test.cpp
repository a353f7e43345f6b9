// Programs that name the axes of a mesh, and that run unchanged without a mesh.
#include <gtest/gtest.h>

#include <vector>

#include "tessera/base/error.h"
#include "tessera/base/rank.h"
#include "tessera/base/testing/expect_error.h"
#include "tessera/comm/world.h"
#include "tessera/ops/create/create.h"
#include "tessera/ops/create/generator.h"
#include "tessera/ops/create/random.h"
#include "tessera/ops/matrix/matrix.h"
#include "tessera/ops/testing/op_case.h"
#include "tessera/shard/distribute.h"
#include "tessera/shard/redistribute.h"

namespace tessera::shard {
namespace {

using layout::Layout;
using layout::Mesh;
using layout::Partial;
using layout::Replicate;
using layout::Shard;

// Two products on a mesh; on one device if the mesh is empty.
std::vector<double> program(const Mesh& mesh) {
  ops::manual_seed(3);
  const Tensor x = ops::randn({4, 6}, {.layout = {mesh, {{"dp", Shard(0)}}}});
  const Tensor w1 = ops::randn({6, 8}, {.layout = {mesh, {{"tp", Shard(1)}}}});
  const Tensor w2 = distribute(ops::ones({8, 2}), {mesh, {{"tp", Shard(0)}}}, DataOn::kEveryRank);
  const Tensor h = ops::matmul(x, w1);
  const Tensor y = redistribute(ops::matmul(h, w2), {{"dp", Shard(0)}});
  return ops::testing::to_array(y.redistribute({{"tp", Shard(1)}}).gather()).values;
}

TEST(NamedAxes, AProgramRunsWithAndWithoutAMesh) {
  const std::vector<double> alone = program(Mesh());
  simulate(4, [&] {
    EXPECT_EQ(world_size(), 4);
    EXPECT_EQ(rank(), current_place().rank.value());
    const std::vector<double> found = program(Mesh({{"dp", 2}, {"tp", 2}}));
    ASSERT_EQ(found.size(), alone.size());
    for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], alone[i], 1e-5) << rank();
  });
  EXPECT_EQ(world_size(), 1);
}

TEST(NamedAxes, ALayoutNamesOnlyTheAxesThatDoNotReplicate) {
  const Mesh mesh({{"dp", 2}, {"tp", 2}});
  EXPECT_EQ(Layout(mesh, {{"tp", Shard(1)}, {"dp", Partial()}}), Layout::create(mesh, {Partial(), Shard(1)}));
  EXPECT_EQ(Layout(mesh, {{"dp", Replicate()}}), Layout::replicated(mesh));
  EXPECT_EQ(mesh, Mesh::parse("dp=2,tp=2"));
  EXPECT_FALSE(Layout(Mesh(), {{"tp", Shard(1)}}));
  expect_error<InvalidArgument>([&] { (void)Layout(mesh, {{"tq", Shard(1)}}); }, {"'tq'", "tp"});
  expect_error<InvalidArgument>([&] { (void)Layout(mesh, {{"tp", Shard(1)}, {"tp", Shard(0)}}); }, {"'tp' twice"});
}

TEST(NamedAxes, RedistributeRejectsALayoutForAPlainTensor) {
  const Mesh mesh({{"dp", 1}});
  const Tensor x = ops::ones({2});
  EXPECT_TRUE(redistribute(x, {{"dp", Shard(0)}}).is_same(x));
  EXPECT_TRUE(redistribute(x, Layout()).is_same(x));
  EXPECT_TRUE(distribute(x, Layout(), DataOn::kFirstRank).is_same(x));
  expect_error<InvalidArgument>([&] { (void)redistribute(x, Layout(mesh, {{"dp", Shard(0)}})); }, {"redistribute"});
}

}  // namespace
}  // namespace tessera::shard
