// Tests random tensors: equal values for all dtypes, thread counts, strides and shards, and the right distributions.
#include "tessera/ops/create/random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "tessera/base/testing/expect_error.h"
#include "tessera/ops/create/generator.h"
#include "tessera/ops/parallel.h"
#include "tessera/ops/testing/op_case.h"
#include "tessera/tensor/call.h"

namespace tessera::ops {
namespace {

using testing::Array;
using testing::rounded;
using testing::to_array;
using Values = std::vector<double>;

TEST(Random, ASeedMakesTheSameNumbersAndCallsMakeOthers) {
  manual_seed(3);
  const Values first = to_array(randn({100})).values;
  const Values second = to_array(randn({100})).values;
  manual_seed(3);
  EXPECT_EQ(to_array(randn({100})).values, first);
  const GeneratorState state = generator_state();
  EXPECT_EQ(to_array(randn({100})).values, second);
  EXPECT_NE(first, second);
  set_generator_state(state);
  EXPECT_EQ(to_array(randn({10, 10})).values, second);
  manual_seed(4);
  EXPECT_NE(to_array(randn({100})).values, first);
}

TEST(Random, EveryDTypeRoundsTheSameDraw) {
  manual_seed(3);
  const Array draw = to_array(randn({77}));
  for (const DType dtype : {DType::kF64, DType::kBF16, DType::kF16}) {
    manual_seed(3);
    EXPECT_EQ(to_array(randn({77}, {.dtype = dtype})).values, rounded(draw, dtype).values) << to_string(dtype);
  }
}

TEST(Random, ThreadsAndStridesChangeNothing) {
  const int budget = detail::thread_budget();
  manual_seed(9);
  const Values one = to_array(rand({300, 257})).values;
  detail::set_thread_budget(3);
  manual_seed(9);
  EXPECT_EQ(to_array(rand({300, 257})).values, one);
  detail::set_thread_budget(budget);
  manual_seed(9);
  const Tensor strided = empty({257, 300}).as_strided({300, 257}, Strides({1, 300}), 0);
  uniform_(strided);
  EXPECT_EQ(to_array(strided).values, one);
}

TEST(Random, AShardDrawsWhatTheWholeHasThere) {
  manual_seed(5);
  const Shape whole({6, 10});
  const GeneratorState state = generator_state();
  const Values all = to_array(randn(whole)).values;
  // Rows 2 to 4, and the column pairs at 2 and 6.
  layout::IndexMap rows{.offset = 2, .block = 3, .levels = {}};
  layout::IndexMap columns{.offset = 2, .block = 2, .levels = {{.count = 2, .stride = 4}}};
  RandomAttributes part;
  part.shape = Shape({3, 4});
  part.seed = static_cast<std::int64_t>(state.seed);
  part.call = static_cast<std::int64_t>(state.call);
  part.global = whole;
  part.index = {rows, columns};
  const Values got = to_array(tensor::call_on(Device::get("host"), tensor::find_op("randn"), part)).values;
  for (std::int64_t r = 0; r < 3; ++r) {
    for (std::int64_t c = 0; c < 4; ++c) {
      const auto at = static_cast<std::size_t>(rows.global(r) * 10 + columns.global(c));
      EXPECT_EQ(got[static_cast<std::size_t>(r * 4 + c)], all[at]) << r << " " << c;
    }
  }
}

TEST(Random, ACounterInMemoryIsReadWhenTheWorkRuns) {
  const Tensor counter = zeros({}, {.dtype = DType::kI64});
  const Tensor x = empty({50});
  manual_seed(1);
  normal_(x, 0, 1, counter);
  const Values first = to_array(x).values;
  fill_(counter, 1);
  manual_seed(1);
  normal_(x, 0, 1, counter);
  const Values second = to_array(x).values;
  EXPECT_NE(first, second);
  manual_seed(1);
  EXPECT_EQ(to_array(randn({50})).values, first);
  EXPECT_EQ(to_array(randn({50})).values, second);
}

TEST(Random, AScopeGivesEveryDrawItsCounter) {
  const Tensor counter = full({}, 2, {.dtype = DType::kI64});
  const Tensor x = empty({50});
  const auto draws = [&] {
    std::vector<Values> all;
    manual_seed(1);
    for (const Tensor& each : {rand({50}), randn_like(x), randint(0, 1000, {50}), randperm(50)}) {
      all.push_back(to_array(each).values);
    }
    bernoulli_(x, 0.5);
    all.push_back(to_array(x).values);
    trunc_normal_(x);
    all.push_back(to_array(x).values);
    return all;
  };
  const std::vector<Values> without = draws();
  const std::vector<Values> later = [&] {
    std::vector<Values> all;
    manual_seed(1);
    set_generator_state({.seed = 1, .call = 2});
    all.push_back(to_array(rand({50})).values);
    all.push_back(to_array(randn_like(x)).values);
    return all;
  }();
  {
    const GeneratorCounterScope scope(counter);
    const std::vector<Values> counted = draws();
    for (std::size_t i = 0; i < counted.size(); ++i) EXPECT_NE(counted[i], without[i]) << i;
    for (std::size_t i = 0; i < later.size(); ++i) EXPECT_EQ(counted[i], later[i]) << i;
    {
      const GeneratorCounterScope inner(zeros({}, {.dtype = DType::kI64}));
      EXPECT_EQ(draws(), without) << "the innermost counts";
    }
    EXPECT_EQ(draws(), counted);
    manual_seed(1);
    normal_(x, 0, 1, zeros({}, {.dtype = DType::kI64}));
    const Values own = to_array(x).values;
    manual_seed(1);
    normal_(x);
    EXPECT_NE(to_array(x).values, own) << "a counter of its own wins";
  }
  EXPECT_FALSE(generator_counter());
  EXPECT_EQ(draws(), without);
}

double mean_of(const Values& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

TEST(Random, RangesAndMomentsAreThoseAskedFor) {
  manual_seed(2);
  const Tensor x = empty({20000});
  uniform_(x, -2, 4);
  Values values = to_array(x).values;
  EXPECT_NEAR(mean_of(values), 1, 0.05);
  EXPECT_GE(*std::min_element(values.begin(), values.end()), -2);
  EXPECT_LT(*std::max_element(values.begin(), values.end()), 4);
  normal_(x, 3, 0.5);
  EXPECT_NEAR(mean_of(to_array(x).values), 3, 0.02);
  trunc_normal_(x, 0, 1, -0.5, 1);
  values = to_array(x).values;
  EXPECT_GE(*std::min_element(values.begin(), values.end()), -0.5);
  EXPECT_LE(*std::max_element(values.begin(), values.end()), 1);
  // (density(-0.5) - density(1)) / (below(1) - below(-0.5))
  EXPECT_NEAR(mean_of(values), 0.2067, 0.02);
  EXPECT_NEAR(mean_of(to_array(bernoulli({20000}, 0.3)).values), 0.3, 0.02);
  expect_error<InvalidArgument>([&] { trunc_normal_(x, 0, 1, 5, 6); },
                                {"trunc_normal", "range must hold at least 5% of the distribution"});
  expect_error<InvalidArgument>([] { (void)bernoulli({2}, 1.5); },
                                {"bernoulli", "probability must be in [0, 1], got 1.5"});
}

TEST(Random, IntegersCoverTheirRange) {
  manual_seed(2);
  const Values values = to_array(randint(-3, 4, {7000})).values;
  for (int want = -3; want < 4; ++want) {
    EXPECT_NEAR(static_cast<double>(std::count(values.begin(), values.end(), want)), 1000, 150) << want;
  }
  const Tensor wide = randint(INT64_MIN, INT64_MAX, {1000});
  wide.device().synchronize();
  const auto* at = wide.data_as<std::int64_t>();
  EXPECT_TRUE(std::any_of(at, at + 1000, [](std::int64_t v) { return v > INT64_MAX / 2; }));
  EXPECT_TRUE(std::any_of(at, at + 1000, [](std::int64_t v) { return v < INT64_MIN / 2; }));
  expect_error<InvalidArgument>([] { (void)randint(3, 3, {1}); },
                                {"randint", "low must be below high, got low 3 and high 3"});
}

TEST(Random, PermutationsHoldEachNumberOnce) {
  manual_seed(2);
  for (const std::int64_t n : {0, 1, 2, 5, 100, 1000}) {
    Values values = to_array(randperm(n)).values;
    std::sort(values.begin(), values.end());
    for (std::size_t i = 0; i < values.size(); ++i) ASSERT_EQ(values[i], static_cast<double>(i));
  }
  // All orders of three elements occur about equally often.
  std::map<Values, int> orders;
  for (int i = 0; i < 3000; ++i) ++orders[to_array(randperm(3)).values];
  EXPECT_EQ(orders.size(), 6U);
  for (const auto& [order, count] : orders) EXPECT_NEAR(count, 500, 100);
}

}  // namespace
}  // namespace tessera::ops
