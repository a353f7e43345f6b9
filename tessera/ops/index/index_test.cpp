// Tests of indexing beyond the cases: errors when the work runs, the order of sums, sharded tables.
#include "tessera/ops/index/index.h"

#include <gtest/gtest.h>

#include <limits>

#include "tessera/base/testing/expect_error.h"
#include "tessera/ops/create/create.h"
#include "tessera/ops/parallel.h"
#include "tessera/ops/testing/op_case.h"
#include "tessera/ops/testing/simulated_shards.h"
#include "tessera/tensor/call.h"

namespace tessera::ops {
namespace {

using testing::Array;
using testing::to_array;
using testing::to_tensor;
using Values = std::vector<double>;

Tensor of(const Shape& shape, const Values& values, DType dtype = DType::kF32) {
  return to_tensor(Array(shape, values), dtype);
}
Tensor indices(const Shape& shape, const Values& values, DType dtype = DType::kI64) { return of(shape, values, dtype); }
Values values(const Tensor& tensor) { return to_array(tensor).values; }

// Runs `body` and waits; the wait throws the errors of the work.
template <class F>
void expect_late_error(const F& body, std::initializer_list<std::string_view> words) {
  expect_error<InvalidArgument>(
      [&] {
        body();
        device::Device::get("host").synchronize();
      },
      words);
  tensor::current_stream(device::Device::get("host")).reset_error();
}

TEST(Index, OutOfRangeIsAnErrorThatNamesOperatorIndexAndRange) {
  const Tensor x = of({2, 3}, {1, 2, 3, 4, 5, 6});
  expect_late_error(
      [&] {
        (void)index_select(x, 1, indices({2}, {0, 3}));
      },
      {"index_select: index must be in [0, 3) along dimension 1, got 3"});
  expect_late_error([&] { (void)index_select(x, 0, indices({1}, {-1}, DType::kI32)); },
                    {"index_select: index must be in [0, 2) along dimension 0, got -1"});
  expect_late_error(
      [&] {
        (void)gather(x, 1, indices({2, 1}, {0, 7}));
      },
      {"gather: index must be in [0, 3) along dimension 1, got 7"});
  expect_late_error(
      [&] {
        (void)scatter(x, 0, indices({1, 3}, {0, 1, 2}), 0);
      },
      {"scatter: index must be in [0, 2) along dimension 0, got 2"});
  expect_late_error(
      [&] {
        (void)scatter_add(x, 0, indices({1, 3}, {0, 1, 2}), of({1, 3}, {1, 1, 1}));
      },
      {"scatter_add: index must be in [0, 2) along dimension 0, got 2"});
  expect_late_error(
      [&] {
        (void)index_add(x, 0, indices({1}, {2}), of({1, 3}, {1, 1, 1}));
      },
      {"index_add: index must be in [0, 2) along dimension 0, got 2"});
  expect_late_error([&] { (void)embedding(x, indices({1}, {2})); },
                    {"embedding: index must be in [0, 2) along dimension 0, got 2"});
  expect_late_error([&] { (void)one_hot(indices({1}, {4}), 4); }, {"one_hot: index must be in [0, 4)", "got 4"});
}

TEST(Index, RefusesOtherDtypesAndShapes) {
  const Tensor x = of({2, 3}, {1, 2, 3, 4, 5, 6});
  expect_error<InvalidArgument>([&] { (void)index_select(x, 0, of({1}, {0})); },
                                {"index_select: index must have an integer dtype, got f32"});
  expect_error<InvalidArgument>([&] { (void)gather(x, 0, indices({1}, {0})); },
                                {"gather: index must have as many dimensions as x (2), and at least one, got 1"});
  expect_error<InvalidArgument>(
      [&] {
        (void)gather(x, 0, indices({1, 4}, {0, 0, 0, 0}));
      },
      {"gather: index must not exceed x in dimension 1 (size 3), got 4"});
  expect_error<InvalidArgument>(
      [&] {
        (void)index_add(x, 0, indices({1}, {0}), of({2, 3}, Values(6, 1)));
      },
      {"index_add: index must have one element per slice of source (2), got 1"});
  expect_error<InvalidArgument>(
      [&] {
        (void)masked_fill(x, of({2}, {1, 0}, DType::kBool), 0);
      },
      {"masked_fill: mask must broadcast to [2, 3], got [2]"});
  expect_error<InvalidArgument>([&] { (void)topk(x, 4, 1); }, {"topk: k must be in [0, 3] along dimension 1, got 4"});
}

TEST(Scatter, LastOfThoseThatMeetStays) {
  EXPECT_EQ(values(scatter(of({3}, {0, 0, 0}), 0, indices({4}, {1, 1, 2, 1}), of({4}, {5, 6, 7, 8}))),
            (Values{0, 8, 7}));
}

TEST(Sums, ByIndexAddInTheOrderOfTheIndexForAnyNumberOfThreads) {
  constexpr std::int64_t kCount = 5000;
  Array source(Shape({kCount, 33}));
  Array index(Shape({kCount}));
  testing::Random random(5);
  for (double& value : source.values) value = std::normal_distribution<double>()(random);
  for (double& value : index.values) value = static_cast<double>(random() % 7);
  const Tensor s = to_tensor(source, DType::kF32);
  const Tensor i = to_tensor(index, DType::kI64);
  const int before = detail::thread_budget();
  detail::set_thread_budget(1);
  const Values alone = values(index_sum(s, 0, i, 7));
  detail::set_thread_budget(3);
  EXPECT_EQ(values(index_sum(s, 0, i, 7)), alone);
  detail::set_thread_budget(before);
  std::vector<float> want(7 * 33);
  for (std::size_t n = 0; n < kCount; ++n) {
    for (std::size_t c = 0; c < 33; ++c) {
      want[static_cast<std::size_t>(index.values[n]) * 33 + c] += static_cast<float>(source.values[n * 33 + c]);
    }
  }
  EXPECT_EQ(alone, Values(want.begin(), want.end()));
}

TEST(Sums, OfHalvesRoundOnce) {
  const Tensor ones = of({600}, Values(600, 1), DType::kBF16);  // in bf16 the sum would stop at 256
  const Tensor zeros = indices({600}, Values(600, 0));
  EXPECT_EQ(values(index_sum(ones, 0, zeros, 1)), Values{600});
  EXPECT_EQ(values(scatter_sum(ones, 0, zeros, 2)), (Values{600, 0}));
}

TEST(Embedding, PartsOfTheTableAddUpToTheWhole) {
  const Tensor table = of({5, 2}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  const Tensor index = indices({2, 3}, {4, 0, 2, 3, 3, 1});
  const Values whole = values(embedding(table, index));
  Values sum(whole.size());
  for (const auto& [offset, rows] : {std::pair{0, 3}, std::pair{3, 2}, std::pair{5, 0}}) {
    EmbeddingAttributes part;
    part.rows = 5;
    part.row_map.offset = offset;
    part.row_map.block = rows;
    Values held;
    for (int i = 0; i < 2 * rows; ++i) held.push_back(2 * offset + i);
    const Values got = values(tensor::call(tensor::find_op("embedding"), {of({rows, 2}, held), index}, part));
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += got[i];
  }
  EXPECT_EQ(sum, whole);
}

// Ranks with a shard of the table sum only the gradient of that shard.
TEST(Embedding, GradientOfACutTableIsCutAsItIs) {
  const layout::Mesh mesh = layout::Mesh::parse("x=2");
  testing::SimulatedShards shards(mesh);
  const layout::Layout cut = layout::Layout::create(mesh, {layout::Shard(0)});
  const Tensor table = shards.add(testing::sharding({{5, 2}, DType::kF64, Values(10, 1)}, cut));
  const Tensor grad = of({3, 2}, {1, 2, 3, 4, 5, 6}, DType::kF64);
  const Tensor of_table = index_sum_like(grad, 0, indices({3}, {4, 0, 4}), table);
  EXPECT_EQ(of_table.layout(), cut);
  EXPECT_EQ(of_table.local().shape(), (Shape{3, 2}));
  testing::wait_for_work();
  EXPECT_EQ(shards.whole_of(of_table).values, (Values{3, 4, 0, 0, 0, 0, 0, 0, 6, 8}));
  EXPECT_TRUE(shards.moves().empty());
}

TEST(Multinomial, DrawsByProbability) {
  constexpr std::int64_t kDraws = 20000;
  const Tensor p = of({2, 3}, {1, 0, 3, 5, 5, 0});
  const Values drawn = values(multinomial(p, kDraws, true));
  std::vector<double> counts(6);
  for (std::size_t i = 0; i < drawn.size(); ++i) ++counts[(i / kDraws) * 3 + static_cast<std::size_t>(drawn[i])];
  EXPECT_EQ(counts[1], 0);
  EXPECT_EQ(counts[5], 0);
  EXPECT_NEAR(counts[0] / kDraws, 0.25, 0.02);
  EXPECT_NEAR(counts[3] / kDraws, 0.5, 0.02);
}

TEST(Multinomial, WithoutReplacementDrawsDifferentOnes) {
  const Tensor p = of({500, 4}, [] {
    Values all;
    for (int i = 0; i < 500; ++i) all.insert(all.end(), {6, 3, 0, 1});
    return all;
  }());
  const Values drawn = values(multinomial(p, 3));
  double first = 0;
  for (std::size_t i = 0; i < drawn.size(); i += 3) {
    EXPECT_EQ(drawn[i] + drawn[i + 1] + drawn[i + 2], 4);  // 0, 1 and 3 in some order
    first += drawn[i] == 0 ? 1 : 0;
  }
  EXPECT_NEAR(first / 500, 0.6, 0.1);
  expect_error<InvalidArgument>([&] { (void)multinomial(p, 5); },
                                {"multinomial: count must be at least 0, and at most 4 without replacement, got 5"});
  expect_error<InvalidArgument>(
      [&] {
        (void)multinomial(zeros({0, (1 << 24) + 1}), 1, true);
      },
      {"multinomial: probabilities must have at most 16777216 classes, got 16777217"});
  expect_late_error(
      [&] {
        (void)multinomial(of({2}, {0, 0}), 1, true);
      },
      {"at least one of the 2 probabilities must be positive"});
  expect_late_error(
      [&] {
        (void)multinomial(of({2}, {-1, 2}), 1, true);
      },
      {"a probability must be finite and at least 0, got -1"});
}

TEST(Order, IsStableAndCountsNanAsGreatest) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  const Tensor x = of({6}, {2, kNan, 1, 2, kNan, 1});
  EXPECT_EQ(values(sort(x).second), (Values{2, 5, 0, 3, 1, 4}));
  EXPECT_EQ(values(sort(x, 0, true).second), (Values{1, 4, 0, 3, 2, 5}));
  EXPECT_EQ(values(topk(x, 3).second), (Values{1, 4, 0}));
  EXPECT_EQ(values(topk(x, 2, 0, false).second), (Values{2, 5}));
  EXPECT_EQ(topk(x, 0).first.shape(), Shape({0}));
}

}  // namespace
}  // namespace tessera::ops
