// A reduction over several axes is one deterministic reduction in mesh order, for any rank numbers and any steps of a
// plan. Replicas are therefore bitwise equal, and equal to the definition.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <mutex>

#include "tessera/base/rank.h"
#include "tessera/comm/world.h"
#include "tessera/ops/pointwise/convert.h"
#include "tessera/shard/redistribute.h"
#include "tessera/shard/testing/all_ranks.h"

namespace tessera::shard {
namespace {

using layout::Layout;
using layout::Mesh;

constexpr std::int64_t kRows = 12;
constexpr std::int64_t kColumns = 10;

// Sums of these depend on their order: magnitudes from 1e-4 to 1e4, of both signs.
float summand(std::int64_t place, std::int64_t element) {
  const auto mixed = static_cast<std::uint64_t>(place * 7919 + element * 104729 + 13) * 0x9e3779b97f4a7c15U;
  const double unit = static_cast<double>(mixed >> 11) / static_cast<double>(std::uint64_t{1} << 53);
  const double magnitude = std::pow(10.0, static_cast<double>((mixed >> 5) % 9) - 4);
  return static_cast<float>((unit - 0.5) * magnitude);
}

// Definition: a left fold in f32 over the mesh positions that differ only along the partial axes.
std::vector<float> folded(const Mesh& mesh, const std::vector<bool>& is_partial, std::int64_t place) {
  std::vector<float> sums(static_cast<std::size_t>(kRows * kColumns));
  const auto mine = mesh.coordinates(mesh.ranks().at(place));
  bool is_first = true;
  for (std::int64_t other = 0; other < mesh.size(); ++other) {
    const auto at = mesh.coordinates(mesh.ranks().at(other));
    bool differs = false;
    for (std::size_t a = 0; a < at.size(); ++a) differs |= !is_partial[a] && at[a] != mine[a];
    if (differs) continue;
    for (std::size_t i = 0; i < sums.size(); ++i) {
      const float value = summand(other, static_cast<std::int64_t>(i));
      sums[i] = is_first ? value : sums[i] + value;
    }
    is_first = false;
  }
  return sums;
}

Tensor partial_of(const Layout& layout, std::int64_t place) {
  ops::testing::Whole part{Shape{kRows, kColumns}, DType::kF32, {}};
  for (std::int64_t i = 0; i < kRows * kColumns; ++i) part.values.push_back(static_cast<double>(summand(place, i)));
  return Tensor::sharded(part.shape, DType::kF32, layout, testing::plain(part));
}

// `axes`: P for a partial axis, R if each rank along it holds separate values and nothing is summed.
void expect_one_fold(const char* text, const char* axes, const char* to) {
  const Mesh mesh = Mesh::parse(text);
  const Layout from = Layout::parse(mesh, axes);
  std::vector<bool> is_partial(static_cast<std::size_t>(mesh.ndim()));
  for (const layout::PartialAxis& partial : from.partials()) {
    is_partial[static_cast<std::size_t>(partial.by.axis)] = true;
  }
  for (const SimulateOptions& how : {SimulateOptions(), SimulateOptions{.seed = 9}}) {
    simulate(
        static_cast<int>(mesh.size()),
        [&] {
          const std::int64_t place = mesh.ranks().place_of(current_place().rank);
          const Tensor y = redistribute(partial_of(from, place), Layout::parse(mesh, to));
          const ops::testing::Whole want{Shape{kRows, kColumns}, DType::kF32, [&] {
                                           const std::vector<float> sums = folded(mesh, is_partial, place);
                                           return std::vector<double>(sums.begin(), sums.end());
                                         }()};
          ops::testing::wait_for_work();
          const auto got = ops::testing::read(y.local());
          const auto wanted = ops::testing::read(testing::placed(want, y.layout()).local());
          ASSERT_EQ(got.shape, wanted.shape);
          for (std::size_t i = 0; i < got.values.size(); ++i) {
            ASSERT_EQ(std::bit_cast<std::uint64_t>(got.values[i]), std::bit_cast<std::uint64_t>(wanted.values[i]))
                << text << " " << axes << " -> " << to << ": element " << i << " at place " << place;
          }
        },
        how);
  }
}

TEST(ReductionOrder, OverSeveralAxesIsOneFold) {
  for (const char* to : {"R,R", "S0,R", "R,S1", "S0,S1", "S1,S1"}) expect_one_fold("x=2,y=3", "P,P", to);
  for (const char* to : {"R,R,R", "S0,S1,R", "S0,S0,S0", "R,R,S1"}) expect_one_fold("x=2,y=2,z=2", "P,P,P", to);
}

TEST(ReductionOrder, IsThatOfTheMeshAndNotOfTheNumbersOfRanks) {
  for (const char* mesh : {"x=2:1,y=3:2", "x=3:2,y=2:1", "x=2:3,y=3:1"}) {
    for (const char* to : {"R,R", "S0,R", "S1,S0"}) expect_one_fold(mesh, "P,P", to);
  }
  for (const char* mesh : {"x=2:1,y=2:2,z=2:4", "x=2:2,y=2:4,z=2:1"}) {
    for (const char* to : {"R,R,R", "S0,R,S1"}) expect_one_fold(mesh, "P,P,P", to);
  }
}

TEST(ReductionOrder, OverSomeAxesLeavesTheOthersAlone) {
  for (const char* mesh : {"x=2,y=2,z=2", "x=2:1,y=2:2,z=2:4", "x=2:4,y=2:1,z=2:2"}) {
    expect_one_fold(mesh, "P,R,P", "R,R,R");
    expect_one_fold(mesh, "P,R,P", "S0,R,S1");
    expect_one_fold(mesh, "R,P,P", "R,S0,R");
  }
}

// Checks the tests above.
TEST(ReductionOrder, OfTheSummandsMatters) {
  const Mesh mesh = Mesh::parse("x=2,y=3");
  const Mesh turned = Mesh::parse("x=2:1,y=3:2");
  const std::vector<float> sums = folded(mesh, {true, true}, 0);
  float backwards = 0;
  int differ = 0;
  for (std::int64_t i = 0; i < kRows * kColumns; ++i) {
    backwards = summand(5, i);
    for (std::int64_t place = 4; place >= 0; --place) backwards += summand(place, i);
    differ += backwards == sums[static_cast<std::size_t>(i)] ? 0 : 1;
  }
  EXPECT_GT(differ, 10);
  EXPECT_NE(mesh.ranks().at(1), turned.ranks().at(1));
}

}  // namespace
}  // namespace tessera::shard
