// Tests of neural-network operators beyond their cases: values computed by hand, accuracy on long rows, threads,
// errors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tessera/ops/create/random.h"
#include "tessera/ops/nn/attention.h"
#include "tessera/ops/nn/cross_entropy.h"
#include "tessera/ops/nn/dropout.h"
#include "tessera/ops/nn/norm.h"
#include "tessera/ops/nn/rope.h"
#include "tessera/ops/nn/softmax.h"
#include "tessera/ops/parallel.h"
#include "tessera/ops/pointwise/convert.h"
#include "tessera/ops/shape/shape.h"
#include "tessera/ops/testing/op_case.h"
#include "tessera/tensor/device_context.h"

namespace tessera::ops {
namespace {

using testing::Array;
using testing::to_array;
using testing::to_tensor;

Array normal(const Shape& shape, std::uint64_t seed = 1) {
  testing::Random random(seed);
  return testing::normal(random, shape).value;
}
Tensor f32(const Array& array) { return to_tensor(array, DType::kF32); }
Tensor f64(const Array& array) { return to_tensor(array, DType::kF64); }
Tensor targets(std::vector<double> values) {
  const auto count = static_cast<std::int64_t>(values.size());
  return to_tensor(Array(Shape({count}), std::move(values)), DType::kI64);
}
std::string message_of(const std::function<void()>& body) {
  try {
    body();
    device::Device::get("host").synchronize();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing thrown";
}

// Returns the greatest error of f32 compared with f64 on the same rounded inputs, relative to the greatest value.
double error_of(const Tensor& got, const Tensor& want) {
  const Array a = to_array(got);
  const Array b = to_array(want);
  double worst = 0;
  for (std::size_t i = 0; i < a.values.size(); ++i) worst = std::max(worst, std::abs(a.values[i] - b.values[i]));
  return worst;
}

TEST(Softmax, OfLongRowsIsAccurate) {
  const Array x = testing::rounded(normal({3, 100003}), DType::kF32);
  const Array y = to_array(softmax(f32(x), 1));
  const Array want = to_array(softmax(f64(x), 1));
  for (std::size_t i = 0; i < y.values.size(); ++i) {
    ASSERT_NEAR(y.values[i] / want.values[i], 1, 1e-6) << i;
  }
  EXPECT_LE(error_of(log_softmax(f32(x), 1), log_softmax(f64(x), 1)), 3e-6);
}

// Results of 32 MiB and more are written past the caches; rows of 2049 are mostly not aligned for it.
TEST(Softmax, HasAGradientOfTheSameBitsInLargeAndSmallTensors) {
  for (const std::int64_t width : {2048, 2049}) {
    constexpr std::int64_t kRows = 4096;
    constexpr std::int64_t kSome = 37;
    const Tensor y = randn({kRows, width});
    const Tensor grad = randn({kRows, width});
    const Tensor large = softmax_backward(grad, y, 1);
    for (const std::int64_t first : {std::int64_t{0}, kRows - kSome}) {
      const auto some = [&](const Tensor& of) { return of.as_strided({kSome, width}, {width, 1}, first * width); };
      EXPECT_EQ(to_array(some(large)).values, to_array(softmax_backward(some(grad), some(y), 1)).values) << width;
    }
  }
}

TEST(Softmax, OfLargeNumbersDoesNotOverflow) {
  const Array y = to_array(softmax(f32(Array(Shape({3}), {1000, 1000, -1e30})), 0));
  EXPECT_EQ(y.values, (std::vector<double>{0.5, 0.5, 0}));
  const double inf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(to_array(softmax(f32(Array(Shape({2}), {0, -inf})), 0)).values, (std::vector<double>{1, 0}));
  EXPECT_TRUE(std::isnan(to_array(softmax(f32(Array(Shape({2}), {0, std::nan("")})), 0)).values[0]));
}

TEST(Norms, OfRowsFarFromZeroAreAccurate) {
  Array x = normal({2, 5003});
  for (double& value : x.values) value += 1000;
  x = testing::rounded(x, DType::kF32);
  EXPECT_LE(error_of(layer_norm(f32(x)), layer_norm(f64(x))), 1e-3);
  const Array long_row = testing::rounded(normal({1, 100003}), DType::kF32);
  EXPECT_LE(error_of(rms_norm(f32(long_row)), rms_norm(f64(long_row))), 3e-6);
}

TEST(CrossEntropy, SmoothsLabels) {
  // Logits 0 and log 3: probabilities 1/4 and 3/4. Target 1, with a tenth spread over both classes.
  const Tensor logits = f64(Array(Shape({1, 2}), {0, std::log(3.0)}));
  const double want = 0.95 * -std::log(0.75) + 0.05 * -std::log(0.25);
  const Tensor loss = cross_entropy(logits, targets({1}), {.label_smoothing = 0.1});
  EXPECT_NEAR(to_array(loss).values[0], want, 1e-12);
}

TEST(CrossEntropy, DividesByRowsThatCount) {
  const Tensor logits = f64(Array(Shape({3, 2}), 0));
  const Tensor three = targets({1, -100, 0});
  EXPECT_NEAR(to_array(cross_entropy(logits, three)).values[0], std::log(2.0), 1e-12);
  EXPECT_NEAR(to_array(cross_entropy(logits, three, {.count = 8})).values[0], 2 * std::log(2.0) / 8, 1e-12);
  EXPECT_EQ(to_array(cross_entropy(logits, targets({-100, -100, -100}))).values[0], 0) << "the mean of no rows";
}

// The first two of five classes are impossible: a shard that holds only these, or nothing, contributes nothing.
TEST(CrossEntropy, PartsOfTheClassesAddUpToTheWhole) {
  constexpr double kNever = -std::numeric_limits<double>::infinity();
  const std::vector<double> row = {kNever, kNever, 0.5, -1, 2};
  const CrossEntropyAttributes how = {.reduction = "none"};
  const CrossEntropyResult whole = cross_entropy_with_logsumexp(f32(Array({1, 5}, row)), targets({3}), how);
  double loss = 0;
  double sum = 0;
  for (const auto& [offset, count] : {std::pair{0, 2}, std::pair{2, 3}, std::pair{5, 0}}) {
    CrossEntropyAttributes part = how;
    part.classes = 5;
    part.class_map = {offset, count, {}};
    const Array logits({1, count}, std::vector<double>(row.begin() + offset, row.begin() + offset + count));
    const CrossEntropyResult got = cross_entropy_with_logsumexp(f32(logits), targets({3}), part);
    loss += to_array(got.loss).values[0];
    sum += std::exp(to_array(got.logsumexp).values[0]);
  }
  EXPECT_NEAR(std::log(sum), to_array(whole.logsumexp).values[0], 1e-6);
  EXPECT_NEAR(std::log(sum) + loss, to_array(whole.loss).values[0], 1e-6);
  CrossEntropyAttributes mean = {.classes = 5};
  mean.class_map = {0, 2, {}};
  EXPECT_THAT(message_of([&] {
                (void)cross_entropy(f32(Array({1, 2})), targets({3}), mean);
              }),
              ::testing::HasSubstr("requires reduction none, got 'mean'"));
}

TEST(CrossEntropy, NamesTargetsThatAreNoClass) {
  const Tensor logits = f64(Array(Shape({2, 3}), 0));
  EXPECT_THAT(message_of([&] {
                cross_entropy(logits, targets({1, 3}));
              }),
              ::testing::HasSubstr("target must be in [0, 3) or ignore_index (-100), got 3 in row 1"));
  tensor::current_stream(logits.device()).reset_error();  // the error is pending until then
  EXPECT_THAT(message_of([&] { cross_entropy(logits, targets({1}), {}); }),
              ::testing::HasSubstr("targets must have the shape of the rows, [2], got [1]"));
  EXPECT_THAT(message_of([&] {
                cross_entropy(logits, targets({1, 1}), {.reduction = "max"});
              }),
              ::testing::HasSubstr("reduction must be mean, sum or none, got 'max'"));
}

TEST(Rope, TurnsPairsByPosition) {
  // Position 2 of width 4: pair 0 rotates by 2, pair 1 by 2 / 100.
  const Tensor x = f64(Array(Shape({3, 4}), {9, 9, 9, 9, 9, 9, 9, 9, 1, 0, 0, 1}));
  const Array half = to_array(rope(x));
  EXPECT_NEAR(half.values[8], std::cos(2.0), 1e-12);
  EXPECT_NEAR(half.values[10], std::sin(2.0), 1e-12);
  EXPECT_NEAR(half.values[9], -std::sin(0.02), 1e-12);
  EXPECT_NEAR(half.values[11], std::cos(0.02), 1e-12);
  EXPECT_EQ(half.values[0], 9) << "position 0 turns nothing";
  const Array pairs = to_array(rope(x, {.is_interleaved = true}));
  EXPECT_NEAR(pairs.values[9], std::sin(2.0), 1e-12);
  EXPECT_NEAR(pairs.values[10], -std::sin(0.02), 1e-12);
}

// Widths below and above the vector width of the processor, and remainders.
TEST(Rope, OfAnyWidthTurnsAsInDoubleAndBack) {
  for (const std::int64_t width : {2, 6, 8, 16, 18, 30, 32, 34, 62, 64, 70}) {
    for (const bool is_interleaved : {false, true}) {
      const Array values = normal({3, 5, 73}, static_cast<std::uint64_t>(width));
      RopeAttributes how{.width = width, .is_interleaved = is_interleaved};
      const Tensor turned = rope(f32(values), how);
      EXPECT_LE(error_of(turned, rope(f64(values), how)), 1e-6) << width;
      how.is_inverse = true;
      EXPECT_LE(error_of(rope(turned, how), f64(values)), 1e-6) << width;
    }
  }
}

TEST(Rope, SlowsOnlySlowPairsForLongerContexts) {
  // Base 500000, width 128, context 8192, factor 8, turns 1 to 4, as in published models. Pair 0 turns 1304 times over
  // the context and is unchanged; pair 63 turns less than once and is slowed by 8; pair 32 is blended.
  const auto angle_of = [](std::int64_t pair) {
    Array x(Shape({2, 128}));
    x.values[static_cast<std::size_t>(128 + pair)] = 1;
    const Array y = to_array(rope(f64(x), {.base = 500000, .factor = 8, .original_context = 8192}));
    return std::asin(y.values[static_cast<std::size_t>(128 + pair + 64)]);
  };
  EXPECT_NEAR(angle_of(0), std::asin(std::sin(1.0)), 1e-12);
  const double slow = std::pow(500000.0, -126.0 / 128);
  EXPECT_NEAR(angle_of(63) / (slow / 8), 1, 1e-9);
  const double middle = std::pow(500000.0, -64.0 / 128);
  const double smooth = (8192 * middle / (2 * M_PI) - 1) / 3;
  ASSERT_GT(smooth, 0);
  ASSERT_LT(smooth, 1);
  EXPECT_NEAR(angle_of(32) / ((1 - smooth) * middle / 8 + smooth * middle), 1, 1e-9);
}

// With equal scores, attention is the mean of the values that a query attends to, so that the result shows these
// values.
std::vector<double> means_of_keys(std::int64_t queries, std::int64_t keys, const AttentionBias& bias) {
  Array v(Shape({1, 1, keys, 1}));
  for (std::int64_t j = 0; j < keys; ++j) v.values[static_cast<std::size_t>(j)] = std::pow(2.0, static_cast<double>(j));
  const Tensor q = f64(Array(Shape({1, 1, queries, 2}), 0));
  const Tensor k = f64(Array(Shape({1, 1, keys, 2}), 0));
  return to_array(scaled_dot_product_attention(q, k, f64(v), bias)).values;
}

TEST(Attention, LooksAtTheKeysThatTheBiasNames) {
  using List = std::vector<double>;
  const auto near = [](const List& want) { return ::testing::Pointwise(::testing::DoubleNear(1e-12), want); };
  EXPECT_THAT(means_of_keys(2, 4, {}), near({3.75, 3.75}));
  EXPECT_THAT(means_of_keys(2, 4, {.is_causal = true}), near({1, 1.5}));
  EXPECT_THAT(means_of_keys(2, 4, {.is_causal = true, .is_bottom_right = true}), near({7.0 / 3, 3.75}));
  EXPECT_THAT(means_of_keys(4, 2, {.is_causal = true, .is_bottom_right = true}), near({0, 0, 1, 1.5}));
  EXPECT_THAT(means_of_keys(4, 4, {.window_left = 1, .window_right = 0}), near({1, 1.5, 3, 6}));
  EXPECT_THAT(means_of_keys(4, 4, {.window_left = 0, .window_right = 1}), near({1.5, 3, 6, 8}));
  EXPECT_THAT(means_of_keys(2, 4, {.is_bottom_right = true, .window_left = 1, .window_right = 0}), near({3, 6}));
}

TEST(Attention, OverManyTilesIsTheSameAsOverWholeRows) {
  const Shape shape({1, 2, 600, 24});
  const Array q = testing::rounded(normal(shape, 1), DType::kF32);
  const Array k = testing::rounded(normal(shape, 2), DType::kF32);
  const Array v = testing::rounded(normal(shape, 3), DType::kF32);
  for (const AttentionBias& bias : {AttentionBias{.is_causal = true}, AttentionBias{.window_left = 300}}) {
    const Tensor got = scaled_dot_product_attention(f32(q), f32(k), f32(v), bias);
    // Compares complete rows with plain loops over one head and a few queries.
    const Array out = to_array(got);
    for (const std::int64_t i : {0, 1, 127, 128, 255, 256, 511, 599}) {
      std::vector<double> p;
      double sum = 0;
      for (std::int64_t j = 0; j < 600; ++j) {
        double score = 0;
        for (std::int64_t c = 0; c < 24; ++c) {
          score += q.values[static_cast<std::size_t>((600 + i) * 24 + c)] *
                   k.values[static_cast<std::size_t>((600 + j) * 24 + c)];
        }
        const bool is_seen = (!bias.is_causal || j <= i) && (bias.window_left < 0 || j >= i - bias.window_left);
        p.push_back(is_seen ? std::exp(score / std::sqrt(24.0)) : 0);
        sum += p.back();
      }
      double want = 0;
      for (std::int64_t j = 0; j < 600; ++j) {
        want += p[static_cast<std::size_t>(j)] / sum * v.values[static_cast<std::size_t>((600 + j) * 24 + 7)];
      }
      EXPECT_NEAR(out.values[static_cast<std::size_t>((600 + i) * 24 + 7)], want, 2e-6) << i;
    }
  }
}

TEST(Dropout, KeepsTheMeanAndDropsTheShareAskedFor) {
  const Tensor x = f32(Array(Shape({100, 100}), 3));
  const Array y = to_array(dropout(x, 0.25));
  double dropped = 0;
  for (const double value : y.values) {
    ASSERT_TRUE(value == 0 || std::abs(value - 4) < 1e-6) << value;
    dropped += value == 0 ? 1 : 0;
  }
  EXPECT_NEAR(dropped / 10000, 0.25, 0.03);
  EXPECT_TRUE(dropout(x, 0).is_same(x));
  EXPECT_TRUE(dropout(x, 0.5, false).is_same(x)) << "not while training";
  EXPECT_EQ(to_array(dropout(x, 1)).values, std::vector<double>(10000, 0));
  EXPECT_THAT(message_of([&] { dropout(x, 1.5); }), ::testing::HasSubstr("dropout: p must be in [0, 1], got 1.5"));
}

// [batch, sequence, heads, width] in memory, seen as [batch, heads, sequence, width].
TEST(Attention, LaysItsResultsOutAsItsInputs) {
  const Tensor q = transpose(f32(normal({2, 7, 4, 16}, 1)), 1, 2);
  const Tensor k = transpose(f32(normal({2, 7, 2, 16}, 2)), 1, 2);
  const Tensor v = transpose(f32(normal({2, 7, 2, 8}, 3)), 1, 2);
  const Tensor grad = f32(normal({2, 4, 7, 8}, 4));
  const auto results_of = [&](const Tensor& queries, const Tensor& keys, const Tensor& values) {
    const AttentionResult forward = attention_with_logsumexp(queries, keys, values, {.is_causal = true});
    const AttentionGradients back =
        scaled_dot_product_attention_backward({grad, {}}, queries, keys, values, forward, {.is_causal = true});
    return std::vector<Tensor>{forward.out, back.q, back.k, back.v, rope(queries)};
  };
  const std::vector<Tensor> got = results_of(q, k, v);
  const std::vector<Tensor> want = results_of(contiguous(q), contiguous(k), contiguous(v));
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_TRUE(transpose(got[i], 1, 2).is_contiguous()) << i;
    EXPECT_TRUE(want[i].is_contiguous()) << i;
    EXPECT_EQ(to_array(got[i]).values, to_array(want[i]).values) << i;
  }
}

TEST(Nn, HasTheSameBitsForAnyNumberOfThreads) {
  const Tensor q = f32(normal({1, 4, 300, 16}, 1));
  const Tensor k = f32(normal({1, 2, 300, 16}, 2));
  const Tensor v = f32(normal({1, 2, 300, 16}, 3));
  const Tensor x = f32(normal({500, 300}, 4));
  const Tensor weight = f32(normal({700, 300}, 5));
  const Tensor classes = to_tensor(Array(Shape({500}), 3), DType::kI64);
  std::vector<std::vector<double>> results[2];
  for (const int way : {0, 1}) {
    detail::set_thread_budget(way == 0 ? 1 : 3);
    const AttentionResult forward = attention_with_logsumexp(q, k, v, {.is_causal = true});
    const AttentionGradients backward =
        scaled_dot_product_attention_backward({forward.out, {}}, q, k, v, forward, {.is_causal = true});
    const NormGradients norms = rms_norm_backward(x, x, {}, f32(normal({500}, 6)));
    for (const Tensor& result : {forward.out, backward.q, backward.k, backward.v, norms.weight, softmax(x, 1),
                                 layer_norm(x), linear_cross_entropy(x, weight, classes)}) {
      results[way].push_back(to_array(result).values);
    }
  }
  detail::set_thread_budget(1);
  EXPECT_EQ(results[0], results[1]);
}

TEST(Nn, NamesWhatDoesNotFit) {
  const Tensor x = f32(normal({2, 3}));
  EXPECT_THAT(message_of([&] { softmax(x, 2); }), ::testing::HasSubstr("softmax"));
  EXPECT_THAT(message_of([&] { rms_norm(x, f32(normal({2}))); }),
              ::testing::HasSubstr("weight must be f32[3], got f32[2]"));
  EXPECT_THAT(message_of([&] { rope(x); }), ::testing::HasSubstr("width must be even and in [0, 3], got 3"));
  const Tensor q = f32(normal({1, 3, 2, 4}));
  const Tensor k = f32(normal({1, 2, 2, 4}));
  EXPECT_THAT(message_of([&] { scaled_dot_product_attention(q, k, k); }),
              ::testing::HasSubstr("heads of q must be a multiple of the heads of k (2), got 3"));
  EXPECT_THAT(message_of([&] { softmax(to_tensor(Array(Shape({2}), 1), DType::kI64), 0); }),
              ::testing::HasSubstr("dtype must be f32, f64, bf16 or f16, got i64"));
}

}  // namespace
}  // namespace tessera::ops
