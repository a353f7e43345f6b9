// Tests of pointwise operators beyond the cases: promotion, integers, special values, strides, errors, devices.
#include "tessera/ops/pointwise/pointwise.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tessera/base/testing/expect_error.h"
#include "tessera/device/host/host_device.h"
#include "tessera/ops/create/create.h"
#include "tessera/ops/create/random.h"
#include "tessera/ops/parallel.h"
#include "tessera/ops/pointwise/activations.h"
#include "tessera/ops/pointwise/compare.h"
#include "tessera/ops/pointwise/convert.h"
#include "tessera/ops/pointwise/functions.h"
#include "tessera/ops/pointwise/promote.h"
#include "tessera/ops/testing/each_target.h"
#include "tessera/ops/testing/op_case.h"

namespace tessera::ops {
namespace {

using testing::Array;
using testing::to_array;
using testing::to_tensor;
using Values = std::vector<double>;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

Tensor tensor_of(const Values& values, DType dtype = DType::kF32) {
  return to_tensor(Array(Shape({static_cast<std::int64_t>(values.size())}), values), dtype);
}
Values values_of(const Tensor& tensor) { return to_array(tensor).values; }

void expect_same(const Values& got, const Values& want, const char* what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(want[i])) {
      EXPECT_TRUE(std::isnan(got[i])) << what << " " << i << ": " << got[i];
    } else {
      EXPECT_EQ(got[i], want[i]) << what << " " << i;
      EXPECT_EQ(std::signbit(got[i]), std::signbit(want[i])) << what << " " << i;
    }
  }
}

TEST(Promotion, IsThatOfTheTable) {
  struct {
    DType a, b, want;
  } const rows[] = {
      {DType::kF32, DType::kF64, DType::kF64},      {DType::kF16, DType::kBF16, DType::kF32},
      {DType::kBF16, DType::kF32, DType::kF32},     {DType::kF8E4M3, DType::kF8E5M2, DType::kF16},
      {DType::kF8E4M3, DType::kBF16, DType::kBF16}, {DType::kI64, DType::kF16, DType::kF16},
      {DType::kBool, DType::kU8, DType::kU8},       {DType::kU8, DType::kI8, DType::kI16},
      {DType::kU8, DType::kI32, DType::kI32},       {DType::kU16, DType::kI16, DType::kI32},
      {DType::kU32, DType::kI8, DType::kI64},       {DType::kC64, DType::kF32, DType::kC64},
      {DType::kC64, DType::kF64, DType::kC128},     {DType::kC64, DType::kI64, DType::kC64},
      {DType::kBool, DType::kBool, DType::kBool},   {DType::kU16, DType::kU64, DType::kU64},
  };
  for (const auto& row : rows) {
    EXPECT_EQ(promote(row.a, row.b), row.want) << to_string(row.a) << " " << to_string(row.b);
    EXPECT_EQ(promote(row.b, row.a), row.want) << to_string(row.b) << " " << to_string(row.a);
  }
  expect_error<InvalidArgument>([] { (void)promote(DType::kU64, DType::kI8); }, {"u64", "i8"});
}

TEST(Promotion, NumbersRaiseOnlyTheKind) {
  EXPECT_EQ(promote(DType::kBF16, 2), DType::kBF16);
  EXPECT_EQ(promote(DType::kBF16, 2.5), DType::kBF16);
  EXPECT_EQ(promote(DType::kI8, 2), DType::kI8);
  EXPECT_EQ(promote(DType::kI8, true), DType::kI8);
  EXPECT_EQ(promote(DType::kI8, 0.5), DType::kF32);
  EXPECT_EQ(promote(DType::kBool, 3), DType::kI64);
  EXPECT_EQ(promote(DType::kF32, std::complex<double>(0, 1)), DType::kC64);
  EXPECT_EQ(promote(DType::kF64, std::complex<double>(0, 1)), DType::kC128);
}

TEST(Pointwise, ResultsHaveThePromotedDType) {
  const Tensor i = tensor_of({1, 2}, DType::kI32);
  const Tensor h = tensor_of({1, 2}, DType::kBF16);
  EXPECT_EQ((i + h).dtype(), DType::kBF16);
  EXPECT_EQ((i + 1).dtype(), DType::kI32);
  EXPECT_EQ((i * 0.5).dtype(), DType::kF32);
  EXPECT_EQ((i / i).dtype(), DType::kF32);
  EXPECT_EQ(exp(i).dtype(), DType::kF32);
  EXPECT_EQ(exp(h).dtype(), DType::kBF16);
  EXPECT_EQ(lt(i, h).dtype(), DType::kBool);
  EXPECT_EQ(values_of(i * 0.5), (Values{0.5, 1}));
  EXPECT_EQ(values_of(3 - i), (Values{2, 1}));
}

TEST(Pointwise, WritesToAGivenTensorAndReturnsIt) {
  const Tensor x = tensor_of({1, 4});
  const Tensor out = tensor_of({0, 0});
  EXPECT_TRUE(add(x, x, {.out = out}).is_same(out));
  EXPECT_EQ(values_of(out), (Values{2, 8}));
  EXPECT_EQ(values_of(sqrt(x, {.out = out})), (Values{1, 2}));
  EXPECT_EQ(values_of(mul(x, 3, {.out = out})), (Values{3, 12}));
  EXPECT_EQ(values_of(out), (Values{3, 12}));
  expect_error<InvalidArgument>([&] { add(x, x, {.out = Tensor()}); }, {"add: out must be a tensor", "empty handle"});
  expect_error<InvalidArgument>([&] { mul(x, 3, {.out = tensor_of({0})}); },
                                {"mul: output must have shape [2], got f32[1]", "called as mul(x: f32[2]"});
}

TEST(Pointwise, IntegersWrapAndDivideDownwards) {
  const Tensor a = tensor_of({7, -7, 7, -7, 5}, DType::kI64);
  const Tensor b = tensor_of({2, 2, -2, -2, 0}, DType::kI64);
  EXPECT_EQ(values_of(floor_divide(a, b)), (Values{3, -4, -4, 3, 0}));
  EXPECT_EQ(values_of(remainder(a, b)), (Values{1, 1, -1, -1, 0}));
  EXPECT_EQ(values_of(pow(a, 2)), (Values{49, 49, 49, 49, 25}));
  EXPECT_EQ(values_of(pow(tensor_of({1, -1, 2}, DType::kI64), -3)), (Values{1, -1, 0}));
  EXPECT_EQ(values_of(tensor_of({200}, DType::kU8) + tensor_of({100}, DType::kU8)), (Values{44}));
  EXPECT_EQ(values_of(tensor_of({100}, DType::kI8) + 100), (Values{-56}));
  EXPECT_EQ(values_of(tensor_of({1, 1, 0}, DType::kBool) + tensor_of({1, 0, 0}, DType::kBool)), (Values{1, 1, 0}));
  EXPECT_EQ(values_of(maximum(a, b)), (Values{7, 2, 7, -2, 5}));
  EXPECT_EQ(values_of(clamp(a, -1, 6)), (Values{6, -1, 6, -1, 5}));
  EXPECT_EQ(values_of(sign(a)), (Values{1, -1, 1, -1, 1}));
  const Tensor large = arange(INT64_MAX, INT64_MAX - 2, -1);
  large.device().synchronize();
  const Tensor sum = large + 1;
  sum.device().synchronize();
  EXPECT_EQ(sum.data_as<std::int64_t>()[0], INT64_MIN);
}

TEST(Pointwise, FloatingDivisionDownwardsIsExact) {
  const Tensor a = tensor_of({1.0F, -1.0F, 7.5F, 1e20F, 3, kInf});
  const Tensor b = tensor_of({0.1F, 0.1F, -2, 3, 0, 2});
  EXPECT_EQ(values_of(floor_divide(a, b)), (Values{9, -10, -4, static_cast<float>(1e20F / 3), kInf, kInf}));
  EXPECT_EQ(values_of(remainder(a, b))[2], -0.5);
}

class SpecialValues : public testing::OnEachTarget {};
INSTANTIATE_TEST_SUITE_P(Targets, SpecialValues, testing::kEachTarget);

TEST_P(SpecialValues, AreIEEEs) {
  for (const DType dtype : {DType::kF32, DType::kF64}) {
    const Tensor x = tensor_of({0.0, -0.0, kInf, -kInf, kNan, -1}, dtype);
    const auto check = [&](const Tensor& got, const Values& want, const char* what) {
      expect_same(values_of(got), want, what);
    };
    check(exp(tensor_of({kInf, -kInf, kNan, 1000, -2000, 0}, dtype)), {kInf, 0, kNan, kInf, 0, 1}, "exp");
    check(log(x), {-kInf, -kInf, kInf, kNan, kNan, kNan}, "log");
    check(log1p(tensor_of({-1, -2, kInf, kNan, 0}, dtype)), {-kInf, kNan, kInf, kNan, 0}, "log1p");
    check(sqrt(x), {0, -0.0, kInf, kNan, kNan, kNan}, "sqrt");
    check(tanh(x), {0, -0.0, 1, -1, kNan, values_of(tanh(tensor_of({-1}, dtype)))[0]}, "tanh");
    check(erf(tensor_of({kInf, -kInf, kNan, 0}, dtype)), {1, -1, kNan, 0}, "erf");
    check(sigmoid(tensor_of({kInf, -kInf, kNan, 0}, dtype)), {1, 0, kNan, 0.5}, "sigmoid");
    check(gelu(tensor_of({kInf, -kInf, kNan}, dtype)), {kInf, 0, kNan}, "gelu");
    check(gelu_tanh(tensor_of({kInf, -kInf, kNan}, dtype)), {kInf, 0, kNan}, "gelu_tanh");
    check(silu(tensor_of({kInf, -kInf, kNan}, dtype)), {kInf, 0, kNan}, "silu");
    const Tensor edges = tensor_of({kInf, -kInf, kNan, 2000, -2000}, dtype);
    const SwigluGradients gradients = swiglu_backward(tensor_of({3}, dtype), edges, tensor_of({2}, dtype));
    check(gradients.a, {6, -0.0, kNan, 6, -0.0}, "swiglu_backward, of a");
    check(gradients.b, {kInf, 0, kNan, 6000, -0.0}, "swiglu_backward, of b");
    check(softplus(tensor_of({kInf, -kInf, kNan, 1000}, dtype)), {kInf, 0, kNan, 1000}, "softplus");
    check(relu(x), {0, -0.0, kInf, 0, kNan, 0}, "relu");
    check(sin(tensor_of({kInf, kNan}, dtype)), {kNan, kNan}, "sin");
    check(sign(x), {0, 0, 1, -1, kNan, -1}, "sign");
    check(round(tensor_of({0.5, 1.5, 2.5, -0.5, kInf, kNan}, dtype)), {0, 2, 2, -0.0, kInf, kNan}, "round");
    const Tensor nans = tensor_of({kNan, 1, kNan}, dtype);
    const Tensor other = tensor_of({1, kNan, kNan}, dtype);
    check(maximum(nans, other), {kNan, kNan, kNan}, "maximum");
    check(minimum(nans, other), {kNan, kNan, kNan}, "minimum");
    check(clamp(tensor_of({kNan, -kInf, kInf}, dtype), 0, 1), {kNan, 0, 1}, "clamp");
    check(isnan(x), {0, 0, 0, 0, 1, 0}, "isnan");
    check(isfinite(x), {1, 1, 0, 0, 0, 1}, "isfinite");
    check(eq(nans, nans), {0, 1, 0}, "eq");
    check(ne(nans, nans), {1, 0, 1}, "ne");
    check(where(isnan(nans), 5, nans), {5, 1, 5}, "where");
  }
}

// Returns the greatest error of f over [low, high] in f32, in ulp of the result, or of `floor` if the result is less.
double error_in_ulps(Tensor (*f)(const Tensor&), double (*want)(double), double low, double high, double floor = 0) {
  const Tensor x = arange(low, high, (high - low) / 50000, {.dtype = DType::kF32});
  const Values in = values_of(x);
  const Values out = values_of(f(x));
  double worst = 0;
  for (std::size_t i = 0; i < in.size(); ++i) {
    const double exact = want(in[i]);
    const double last = exact == 0 ? 1e-45 : std::ldexp(1.0, std::ilogb(exact) - 23);
    const double ulp = std::max(last, floor);
    worst = std::max(worst, std::abs(out[i] - exact) / ulp);
  }
  return worst;
}

TEST(Pointwise, FunctionsAreAccurateOverTheirRange) {
  EXPECT_LT(error_in_ulps(
                exp, [](double x) { return std::exp(x); }, -80, 88),
            3);
  EXPECT_LT(error_in_ulps(
                log, [](double x) { return std::log(x); }, 1e-3, 100, 1e-7),
            3);
  EXPECT_LT(error_in_ulps(
                tanh, [](double x) { return std::tanh(x); }, -10, 10),
            6);
  EXPECT_LT(error_in_ulps(
                erf, [](double x) { return std::erf(x); }, -6, 6),
            4);
  EXPECT_LT(error_in_ulps(
                sigmoid, [](double x) { return 1 / (1 + std::exp(-x)); }, -87, 60),
            4);
  EXPECT_LT(error_in_ulps(
                sin, [](double x) { return std::sin(x); }, -1e5, 1e5, 6e-8),
            3);
  const auto gelu_at = [](double x) { return x * 0.5 * std::erfc(-x / std::sqrt(2.0)); };
  EXPECT_LT(error_in_ulps(gelu, gelu_at, -5, 10, 1e-8), 16);
  EXPECT_LT(error_in_ulps(gelu, gelu_at, -1, 1), 8);
  // The square of x rounds, and its exponential has that error as many times as the exponent is large.
  EXPECT_LT(error_in_ulps(gelu, gelu_at, -13, -5), 128);
  const auto slope = [](const Tensor& x) { return gelu_backward(ones_like(x), x); };
  const auto slope_at = [](double x) {
    return 0.5 * std::erfc(-x / std::sqrt(2.0)) + x * std::exp(-0.5 * x * x) * 0.39894228040143267794;
  };
  EXPECT_LT(error_in_ulps(slope, slope_at, -14, 14, 1e-8), 12);
}

TEST(Pointwise, AValueDoesNotDependOnItsPlaceOrOnThreads) {
  const int budget = detail::thread_budget();
  const Tensor x = randn({100003});
  for (const auto f : {static_cast<Tensor (*)(const Tensor&)>(gelu), static_cast<Tensor (*)(const Tensor&)>(sin),
                       static_cast<Tensor (*)(const Tensor&)>(erf)}) {
    detail::set_thread_budget(1);
    const Values whole = values_of(f(x));
    detail::set_thread_budget(4);
    EXPECT_EQ(values_of(f(x)), whole);
    for (const std::int64_t n : {1, 3, 7, 8, 9, 257, 1000}) {
      const Tensor part = x.as_strided({n}, Strides({1}), 5);
      const Values got = values_of(f(part));
      EXPECT_TRUE(std::equal(got.begin(), got.end(), whole.begin() + 5)) << n;
      const Tensor back = x.as_strided({n}, Strides({-3}), 5000);
      const Values reversed = values_of(f(back));
      for (std::size_t i = 0; i < reversed.size(); ++i) EXPECT_EQ(reversed[i], whole[5000 - 3 * i]);
    }
  }
  detail::set_thread_budget(budget);
}

// Both results of one kernel, contiguous or not, from long and short runs.
TEST(Pointwise, TwoResultsAreThoseOfTheSeparateOperators) {
  const Tensor g = randn({301, 7});
  const Tensor a = randn({301, 7});
  const Tensor b = randn({301, 7});
  const Values of_a = values_of(silu_backward(mul(g, b), a));
  const Values of_b = values_of(mul(g, silu(a)));
  const tensor::Operator op = tensor::find_op("swiglu_backward");
  const Tensor inputs[] = {g, a, b};
  for (const bool is_first_dense : {true, false}) {
    for (const bool is_second_dense : {true, false}) {
      const auto result = [](bool is_dense) {
        return is_dense ? empty({301, 7}) : empty({9, 301, 3}).as_strided({301, 7}, Strides({3, 903}), 1);
      };
      Tensor outputs[] = {result(is_first_dense), result(is_second_dense)};
      tensor::call_into({op, inputs, {}, outputs});
      EXPECT_EQ(values_of(outputs[0]), of_a) << is_first_dense << is_second_dense;
      EXPECT_EQ(values_of(outputs[1]), of_b) << is_first_dense << is_second_dense;
    }
  }
}

TEST(Pointwise, InPlaceCountsAWriteAndRefusesWhatDoesNotFit) {
  const Tensor x = tensor_of({1, 2, 3, 4});
  const auto before = x.version();
  add_(x, x);
  mul_(x, 2);
  neg_(x);
  EXPECT_EQ(x.version(), before + 3);
  EXPECT_EQ(values_of(x), (Values{-4, -8, -12, -16}));
  expect_error<InvalidArgument>([&] { add_(x, tensor_of({1}, DType::kF64)); },
                                {"add", "output must be f64, got f32[4] on host"});
  expect_error<InvalidArgument>([&] { add_(tensor_of({1}), x); }, {"add", "output must have shape [4]"});
  const Tensor head = x.as_strided({3}, Strides({1}), 0);
  const Tensor tail = x.as_strided({3}, Strides({1}), 1);
  expect_error<InvalidArgument>([&] { add_(head, tail); }, {"add", "shares memory"});
  expect_error<InvalidArgument>([&] { exp_(x.as_strided({4}, Strides({0}), 0)); }, {"exp", "share memory"});
}

TEST(Pointwise, ErrorsNameTheOperatorAndTheShapes) {
  expect_error<InvalidArgument>(
      [] {
        (void)add(tensor_of({1, 2}), tensor_of({1, 2, 3}));
      },
      {"add: shapes must broadcast", "got 2 and 3", "a: f32[2] on host, b: f32[3] on host"});
  expect_error<InvalidArgument>([] { (void)exp(tensor_of({1}, DType::kU16)); }, {"exp", "u16", "cast it first"});
  expect_error<InvalidArgument>([] { (void)neg(tensor_of({1}, DType::kBool)); }, {"neg", "bool"});
  expect_error<InvalidArgument>([] { (void)where(tensor_of({1}), tensor_of({1}), 0); },
                                {"where", "mask must be bool, got f32"});
}

TEST(Pointwise, RunsCleanlyOnACheckedDeviceUnderTheSeededScheduler) {
  for (const std::uint64_t seed : {1, 2, 3}) {
    const Device device = device::host::make_host_device(
        {.mode = device::host::Mode::kSeeded, .seed = seed, .checked = true, .name = "checked"});
    const Tensor a = full({3, 5}, 2, {.device = device});
    const Tensor b = full({5}, 3, {.device = device});
    const Tensor strided = a.as_strided({5, 3}, Strides({1, 5}), 0);
    const Tensor sum = add(strided, full({3}, 1, {.dtype = DType::kI32, .device = device}));
    const Tensor copied = clone(strided);
    add_(a, b);
    const Tensor random = randn({7}, {.device = device});
    device.synchronize();
    EXPECT_EQ(values_of(a), Values(15, 5));
    EXPECT_EQ(values_of(sum), Values(15, 3));
    EXPECT_EQ(values_of(copied), Values(15, 2));
    EXPECT_EQ(values_of(random).size(), 7U);
  }
}

}  // namespace
}  // namespace tessera::ops
