// Moves between layouts: the data is what distributing directly gives, whatever the pair of layouts, with as many
// launches as the plan says.
#include "tessera/shard/redistribute.h"

#include <gtest/gtest.h>

#include "tessera/base/error.h"
#include "tessera/base/rank.h"
#include "tessera/base/testing/expect_error.h"
#include "tessera/comm/world.h"
#include "tessera/layout/testing/random_requests.h"
#include "tessera/shard/scopes.h"
#include "tessera/shard/testing/all_ranks.h"

namespace tessera::shard {
namespace {

using layout::Layout;
using layout::Mesh;
using testing::counted;
using testing::on_worlds;
using testing::placed;
using testing::Results;
using testing::Whole;

// Requests on meshes of at most 8 ranks.
std::vector<layout::PlanRequest> requests(std::size_t count, const layout::testing::RequestKind& kind,
                                          std::uint64_t seed) {
  std::vector<layout::PlanRequest> out;
  for (; out.size() < count; ++seed) {
    layout::PlanRequest request = layout::testing::random_request(seed, kind);
    if (request.from.mesh().size() <= 8 && request.shape.numel() <= 4096) out.push_back(std::move(request));
  }
  return out;
}

std::uint64_t communications(const layout::Plan& plan) {
  std::uint64_t count = 0;
  for (const layout::Step& step : plan.steps) count += layout::communicates(step.kind) ? 1 : 0;
  return count;
}

void expect_moves(const std::vector<layout::PlanRequest>& pairs, DType dtype, const std::vector<std::uint64_t>& seeds) {
  Results results(8);
  on_worlds(8, seeds, [&] {
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      const layout::PlanRequest& pair = pairs[i];
      const Tensor x = placed(counted(pair.shape, dtype), pair.from);
      const ShardCounts before = shard_counts();
      const Tensor moved = redistribute(x, pair.to);
      const ShardCounts after = shard_counts();
      const auto plan = planner().plan({pair.from, pair.to, pair.shape, static_cast<std::int64_t>(itemsize(dtype))});
      const bool is_on_mesh = pair.from.mesh().contains(current_place().rank);
      EXPECT_EQ(after.collectives - before.collectives, is_on_mesh ? communications(*plan) : 0);
      EXPECT_EQ(after.nbytes - before.nbytes, is_on_mesh ? static_cast<std::uint64_t>(plan->nbytes) : 0);
      EXPECT_EQ(moved.layout(), pair.to);
      EXPECT_EQ(static_cast<bool>(moved.local()), is_on_mesh);
      results.hand_in(i, moved);
    }
  });
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const std::string wrong =
        ops::testing::difference(results.whole(i), counted(pairs[i].shape, dtype), 1e-5, pairs[i].to);
    EXPECT_EQ(wrong, "") << layout::testing::pair_text(pairs[i]);
  }
}

TEST(Redistribute, EvenPairsGiveTheSameData) { expect_moves(requests(150, {.most_axes = 3}, 1), DType::kF32, {7}); }
TEST(Redistribute, UnevenPairsGiveTheSameData) {
  expect_moves(requests(150, {.most_axes = 3, .uneven_percent = 100}, 1000), DType::kF32, {8});
}
TEST(Redistribute, PairsWithBlocksSizesAndPartsOfAxesGiveTheSameData) {
  expect_moves(requests(150, {.most_axes = 3, .uneven_percent = 30, .special_percent = 100}, 2000), DType::kF32, {9});
}
TEST(Redistribute, PartialPairsGiveTheSameData) {
  expect_moves(requests(150, {.most_axes = 3, .uneven_percent = 30, .partial_percent = 90}, 3000), DType::kF64, {10});
}

}  // namespace
}  // namespace tessera::shard
