// Tests the distributions of the random operators: complete distributions by the Kolmogorov-Smirnov distance, counts by
// chi-squared, adjacent elements and calls by correlation. Seeds are fixed, so that results are reproducible. Chance
// exceeds the bounds once in a thousand. Also tests the ends of ranges, at the elements where the generator returns its
// minimum and maximum.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "tessera/base/testing/expect_error.h"
#include "tessera/ops/create/generator.h"
#include "tessera/ops/create/random.h"
#include "tessera/ops/testing/op_case.h"
#include "tessera/tensor/call.h"

namespace tessera::ops {
namespace {

using testing::to_array;
using Values = std::vector<double>;

constexpr std::int64_t kCount = 100000;

// Returns the Kolmogorov-Smirnov distance times the root of the count: above 1.95 once in a thousand.
double distance(Values values, const std::function<double(double)>& below) {
  std::sort(values.begin(), values.end());
  const auto n = static_cast<double>(values.size());
  double most = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double want = below(values[i]);
    most =
        std::max({most, std::abs(want - static_cast<double>(i) / n), std::abs(want - static_cast<double>(i + 1) / n)});
  }
  return most * std::sqrt(n);
}

double normal_below(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }

double correlation(const Values& a, const Values& b) {
  const auto n = static_cast<double>(a.size());
  const double mean_a = std::accumulate(a.begin(), a.end(), 0.0) / n;
  const double mean_b = std::accumulate(b.begin(), b.end(), 0.0) / n;
  double products = 0;
  double squares_a = 0;
  double squares_b = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    products += (a[i] - mean_a) * (b[i] - mean_b);
    squares_a += (a[i] - mean_a) * (a[i] - mean_a);
    squares_b += (b[i] - mean_b) * (b[i] - mean_b);
  }
  return products / std::sqrt(squares_a * squares_b);
}

// Returns the chi-squared of counts that should be `want` each, in standard deviations from its mean.
double chi_deviation(const Values& counts, double want) {
  double sum = 0;
  for (const double count : counts) sum += (count - want) * (count - want) / want;
  const auto free = static_cast<double>(counts.size() - 1);
  return (sum - free) / std::sqrt(2 * free);
}

TEST(Distribution, OfUniformNumbers) {
  for (const std::uint64_t seed : {1, 2, 3}) {
    manual_seed(seed);
    EXPECT_LT(distance(to_array(rand({kCount})).values, [](double x) { return x; }), 1.95) << seed;
    const Tensor x = rand({kCount});
    uniform_(x, -3, 5);
    EXPECT_LT(distance(to_array(x).values, [](double at) { return (at + 3) / 8; }), 1.95) << seed;
  }
}

TEST(Distribution, OfNormalNumbers) {
  for (const std::uint64_t seed : {1, 2, 3}) {
    manual_seed(seed);
    EXPECT_LT(distance(to_array(randn({kCount})).values, normal_below), 1.95) << seed;
    const Tensor x = randn({kCount});
    normal_(x, -2, 3);
    EXPECT_LT(distance(to_array(x).values, [](double at) { return normal_below((at + 2) / 3); }), 1.95) << seed;
  }
}

TEST(Distribution, OfTruncatedNormalNumbers) {
  const double low = normal_below((-1.5 - 0.5) / 2);
  const double high = normal_below((1.0 - 0.5) / 2);
  for (const std::uint64_t seed : {1, 2, 3}) {
    manual_seed(seed);
    const Tensor x = rand({kCount});
    trunc_normal_(x, 0.5, 2, -1.5, 1);
    EXPECT_LT(
        distance(to_array(x).values, [&](double at) { return (normal_below((at - 0.5) / 2) - low) / (high - low); }),
        1.95)
        << seed;
  }
}

TEST(Distribution, OfNeighboursAndOfCallsIsIndependent) {
  manual_seed(4);
  const double bound = 3.3 / std::sqrt(static_cast<double>(kCount));
  const Values first = to_array(randn({kCount})).values;
  const Values second = to_array(randn({kCount})).values;
  EXPECT_LT(std::abs(correlation(first, second)), bound);
  Values squares = first;
  Values other = second;
  for (double& value : squares) value *= value;
  for (double& value : other) value *= value;
  EXPECT_LT(std::abs(correlation(squares, other)), bound);
  for (const std::ptrdiff_t lag : {1, 2, 3, 4, 8}) {
    EXPECT_LT(std::abs(correlation(Values(first.begin(), first.end() - lag), Values(first.begin() + lag, first.end()))),
              bound)
        << lag;
    EXPECT_LT(std::abs(correlation(Values(squares.begin(), squares.end() - lag),
                                   Values(squares.begin() + lag, squares.end()))),
              bound)
        << lag;
  }
}

TEST(Distribution, OfIntegersIsEven) {
  manual_seed(5);
  for (const std::int64_t range : {2, 7, 100, 1000}) {
    Values counts(static_cast<std::size_t>(range));
    for (const double value : to_array(randint(-5, range - 5, {kCount})).values) {
      ++counts[static_cast<std::size_t>(value + 5)];
    }
    EXPECT_LT(std::abs(chi_deviation(counts, static_cast<double>(kCount) / static_cast<double>(range))), 4) << range;
  }
  // Long ranges: checks the upper bits.
  Values counts(64);
  const Tensor wide = randint(INT64_MIN, INT64_MAX, {kCount});
  wide.device().synchronize();
  for (std::int64_t i = 0; i < kCount; ++i) {
    ++counts[(static_cast<std::uint64_t>(wide.data_as<std::int64_t>()[i]) + (std::uint64_t{1} << 63)) >> 58];
  }
  EXPECT_LT(std::abs(chi_deviation(counts, kCount / 64.0)), 4);
}

TEST(Distribution, OfBernoulliIsTheProbability) {
  manual_seed(6);
  for (const double p : {0.001, 0.3, 0.5, 0.999}) {
    const Values drawn = to_array(bernoulli({kCount}, p)).values;
    const double ones = std::accumulate(drawn.begin(), drawn.end(), 0.0);
    EXPECT_NEAR(ones / kCount, p, 3.3 * std::sqrt(p * (1 - p) / kCount)) << p;
  }
  EXPECT_EQ(to_array(bernoulli({1000}, 0)).values, Values(1000, 0));
  EXPECT_EQ(to_array(bernoulli({1000}, 1)).values, Values(1000, 1));
}

// Each number is equally likely at each position and after each other number.
TEST(Distribution, OfPermutationsIsEven) {
  manual_seed(7);
  constexpr std::int64_t kNumbers = 7;
  constexpr int kDraws = 7000;
  Values places(kNumbers * kNumbers);
  Values pairs(kNumbers * kNumbers);
  for (int draw = 0; draw < kDraws; ++draw) {
    const Values order = to_array(randperm(kNumbers)).values;
    for (std::size_t i = 0; i < order.size(); ++i) {
      ++places[i * kNumbers + static_cast<std::size_t>(order[i])];
      if (i > 0) ++pairs[static_cast<std::size_t>(order[i - 1]) * kNumbers + static_cast<std::size_t>(order[i])];
    }
  }
  EXPECT_LT(std::abs(chi_deviation(places, kDraws / 7.0)), 4);
  Values different;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    if (i / kNumbers != i % kNumbers) different.push_back(pairs[i]);
  }
  EXPECT_LT(std::abs(chi_deviation(different, kDraws * 6 / 42.0)), 4);
}

// Returns one element of a call with seed 1, by its index in a long tensor.
double element(const char* op, std::int64_t index, const Scalar& a, const Scalar& b) {
  RandomAttributes attributes;
  attributes.shape = Shape({1});
  attributes.global = Shape({std::int64_t{1} << 40});
  attributes.index = {layout::IndexMap{.offset = index, .block = 1, .levels = {}}};
  attributes.seed = 1;
  attributes.a = a;
  attributes.b = b;
  return to_array(tensor::call_on(device::Device::get("host"), tensor::find_op(op), attributes)).values[0];
}

TEST(Distribution, OfUniformNumbersReachesItsLeastAndNeverItsEnd) {
  constexpr std::int64_t kGreatest = 25275781;  // its 24 bits are all ones
  constexpr std::int64_t kMin = 41841907;       // all zeros
  EXPECT_EQ(element("rand", kGreatest, 0, 1), 1 - std::ldexp(1.0, -24));
  EXPECT_EQ(element("rand", kMin, 0, 1), 0);
  EXPECT_EQ(element("rand", kMin, -3.0, 5.0), -3);
  // Rounding to f32 would yield the end of the range.
  EXPECT_EQ(element("rand", kGreatest, 1.0, 2.0), 2 - std::ldexp(1.0, -23));
  EXPECT_LT(element("rand", kGreatest, 100.0, 101.0), 101);
  EXPECT_LT(element("rand", kGreatest, -2.0, -1.0), -1);
  EXPECT_EQ(element("rand", kGreatest, 3.0, 3.0), 3) << "a range of nothing";
  EXPECT_EQ(element("randint", kGreatest, 0, 10), 9);
  EXPECT_EQ(element("randint", kMin, 0, 10), 0);
  EXPECT_EQ(element("bernoulli", kGreatest, 1.0, 1), 1);
  EXPECT_EQ(element("bernoulli", kMin, 0.0, 1), 0);
  // The greatest normal number comes from the least uniform number.
  EXPECT_TRUE(std::isfinite(element("randn", kMin, 0, 1)));
}

TEST(Distribution, RefusesParametersThatMakeNone) {
  const Tensor x = rand({3});
  expect_error<InvalidArgument>([&] { uniform_(x, 2, 1); }, {"rand: low must not exceed high, got low 2 and high 1"});
  expect_error<InvalidArgument>([&] { normal_(x, 0, -1); }, {"randn: standard deviation must be at least 0, got -1"});
}

}  // namespace
}  // namespace tessera::ops
