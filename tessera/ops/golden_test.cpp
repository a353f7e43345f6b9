// Fixed values for operators with ambiguous definitions. They were computed from the published definitions
// independently of this code, so that neither a kernel nor its reference can drift. The tests of the families have
// further values.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tessera/ops/detail/philox.h"
#include "tessera/ops/nn/attention.h"
#include "tessera/ops/nn/cross_entropy.h"
#include "tessera/ops/nn/norm.h"
#include "tessera/ops/nn/rope.h"
#include "tessera/ops/nn/softmax.h"
#include "tessera/ops/pointwise/activations.h"
#include "tessera/ops/pointwise/functions.h"
#include "tessera/ops/pointwise/pointwise.h"
#include "tessera/ops/reduce/reduce.h"
#include "tessera/ops/testing/op_case.h"
#include "tessera/ops/update/update.h"

namespace tessera::ops {
namespace {

using testing::Array;
using testing::to_array;
using testing::to_tensor;
using Values = std::vector<double>;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

Tensor of(const Values& values, DType dtype = DType::kF64) {
  return to_tensor(Array(Shape({static_cast<std::int64_t>(values.size())}), values), dtype);
}
Tensor of(const Shape& shape, const Values& values) { return to_tensor(Array(shape, values), DType::kF64); }

void expect_near(const Tensor& got, const Values& want, double tolerance = 1e-12) {
  const Values values = to_array(got).values;
  ASSERT_EQ(values.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) {
    if (values[i] == want[i] || (std::isnan(values[i]) && std::isnan(want[i]))) continue;
    EXPECT_NEAR(values[i], want[i], tolerance) << i;
  }
}

TEST(Golden, Activations) {
  for (const DType dtype : {DType::kF64, DType::kF32}) {
    const double tolerance = dtype == DType::kF64 ? 1e-14 : 3e-7;
    const Tensor x = of({-3, -1, -0.5, 0, 0.5, 1, 3}, dtype);
    expect_near(gelu(x),
                {-0.004049694094890287, -0.15865525393145707, -0.15426876936299344, 0, 0.34573123063700656,
                 0.8413447460685429, 2.99595030590511},
                tolerance);
    expect_near(gelu_tanh(x),
                {-0.0036373920817729943, -0.15880800939172324, -0.15428599017485606, 0, 0.34571400982514394,
                 0.8411919906082768, 2.996362607918227},
                tolerance);
    expect_near(softplus(x),
                {0.04858735157374206, 0.31326168751822286, 0.4740769841801067, 0.6931471805599453, 0.9740769841801067,
                 1.3132616875182228, 3.048587351573742},
                tolerance);
    expect_near(silu(x),
                {-0.14227761953270035, -0.2689414213699951, -0.1887703343990727, 0, 0.3112296656009273,
                 0.7310585786300049, 2.8577223804672998},
                tolerance);
    expect_near(
        swiglu(x, of({2, 2, 2, 2, 2, -2, 0}, dtype)),
        {-0.2845552390654007, -0.5378828427399902, -0.3775406687981454, 0, 0.6224593312018546, -1.4621171572600098, 0},
        tolerance);
    const SwigluGradients gradients =
        swiglu_backward(of({1, -1, 2, 1, 0.5, 1, 4}, dtype), x, of({2, 2, 2, 2, 2, -2, 0}, dtype));
    expect_near(
        gradients.a,
        {-0.17620821203033923, -0.1446589762570265, 1.0401552507893927, 1, 0.7399611873026519, -1.8553410237429737, 0},
        2 * tolerance);
    expect_near(gradients.b,
                {-0.14227761953270035, 0.2689414213699951, -0.3775406687981454, 0, 0.15561483280046365,
                 0.7310585786300049, 11.4308895218692},
                4 * tolerance);
    expect_near(erf(of({-1, 0.5, 3}, dtype)), {-0.8427007929497149, 0.5204998778130465, 0.9999779095030014}, tolerance);
  }
}

TEST(Golden, RoundingGoesToEven) {
  for (const DType dtype : {DType::kF64, DType::kF32, DType::kBF16, DType::kF16}) {
    expect_near(round(of({-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 3.5, 2.75}, dtype)), {-2, -2, 0, 0, 2, 2, 4, 3}, 0);
  }
}

TEST(Golden, QuotientsGoDownAndRemaindersHaveTheSignOfTheDivisor) {
  const Values a = {7, -7, 7, -7, 6, -6, 0};
  const Values b = {3, 3, -3, -3, 3, -3, -3};
  for (const DType dtype : {DType::kF64, DType::kF32, DType::kBF16, DType::kI64, DType::kI8}) {
    expect_near(floor_divide(of(a, dtype), of(b, dtype)), {2, -3, -3, 2, 2, 2, 0}, 0);
    expect_near(remainder(of(a, dtype), of(b, dtype)), {1, 2, -2, -1, 0, 0, 0}, 0);
  }
  expect_near(floor_divide(of({5.5, -5.5, 1, -1}), of({2, 2, kInf, kInf})), {2, -3, 0, -1}, 0);
  expect_near(remainder(of({5.5, -5.5, 5.5, 1, -1, 1}), of({2, 2, -2, 0, kInf, kInf})), {1.5, 0.5, -0.5, kNan, kInf, 1},
              0);
}

TEST(Golden, PowersOfSpecialNumbers) {
  expect_near(pow(of({0, -2, -2, 2, 0, kInf, 1}), of({0, 3, 0.5, -1, -1, 0, kNan})), {1, -8, kNan, 0.5, kInf, 1, 1}, 0);
  expect_near(pow(of({2, -3, 0, 5}, DType::kI64), of({10, 3, 0, -1}, DType::kI64)), {1024, -27, 1, 0}, 0);
}

TEST(Golden, VarianceTakesItsCorrectionFromTheCount) {
  const Tensor x = of({1, 2, 3, 4});
  expect_near(var(x, {0}, 0), {1.25});
  expect_near(var(x, {0}, 1), {5.0 / 3});
  expect_near(var(x, {0}, 2), {2.5});
  expect_near(var(x, {0}, 4), {kInf});
  expect_near(var(of({3}), {0}, 1), {kNan});
}

TEST(Golden, BinsHoldTheirLowerEdgeAndTheLastBoth) {
  expect_near(histc(of({-0.1, 0, 0.99, 1, 2, 3, 4, 4.1, kNan, kInf}), 4, 0, 4), {2, 1, 1, 2}, 0);
  expect_near(histc(of({1, 2, 3, 3}, DType::kI64), 2, 1, 3), {1, 3}, 0);
  expect_near(histc(of({-1, -0.5, 0, 0.5, 1}, DType::kF32), 4, -1, 1), {1, 1, 1, 2}, 0);
}

TEST(Golden, NormsOfSeveralOrders) {
  const Tensor x = of({3, -4, 0});
  expect_near(norm(x, 2), {5});
  expect_near(norm(x, 1), {7});
  expect_near(norm(x, 0), {2});
  expect_near(norm(x, 3), {4.497941445275415});
  expect_near(norm(x, kInf), {4});
  expect_near(norm(x, -kInf), {0});
}

TEST(Golden, SoftmaxAndWhatIsMadeOfIt) {
  const Tensor x = of({1, 3}, {1, 2, 3});
  expect_near(softmax(x, 1), {0.09003057317038046, 0.24472847105479767, 0.6652409557748219});
  expect_near(logsumexp(x, {1}), {3.40760596444438});
  const Tensor targets = to_tensor(Array(Shape({1}), 2), DType::kI64);
  expect_near(cross_entropy(x, targets), {0.40760596444438});
  // 0.85 for the target and 0.05 for each of the three classes.
  expect_near(cross_entropy(x, targets, {.label_smoothing = 0.15}),
              {0.9 * 0.40760596444438 + 0.05 * (2.40760596444438 + 1.40760596444438)});
}

TEST(Golden, NormsAddTheirEpsInsideTheRoot) {
  const Tensor x = of({1, 2, 3, 4});
  expect_near(layer_norm(x, {}, {}, 0.5),
              {-1.1338934190276817, -0.3779644730092272, 0.3779644730092272, 1.1338934190276817});
  expect_near(layer_norm(x), {-1.3416354199689269, -0.447211806656309, 0.447211806656309, 1.3416354199689269});
  expect_near(layer_norm(x, of({2, 2, 2, 2}), of({1, 0, 0, -1}), 0.5),
              {-1.2677868380553634, -0.7559289460184544, 0.7559289460184544, 1.2677868380553634});
  expect_near(rms_norm(of({3, 4}), {}, 0.5), {0.8320502943378437, 1.1094003924504583});
}

TEST(Golden, RopePairsHalvesOrNeighbours) {
  // Width 4, base 10000, position 1: angles 1 and 0.01.
  const Tensor x = of({2, 4}, {0, 0, 0, 0, 1, 2, 3, 4});
  // Rotates (1, 3) and (2, 4), or (1, 2) and (3, 4).
  expect_near(rope(x), {0, 0, 0, 0, -1.9841106485555495, 1.959900667496664, 2.4623779024123156, 4.019799668334994},
              1e-9);
  expect_near(rope(x, {.is_interleaved = true}),
              {0, 0, 0, 0, -1.1426396637476532, 1.922075596544176, 2.9598506679133294, 4.029799501669161});
}

TEST(Golden, AttentionDividesByTheRootOfTheWidth) {
  const Tensor q = of({1, 1, 1, 2}, {1, 0});
  const Tensor k = of({1, 1, 2, 2}, {1, 0, 0, 1});
  const Tensor v = of({1, 1, 2, 1}, {10, 20});
  const AttentionResult got = attention_with_logsumexp(q, k, v);
  expect_near(got.out, {13.302384506733432});
  expect_near(got.logsumexp, {1.1079403076572498});
  // With two keys and one query, bottom-right alignment uses both keys, top-left only the first.
  expect_near(scaled_dot_product_attention(q, k, v, {.is_causal = true, .is_bottom_right = true}),
              {13.302384506733432});
  expect_near(scaled_dot_product_attention(q, k, v, {.is_causal = true}), {10});
}

TEST(Golden, AdamWTwoSteps) {
  const std::vector<Tensor> params = {of({1.0})};
  const std::vector<Tensor> first = {of({0.0})};
  const std::vector<Tensor> second = {of({0.0})};
  const Tensor step = to_tensor(Array(Shape(), 0), DType::kI64);
  const StepScalars scalars{.learning_rate = to_tensor(Array(Shape(), 0.1), DType::kF64)};
  const std::vector<Tensor> grads[] = {{of({0.5})}, {of({-1.0})}};
  adamw_(params, grads[0], first, second, step, scalars);
  expect_near(params[0], {0.899000002});
  expect_near(first[0], {0.05});
  expect_near(second[0], {0.00025});
  adamw_(params, grads[1], first, second, step, scalars);
  expect_near(params[0], {0.9347113542385652});
  expect_near(first[0], {-0.055});
  expect_near(second[0], {0.00124975});
  EXPECT_EQ(to_array(step).values, Values{2});
}

TEST(Golden, SgdTwoStepsWithMomentum) {
  const StepScalars scalars{.learning_rate = to_tensor(Array(Shape(), 0.1), DType::kF64)};
  for (const bool is_nesterov : {false, true}) {
    const std::vector<Tensor> params = {of({1.0})};
    const std::vector<Tensor> momenta = {of({0.0})};
    const std::vector<Tensor> grads[] = {{of({0.5})}, {of({-1.0})}};
    const SgdAttributes how{.momentum = 0.5, .weight_decay = 0.25, .is_nesterov = is_nesterov};
    sgd_(params, grads[0], momenta, scalars, how);
    expect_near(params[0], {is_nesterov ? 0.8875 : 0.925});
    expect_near(momenta[0], {0.75});
    sgd_(params, grads[1], momenta, scalars, how);
    expect_near(params[0], {is_nesterov ? 0.98546875 : 0.964375});
    expect_near(momenta[0], {is_nesterov ? -0.403125 : -0.39375});
  }
}

// The published test vectors of the generator: counter, key, words.
TEST(Golden, PhiloxGivesItsKnownAnswers) {
  struct {
    std::uint64_t seed, call, block;
    std::uint32_t want[4];
  } const rows[] = {
      {0, 0, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
      {UINT64_MAX, UINT64_MAX, UINT64_MAX, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
      {0x299f31d0a4093822, 0x0370734413198a2e, 0x85a308d3243f6a88, {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
  };
  for (const auto& row : rows) {
    std::uint32_t words[4];
    detail::words_of_block(row.seed, row.call, row.block, words);
    for (std::size_t w = 0; w < 4; ++w) EXPECT_EQ(words[w], row.want[w]) << w;
  }
}

}  // namespace
}  // namespace tessera::ops
