// Tests of attention beyond its cases: queries, keys and widths that fill several tiles of the kernels or a fraction of
// one, and scores beyond the range of exp.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tessera/ops/nn/attention.h"
#include "tessera/ops/pointwise/convert.h"
#include "tessera/ops/shape/shape.h"
#include "tessera/ops/testing/op_case.h"

namespace tessera::ops {
namespace {

using testing::Array;
using testing::to_array;
using testing::to_tensor;

struct TileCase {
  std::string name;
  Shape q, k;
  std::int64_t e;
  AttentionBias bias = {};
};

std::vector<Array> reference_of(const std::string& op, std::span<const Array> inputs, const AttentionBias& bias) {
  const auto& all = testing::all_cases();
  const auto found = std::ranges::find(all, op, &testing::OpCaseInfo::op);
  TESSERA_CHECK(found != all.end(), "no case of ", op);
  return found->reference(inputs, bias);
}

void expect_all_near(const Tensor& got, const Array& want, double bound, const std::string& what) {
  const Array values = to_array(got);
  ASSERT_EQ(values.values.size(), want.values.size()) << what;
  double worst = 0;
  for (std::size_t i = 0; i < want.values.size(); ++i) {
    if (std::isinf(want.values[i])) {
      ASSERT_EQ(values.values[i], want.values[i]) << what << " at " << i;
      continue;
    }
    const double error = std::abs(values.values[i] - want.values[i]) / (1 + std::abs(want.values[i]));
    worst = std::isnan(error) ? std::numeric_limits<double>::infinity() : std::max(worst, error);
  }
  EXPECT_LE(worst, bound) << what;
}

void expect_as_by_loops(const TileCase& of, DType dtype, double bound) {
  SCOPED_TRACE(of.name + (dtype == DType::kF32 ? " in f32" : " in f64"));
  testing::Random random(7);
  const auto draw = [&](const Shape& shape) { return testing::rounded(testing::normal(random, shape).value, dtype); };
  const Array q = draw(of.q);
  const Array k = draw(of.k);
  const Array v = draw({of.k[0], of.k[1], of.k[2], of.e});
  const Array grad = draw({of.q[0], of.q[1], of.q[2], of.e});
  const Array none;
  const std::vector<Array> forward =
      reference_of("scaled_dot_product_attention", std::vector{q, k, v, none, none}, of.bias);
  const AttentionResult got =
      attention_with_logsumexp(to_tensor(q, dtype), to_tensor(k, dtype), to_tensor(v, dtype), of.bias);
  expect_all_near(got.out, forward[0], bound, "out");
  expect_all_near(got.logsumexp, forward[1], bound, "logsumexp");
  const std::vector<Array> backward =
      reference_of("scaled_dot_product_attention_backward",
                   std::vector{grad, q, k, v, forward[0], forward[1], none, none, none}, of.bias);
  const AttentionGradients gradients = scaled_dot_product_attention_backward(
      {to_tensor(grad, dtype), {}}, to_tensor(q, dtype), to_tensor(k, dtype), to_tensor(v, dtype), got, of.bias);
  expect_all_near(gradients.q, backward[0], bound, "dq");
  expect_all_near(gradients.k, backward[1], bound, "dk");
  expect_all_near(gradients.v, backward[2], bound, "dv");
}

TEST(AttentionTiles, GiveWhatPlainLoopsGive) {
  const TileCase cases[] = {
      {"whole tiles", {1, 2, 128, 32}, {1, 1, 128, 32}, 32, {.is_causal = true}},
      {"parts of tiles", {2, 2, 77, 20}, {2, 1, 133, 20}, 12, {}},
      {"several tasks of a head", {1, 2, 150, 8}, {1, 1, 600, 8}, 8, {.is_causal = true, .is_bottom_right = true}},
      {"several chunks of a task", {16, 2, 66, 4}, {16, 2, 600, 4}, 4, {.is_causal = true, .is_bottom_right = true}},
      {"a window that skips chunks",
       {8, 4, 70, 4},
       {8, 4, 1100, 4},
       3,
       {.is_causal = true, .is_bottom_right = true, .window_left = 9}},
      {"a narrow window", {1, 1, 300, 16}, {1, 1, 300, 16}, 16, {.window_left = 3, .window_right = 2}},
      {"a window to the right", {1, 1, 140, 16}, {1, 1, 300, 16}, 16, {.window_left = 0, .window_right = 70}},
      {"more queries than keys", {1, 1, 300, 8}, {1, 1, 40, 8}, 8, {.is_causal = true, .is_bottom_right = true}},
      {"queries past all keys", {1, 1, 400, 8}, {1, 1, 270, 8}, 8, {.window_left = 5, .window_right = 0}},
      {"one query", {1, 4, 1, 64}, {1, 2, 333, 64}, 64, {}},
      {"one column", {1, 1, 33, 1}, {1, 1, 65, 1}, 1, {.is_causal = true}},
  };
  for (const TileCase& of : cases) {
    expect_as_by_loops(of, DType::kF32, 2e-5);
    expect_as_by_loops(of, DType::kF64, 1e-12);
  }
}

TEST(AttentionTiles, TakeScoresThatNoExponentialHolds) {
  // The score of query i and key j is 100 i j: up to 9900, far beyond the range of exp.
  Array q(Shape({1, 1, 100, 1}));
  Array k(Shape({1, 1, 200, 1}));
  Array v(Shape({1, 1, 200, 1}));
  for (std::size_t i = 0; i < 100; ++i) q.values[i] = 100 * static_cast<double>(i);
  for (std::size_t j = 0; j < 200; ++j) k.values[j] = static_cast<double>(j) / 200;
  for (std::size_t j = 0; j < 200; ++j) v.values[j] = static_cast<double>(j);
  const auto f32 = [](const Array& array) { return to_tensor(array, DType::kF32); };
  const AttentionResult got = attention_with_logsumexp(f32(q), f32(k), f32(v), {.scale = 1});
  const Array out = to_array(got.out);
  const Array all = to_array(got.logsumexp);
  EXPECT_NEAR(out.values[0], 99.5, 1e-3) << "equal scores: the mean";
  EXPECT_NEAR(all.values[0], std::log(200.0), 1e-5);
  EXPECT_NEAR(out.values[99], 199, 1e-3) << "the greatest score alone";
  EXPECT_NEAR(all.values[99] / (9900.0 * 199 / 200), 1, 1e-6);
}

TEST(AttentionTiles, GiveAKeyOfMinusInfinityNoWeight) {
  Array k(Shape({1, 1, 130, 1}), 0);
  Array v(Shape({1, 1, 130, 1}), 1);
  for (const std::size_t j : {0U, 1U, 127U, 128U, 129U}) {
    k.values[j] = -std::numeric_limits<double>::infinity();
    v.values[j] = 1000;
  }
  const Tensor q = to_tensor(Array(Shape({1, 1, 3, 1}), 1), DType::kF32);
  const AttentionResult got =
      attention_with_logsumexp(q, to_tensor(k, DType::kF32), to_tensor(v, DType::kF32), {.is_causal = true});
  EXPECT_THAT(to_array(got.out).values, ::testing::ElementsAre(0, 0, 1)) << "two queries see such keys alone";
  EXPECT_EQ(to_array(got.logsumexp).values[0], -std::numeric_limits<double>::infinity());
  const Tensor whole = scaled_dot_product_attention(q, to_tensor(k, DType::kF32), to_tensor(v, DType::kF32));
  EXPECT_THAT(to_array(whole).values, ::testing::Each(::testing::DoubleNear(1, 1e-6)));
}

TEST(AttentionTiles, ReadAndWriteRowsOfAnyStride) {
  // The heads of each position are adjacent in memory, as a projection returns them.
  testing::Random random(3);
  const auto draw = [&](std::int64_t heads) {
    return permute(to_tensor(testing::normal(random, {2, 150, heads, 32}).value, DType::kF32), {0, 2, 1, 3});
  };
  const Tensor q = draw(4);
  const Tensor k = draw(2);
  const Tensor v = draw(2);
  const Tensor grad = draw(4);
  const AttentionBias bias = {.is_causal = true};
  const AttentionResult got = attention_with_logsumexp(q, k, v, bias);
  const AttentionResult dense = attention_with_logsumexp(contiguous(q), contiguous(k), contiguous(v), bias);
  EXPECT_EQ(to_array(got.out).values, to_array(dense.out).values);
  const AttentionGradients of = scaled_dot_product_attention_backward({grad, {}}, q, k, v, got, bias);
  const AttentionGradients of_dense = scaled_dot_product_attention_backward({contiguous(grad), {}}, contiguous(q),
                                                                            contiguous(k), contiguous(v), dense, bias);
  EXPECT_EQ(to_array(of.q).values, to_array(of_dense.q).values);
  EXPECT_EQ(to_array(of.k).values, to_array(of_dense.k).values);
  EXPECT_EQ(to_array(of.v).values, to_array(of_dense.v).values);
}

}  // namespace
}  // namespace tessera::ops
