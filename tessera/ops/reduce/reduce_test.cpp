// Tests of reductions beyond the cases: accuracy on long inputs, equal bits for any number of threads, nan, ties, empty
// inputs, dtypes and errors.
#include "tessera/ops/reduce/reduce.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "tessera/base/testing/expect_error.h"
#include "tessera/ops/parallel.h"
#include "tessera/ops/reduce/host_values.h"
#include "tessera/ops/shape/shape.h"
#include "tessera/ops/testing/op_case.h"

namespace tessera::ops {
namespace {

using testing::Array;
using testing::to_array;
using testing::to_tensor;
using Values = std::vector<double>;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

Tensor of(const Shape& shape, const Values& values, DType dtype = DType::kF32) {
  return to_tensor(Array(shape, values), dtype);
}
Values values(const Tensor& tensor) { return to_array(tensor).values; }

Tensor random_floats(const Shape& shape, std::uint64_t seed) {
  Tensor x = Tensor::allocate(shape, DType::kF32, device::Device::get("host"));
  x.device().synchronize();
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<float> in(0, 1);
  for (std::int64_t i = 0; i < x.numel(); ++i) x.data_as<float>()[i] = in(random);
  return x;
}

TEST(Sum, OfManyFloatsStaysAccurate) {
  const Tensor x = random_floats({1 << 22}, 1);
  double exact = 0;
  for (std::int64_t i = 0; i < x.numel(); ++i) exact += static_cast<double>(x.data_as<float>()[i]);
  EXPECT_NEAR(item(sum(x)).as_double() / exact, 1, 1e-7);
  EXPECT_NEAR(values(sum(view(x, {1 << 20, 4}), {0}))[2] / (exact / 4), 1, 2e-3);  // each column is a quarter
  const Tensor columns = view(x, {1 << 16, 64});
  const Tensor by_columns = sum(columns, {0});
  EXPECT_NEAR(item(sum(by_columns)).as_double() / exact, 1, 2e-7);
}

TEST(Reductions, HaveTheSameBitsForAnyNumberOfThreads) {
  const Tensor x = random_floats({700, 1030}, 2);
  const int before = detail::thread_budget();
  const auto all_of = [&] {
    std::vector<Values> results;
    for (const tensor::IntList& dims : {tensor::IntList{}, tensor::IntList{0}, tensor::IntList{1}}) {
      for (const Tensor& y : {x, transpose(x, 0, 1)}) {
        results.push_back(values(sum(y, dims)));
        results.push_back(values(var(y, dims)));
        results.push_back(values(norm(y, 3, dims)));
        results.push_back(values(logsumexp(y, dims)));
        results.push_back(values(amax(y, dims)));
      }
    }
    results.push_back(values(cumsum(x, 0)));
    return results;
  };
  detail::set_thread_budget(1);
  const auto alone = all_of();
  detail::set_thread_budget(3);
  const auto together = all_of();
  detail::set_thread_budget(before);
  EXPECT_EQ(alone, together);
}

TEST(Reductions, OfAnyStridesAgree) {
  const Tensor x = random_floats({37, 41, 5}, 3);
  const Tensor turned =
      permute(reshape(permute(x, {2, 0, 1}), {5, 37, 41}), {1, 2, 0});  // equal values in another memory order
  for (const tensor::IntList& dims :
       {tensor::IntList{}, tensor::IntList{0}, tensor::IntList{1}, tensor::IntList{2}, tensor::IntList{0, 2}}) {
    EXPECT_TRUE(allclose(sum(x, dims), sum(turned, dims), 1e-6));
    EXPECT_TRUE(equal(amin(x, dims), amin(turned, dims)));
    EXPECT_TRUE(allclose(var(x, dims), var(turned, dims), 1e-5));
  }
  EXPECT_TRUE(equal(argmax(x, 1), argmax(turned, 1)));
}

TEST(Reductions, OfNothingAreTheIdentity) {
  const Tensor x = of({2, 0}, {});
  EXPECT_EQ(values(sum(x, {1})), (Values{0, 0}));
  EXPECT_EQ(values(prod(x, {1})), (Values{1, 1}));
  EXPECT_EQ(values(amax(x, {1})), (Values{-kInf, -kInf}));
  EXPECT_EQ(values(amin(x, {1})), (Values{kInf, kInf}));
  EXPECT_EQ(values(any(x)), Values{0});
  EXPECT_EQ(values(all(x)), Values{1});
  EXPECT_EQ(values(norm(x, kInf)), Values{0});
  EXPECT_EQ(values(logsumexp(x, {1})), (Values{-kInf, -kInf}));
  EXPECT_TRUE(std::isnan(values(mean(x, {1}))[0]));
  EXPECT_EQ(values(amax(of({0}, {}, DType::kI32))), Values{-2147483648.0});
  EXPECT_EQ(sum(x, {0}).shape(), Shape({0}));
  expect_error<InvalidArgument>([&] { (void)argmax(x, 1); }, {"argmax: dimension 1 must have at least 1 element"});
  EXPECT_EQ(argmax(x, 0).shape(), Shape({0}));
}

TEST(Extremes, GiveNanWhereThereIsOne) {
  for (const std::int64_t at : {0, 3, 40, 99}) {
    Values row(100, 1);
    row[static_cast<std::size_t>(at)] = kNan;
    const Tensor x = of({100}, row);
    EXPECT_TRUE(std::isnan(values(amax(x))[0])) << at;
    EXPECT_TRUE(std::isnan(values(amin(x))[0])) << at;
    EXPECT_EQ(values(argmax(x)), Values{static_cast<double>(at)});
    EXPECT_EQ(values(argmin(x)), Values{static_cast<double>(at)});
    const Tensor columns = expand(unsqueeze(x, 1), {100, 8});
    EXPECT_TRUE(std::isnan(values(amax(transpose(reshape(transpose(columns, 0, 1), {8, 100}), 0, 1), {0}))[5]));
    EXPECT_TRUE(std::isnan(values(amax(reshape(columns, {100, 8}), {0}))[5]));
  }
}

TEST(Search, PicksTheFirstOfEquals) {
  const Tensor x = of({2, 4}, {1, 3, 3, 0, 2, 2, 2, 2}, DType::kI32);
  EXPECT_EQ(values(argmax(x, 1)), (Values{1, 0}));
  EXPECT_EQ(values(argmin(x, 1, true)), (Values{3, 0}));
  EXPECT_EQ(argmin(x, 1, true).shape(), Shape({2, 1}));
  EXPECT_EQ(values(argmax(x)), Values{1});
  EXPECT_EQ(values(argmax(transpose(x, 0, 1))), Values{2});  // index in the row-major order of the argument
}

TEST(Sum, OfIntegersAndTruthValuesCounts) {
  const Tensor x = of({300}, Values(300, 100), DType::kU8);
  EXPECT_EQ(sum(x).dtype(), DType::kI64);
  EXPECT_EQ(values(sum(x)), Values{30000});
  EXPECT_EQ(values(sum(of({3}, {1, 0, 1}, DType::kBool))), Values{2});
  EXPECT_EQ(sum(x, {}, false, DType::kF32).dtype(), DType::kF32);
  EXPECT_EQ(values(prod(of({3}, {2, 3, 4}, DType::kI16))), Values{24});
}

TEST(Sum, OfHalvesAddsInF32) {
  const Tensor x = of({4096}, Values(4096, 1), DType::kBF16);  // in bf16 the sum would stop at 256
  EXPECT_EQ(values(sum(x)), Values{4096});
  EXPECT_EQ(values(cumsum(x, 0))[255], 256);
}

TEST(Sum, OfComplexNumbers) {
  const Tensor x = Tensor::allocate({2, 2}, DType::kC64, device::Device::get("host"));
  x.device().synchronize();
  for (int i = 0; i < 4; ++i) x.data_as<std::complex<float>>()[i] = {static_cast<float>(i), static_cast<float>(-i)};
  EXPECT_EQ(item(sum(x)), Scalar(std::complex<double>(6, -6)));
  EXPECT_EQ(item(mean(x)), Scalar(std::complex<double>(1.5, -1.5)));
}

TEST(Var, OfNearlyEqualValuesIsNotLost) {
  const Tensor x = of({4}, {16777214, 16777215, 16777216, 16777213});
  EXPECT_NEAR(values(var(x, {}, 0))[0], 1.25, 1e-6);
  EXPECT_EQ(values(var(of({1}, {3}), {}, 1)).size(), 1U);
}

TEST(Reductions, RefuseWhatMakesNoSense) {
  const Tensor x = of({2, 3}, {1, 2, 3, 4, 5, 6});
  expect_error<InvalidArgument>(
      [&] {
        (void)sum(x, {1, -1});
      },
      {"sum: dimensions must be distinct, got 1 twice", "sum(x: f32[2, 3]"});
  expect_error<InvalidArgument>([&] { (void)mean(x, {2}); }, {"mean: dimension must be in [-2, 2), got 2"});
  expect_error<InvalidArgument>(
      [&] {
        (void)mean(of({2}, {1, 2}, DType::kI64));
      },
      {"mean: x must be floating-point or complex, got i64"});
  expect_error<InvalidArgument>(
      [&] {
        (void)sum(of({2}, {1, 2}, DType::kU16));
      },
      {"sum: dtype must be one that operators compute in, got u16 (x)"});
  expect_error<InvalidArgument>(
      [&] {
        (void)var(of({2}, {1, 2}, DType::kI64));
      },
      {"var: dtype must be f32, f64, bf16 or f16, got i64 (x)"});
  expect_error<InvalidArgument>([&] { (void)histc(x, 4, 1, 1); },
                                {"histc: low must be below high, got low 1 and high 1"});
  expect_error<InvalidArgument>([&] { (void)norm(x, kNan); }, {"norm: p must be a number, got nan"});
}

TEST(SumTo, UndoesBroadcasting) {
  const Tensor x = of({2, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_TRUE(sum_to(x, {2, 3}).is_same(x));
  EXPECT_EQ(values(sum_to(x, {3})), (Values{5, 7, 9}));
  EXPECT_EQ(values(sum_to(x, {2, 1})), (Values{6, 15}));
  EXPECT_EQ(sum_to(x, {2, 1}).shape(), Shape({2, 1}));
  EXPECT_EQ(values(sum_to(x, {})), Values{21});
  EXPECT_EQ(sum_to(of({1, 1, 3}, {1, 2, 3}), {3}).shape(), Shape({3}));
  expect_error<InvalidArgument>([&] { (void)sum_to(x, {2}); },
                                {"sum_to: shape must broadcast to f32[2, 3]", "got [2]"});
}

TEST(HostValues, WaitAndCompare) {
  const Tensor x = of({2}, {1, 2});
  EXPECT_EQ(item(select(x, 0, 1)), Scalar(2.0));
  EXPECT_EQ(item(of({}, {7}, DType::kI16)), Scalar(7));
  EXPECT_EQ(item(of({1}, {1}, DType::kBool)), Scalar(true));
  expect_error<InvalidArgument>([&] { (void)item(x); }, {"item: x must have one element, got f32[2]"});
  EXPECT_TRUE(equal(x, of({2}, {1, 2})));
  EXPECT_FALSE(equal(x, of({2}, {1, 3})));
  EXPECT_FALSE(equal(x, of({2}, {1, 2}, DType::kF64)));
  EXPECT_FALSE(equal(x, of({1, 2}, {1, 2})));
  EXPECT_TRUE(equal(of({0}, {}), of({0}, {})));
  EXPECT_TRUE(allclose(x, of({2}, {1, 2.00001})));
  EXPECT_FALSE(allclose(x, of({2}, {1, 2.1})));
  EXPECT_TRUE(allclose(of({1}, {kInf}), of({1}, {kInf})));
  EXPECT_FALSE(allclose(of({1}, {-kInf}), of({1}, {kInf})));
  EXPECT_FALSE(allclose(of({1}, {kNan}), of({1}, {kNan})));
  EXPECT_TRUE(allclose(of({1}, {kNan}), of({1}, {kNan}), 1e-5, 1e-8, true));
}

}  // namespace
}  // namespace tessera::ops
