// Cases of the pointwise operators as tables: a name, the source of the arguments, and the function of one element.
#include <cmath>
#include <functional>

#include "tessera/ops/pointwise/convert.h"
#include "tessera/ops/pointwise/pointwise.h"
#include "tessera/ops/testing/op_case.h"

namespace tessera::ops::testing {
namespace {

using tensor::Attributes;
using tensor::AttributesRef;
using Function = std::function<double(const std::vector<double>&, const AttributesRef&)>;
using Source = std::function<SampleInput(Random&, const Shape&)>;

// Returns the value of `array`, broadcast to `whole`, at an index of `whole`.
double value_at(const Array& array, const Shape& whole, std::int64_t place) {
  const auto index = digits(whole, place);
  std::int64_t at = 0;
  for (std::size_t d = 0; d < array.shape.size(); ++d) {
    const std::int64_t i = index[whole.size() - array.shape.size() + d];
    at = at * array.shape[d] + (array.shape[d] == 1 ? 0 : i);
  }
  return array.values[static_cast<std::size_t>(at)];
}

std::vector<Array> apply(const Function& f, std::span<const Array> inputs, const AttributesRef& attributes) {
  Shape whole = inputs[0].shape;
  for (const Array& input : inputs) whole = broadcast(whole, input.shape);
  Array out(whole);
  for (std::int64_t i = 0; i < whole.numel(); ++i) {
    std::vector<double> values;
    for (const Array& input : inputs) values.push_back(value_at(input, whole, i));
    out.values[static_cast<std::size_t>(i)] = f(values, attributes);
  }
  return {out};
}

Source range(double low, double high) {
  return [=](Random& random, const Shape& shape) { return uniform(random, shape, low, high); };
}
// Values away from zero, of both signs.
SampleInput nonzero(Random& random, const Shape& shape) {
  SampleInput input = uniform(random, shape, 0.3, 2.5);
  for (double& value : input.value.values) value = (random() & 1) != 0 ? value : -value;
  return input;
}
// Values away from integers and halves, where rounding jumps.
SampleInput between(Random& random, const Shape& shape) {
  SampleInput input = uniform(random, shape, 0.1, 0.4);
  for (double& value : input.value.values) value += static_cast<double>(random() % 11) / 2 - 2.5;
  return input;
}
// Small integers, so that some are equal.
SampleInput whole(Random& random, const Shape& shape) {
  SampleInput input = integers(random, shape, -2, 3);
  input.dtype.reset();
  return input;
}

const std::vector<std::vector<Shape>> kShapesOf[] = {
    {},
    {{{5, 7}}, {{3, 4, 5}}, {{0, 3}}, {{}}},
    {{{5, 7}, {5, 7}}, {{3, 4, 5}, {5}}, {{4, 1}, {1, 6}}, {{}, {3}}, {{0, 3}, {3}}, {{2, 1, 3}, {4, 1}}},
    {{{5, 7}, {5, 7}, {5, 7}}, {{3, 4}, {4}, {}}, {{4, 1}, {1, 6}, {1}}, {{0, 3}, {3}, {1, 1}}},
};

struct CaseRow {
  const char* op;
  std::vector<Source> sources;
  std::function<double(const std::vector<double>&, double)> f;  // the second argument is the number, if any
  std::optional<tensor::Scalar> number = {};
  double tolerance = 1e-5;
};

void add_case(const CaseRow& row) {
  const auto samples = [row](Random& random) {
    std::vector<OpSample> all;
    for (const std::vector<Shape>& shapes : kShapesOf[row.sources.size()]) {
      OpSample& sample = all.emplace_back();
      for (std::size_t i = 0; i < shapes.size(); ++i) sample.inputs.push_back(row.sources[i](random, shapes[i]));
      if (row.number) sample.attributes = Attributes(ScalarAttributes{*row.number});
    }
    return all;
  };
  const auto f = [row](const std::vector<double>& values, const AttributesRef&) {
    return row.f(values, row.number ? row.number->as_double() : 0);
  };
  OpCase({.op = row.op,
          .samples = samples,
          .reference = [f](std::span<const Array> inputs,
                           const AttributesRef& attributes) { return apply(f, inputs, attributes); },
          .tolerance = row.tolerance});
}

using Values = std::vector<double>;
double sigmoid_at(double x) { return 1 / (1 + std::exp(-x)); }
double normal_below(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }
double normal_density(double x) { return std::exp(-x * x / 2) / std::sqrt(2 * M_PI); }
double gelu_tanh_at(double x) { return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); }
double gelu_tanh_slope(double x) {
  const double u = std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x);
  const double t = std::tanh(u);
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * std::sqrt(2 / M_PI) * (1 + 3 * 0.044715 * x * x);
}
double silu_slope(double x) { return sigmoid_at(x) * (1 + x * (1 - sigmoid_at(x))); }
double floor_remainder_at(double a, double b) { return a - b * std::floor(a / b); }

const bool kFunctions = [] {
  const auto one = [](const char* op, Source source, double (*f)(double), double tolerance = 1e-5) {
    add_case({.op = op,
              .sources = {std::move(source)},
              .f = [f](const Values& v, double) { return f(v[0]); },
              .tolerance = tolerance});
  };
  const Source any = range(-3, 3);
  const Source positive = range(0.2, 4);
  one("neg", any, [](double x) { return -x; });
  one("abs", nonzero, [](double x) { return std::abs(x); });
  one("sign", nonzero, [](double x) { return x > 0 ? 1.0 : -1.0; });
  one("exp", any, [](double x) { return std::exp(x); });
  one("log", positive, [](double x) { return std::log(x); });
  one("log1p", range(-0.7, 4), [](double x) { return std::log1p(x); });
  one("sqrt", positive, [](double x) { return std::sqrt(x); });
  one("rsqrt", positive, [](double x) { return 1 / std::sqrt(x); });
  one("reciprocal", nonzero, [](double x) { return 1 / x; });
  one("square", any, [](double x) { return x * x; });
  one("sin", range(-30, 30), [](double x) { return std::sin(x); });
  one("cos", range(-30, 30), [](double x) { return std::cos(x); });
  one("tanh", any, [](double x) { return std::tanh(x); });
  one("erf", any, [](double x) { return std::erf(x); });
  one("floor", between, [](double x) { return std::floor(x); });
  one("ceil", between, [](double x) { return std::ceil(x); });
  one("round", between, [](double x) { return std::nearbyint(x); });
  one("sigmoid", range(-6, 6), sigmoid_at);
  one("relu", nonzero, [](double x) { return x > 0 ? x : 0; });
  one("gelu", range(-6, 6), [](double x) { return x * normal_below(x); });
  one("gelu_tanh", range(-6, 6), gelu_tanh_at);
  one("silu", range(-6, 6), [](double x) { return x * sigmoid_at(x); });
  one("softplus", range(-6, 6), [](double x) { return std::log1p(std::exp(x)); });
  one("logical_not", whole, [](double x) { return x == 0 ? 1.0 : 0.0; });
  one("isnan", any, [](double) { return 0.0; });
  one("isfinite", any, [](double) { return 1.0; });
  return true;
}();

const bool kArithmetic = [] {
  const auto two = [](const char* op, Source a, Source b, double (*f)(double, double), double tolerance = 1e-5) {
    add_case({.op = op,
              .sources = {std::move(a), std::move(b)},
              .f = [f](const Values& v, double) { return f(v[0], v[1]); },
              .tolerance = tolerance});
  };
  const Source any = range(-3, 3);
  two("add", any, any, [](double a, double b) { return a + b; });
  two("sub", any, any, [](double a, double b) { return a - b; });
  two("mul", any, any, [](double a, double b) { return a * b; });
  two("div", any, nonzero, [](double a, double b) { return a / b; });
  two("pow", range(0.3, 2), any, [](double a, double b) { return std::pow(a, b); });
  two("minimum", any, any, [](double a, double b) { return std::min(a, b); });
  two("maximum", any, any, [](double a, double b) { return std::max(a, b); });
  two("floor_divide", range(1.1, 1.4), range(-0.9, -0.8), [](double a, double b) { return std::floor(a / b); });
  two("remainder", range(1.1, 1.4), range(-0.9, -0.8), floor_remainder_at);
  two("eq", whole, whole, [](double a, double b) { return a == b ? 1.0 : 0.0; });
  two("ne", whole, whole, [](double a, double b) { return a != b ? 1.0 : 0.0; });
  two("lt", whole, whole, [](double a, double b) { return a < b ? 1.0 : 0.0; });
  two("le", whole, whole, [](double a, double b) { return a <= b ? 1.0 : 0.0; });
  two("gt", whole, whole, [](double a, double b) { return a > b ? 1.0 : 0.0; });
  two("ge", whole, whole, [](double a, double b) { return a >= b ? 1.0 : 0.0; });
  two("logical_and", whole, whole, [](double a, double b) { return a != 0 && b != 0 ? 1.0 : 0.0; });
  two("logical_or", whole, whole, [](double a, double b) { return a != 0 || b != 0 ? 1.0 : 0.0; });
  two("logical_xor", whole, whole, [](double a, double b) { return (a != 0) != (b != 0) ? 1.0 : 0.0; });
  two("swiglu", any, any, [](double a, double b) { return a * sigmoid_at(a) * b; });
  two("gelu_backward", any, any, [](double g, double x) { return g * (normal_below(x) + x * normal_density(x)); });
  two("gelu_tanh_backward", any, any, [](double g, double x) { return g * gelu_tanh_slope(x); });
  two("silu_backward", any, any, [](double g, double x) { return g * silu_slope(x); });
  return true;
}();

const bool kNumbers = [] {
  const auto number = [](const char* op, Source source, tensor::Scalar s, double (*f)(double, double)) {
    add_case({.op = op,
              .sources = {std::move(source)},
              .f = [f](const Values& v, double n) { return f(v[0], n); },
              .number = s});
  };
  const Source any = range(-3, 3);
  number("add_scalar", any, 2, [](double x, double s) { return x + s; });
  number("sub_scalar", any, 0.5, [](double x, double s) { return x - s; });
  number("rsub_scalar", any, 2, [](double x, double s) { return s - x; });
  number("mul_scalar", any, -1.5, [](double x, double s) { return x * s; });
  number("div_scalar", any, 4, [](double x, double s) { return x / s; });
  number("rdiv_scalar", nonzero, 3, [](double x, double s) { return s / x; });
  number("pow_scalar", any, 3, [](double x, double s) { return std::pow(x, s); });
  number("rpow_scalar", any, 2.0, [](double x, double s) { return std::pow(s, x); });
  number("floor_divide_scalar", between, 0.5, [](double x, double s) { return std::floor(x / s); });
  number("remainder_scalar", between, 0.5, floor_remainder_at);
  number("eq_scalar", whole, 1, [](double x, double s) { return x == s ? 1.0 : 0.0; });
  number("ne_scalar", whole, 1, [](double x, double s) { return x != s ? 1.0 : 0.0; });
  number("lt_scalar", whole, 1, [](double x, double s) { return x < s ? 1.0 : 0.0; });
  number("le_scalar", whole, 1, [](double x, double s) { return x <= s ? 1.0 : 0.0; });
  number("gt_scalar", whole, 1, [](double x, double s) { return x > s ? 1.0 : 0.0; });
  number("ge_scalar", whole, 1, [](double x, double s) { return x >= s ? 1.0 : 0.0; });
  return true;
}();

const bool kSelections = [] {
  const Source any = range(-3, 3);
  const Source mask = bools;
  add_case({.op = "where", .sources = {mask, any, any}, .f = [](const Values& v, double) {
              return v[0] != 0 ? v[1] : v[2];
            }});
  add_case({.op = "where_scalar",
            .sources = {mask, any},
            .f = [](const Values& v, double s) { return v[0] != 0 ? v[1] : s; },
            .number = 0.25});
  add_case({.op = "lerp", .sources = {any, any, any}, .f = [](const Values& v, double) {
              return v[0] + v[2] * (v[1] - v[0]);
            }});
  add_case({.op = "lerp_scalar",
            .sources = {any, any},
            .f = [](const Values& v, double s) { return v[0] + s * (v[1] - v[0]); },
            .number = 0.25});
  add_case({.op = "addcmul",
            .sources = {any, any, any},
            .f = [](const Values& v, double s) { return v[0] + s * v[1] * v[2]; },
            .number = 0.5});
  add_case({.op = "addcdiv",
            .sources = {any, any, nonzero},
            .f = [](const Values& v, double s) { return v[0] + s * v[1] / v[2]; },
            .number = 0.5});
  return true;
}();

const OpCase kClamp{{.op = "clamp",
                     .samples = [](Random& random) -> std::vector<OpSample> {
                       const Attributes range_of(ClampAttributes{-1.0, 1.5});
                       return {{.inputs = {between(random, {5, 7})}, .attributes = range_of},
                               {.inputs = {between(random, {0})}, .attributes = range_of},
                               {.inputs = {between(random, {})}, .attributes = range_of}};
                     },
                     .reference =
                         [](std::span<const Array> inputs, const AttributesRef& attributes) {
                           return apply(
                               [](const Values& v, const AttributesRef&) { return std::clamp(v[0], -1.0, 1.5); },
                               inputs, attributes);
                         }}};

const OpCase kCopy{{.op = "copy",
                    .samples = [](Random& random) -> std::vector<OpSample> {
                      return {{.inputs = {normal(random, {3, 4, 5})}},
                              {.inputs = {normal(random, {0, 2})}},
                              {.inputs = {normal(random, {})}}};
                    },
                    .reference = [](std::span<const Array> inputs, const AttributesRef&) -> std::vector<Array> {
                      return {inputs[0]};
                    }}};

const OpCase kCast{
    {.op = "cast",
     .samples = [](Random& random) -> std::vector<OpSample> {
       std::vector<OpSample> all;
       for (const DType dtype : {DType::kF32, DType::kF64, DType::kBF16, DType::kI32, DType::kBool}) {
         SampleInput input = between(random, {5, 7});
         input.is_differentiable = dtype == DType::kF64;
         all.push_back({.inputs = {input}, .attributes = Attributes(CastAttributes{dtype})});
       }
       return all;
     },
     .reference = [](std::span<const Array> inputs, const AttributesRef& attributes) -> std::vector<Array> {
       const DType dtype = attributes.as<CastAttributes>().dtype;
       return {is_floating(dtype) ? rounded(inputs[0], dtype)
                                  : apply(
                                        [dtype](const Values& v, const AttributesRef&) {
                                          return dtype == DType::kBool ? (v[0] != 0 ? 1.0 : 0.0) : std::trunc(v[0]);
                                        },
                                        inputs, attributes)[0]};
     }}};

const OpCase kSwigluBackward{
    {.op = "swiglu_backward",
     .samples = [](Random& random) -> std::vector<OpSample> {
       std::vector<OpSample> all;
       for (const std::vector<Shape>& shapes : kShapesOf[3]) {
         OpSample& sample = all.emplace_back(OpSample{.inputs = {}, .outputs = 2});
         for (const Shape& shape : shapes) sample.inputs.push_back(uniform(random, shape, -3, 3));
       }
       return all;
     },
     .reference = [](std::span<const Array> inputs, const AttributesRef& attributes) -> std::vector<Array> {
       const auto of_a = [](const Values& v, const AttributesRef&) { return v[0] * v[2] * silu_slope(v[1]); };
       const auto of_b = [](const Values& v, const AttributesRef&) { return v[0] * v[1] * sigmoid_at(v[1]); };
       return {apply(of_a, inputs, attributes)[0], apply(of_b, inputs, attributes)[0]};
     }}};

const char* const kComplexTest = "complex: ops_reference_complex_test";
const OpCase kConj{{.op = "conj", .samples = {}, .why_no_reference = kComplexTest}};
const OpCase kReal{{.op = "real", .samples = {}, .why_no_reference = kComplexTest}};
const OpCase kImag{{.op = "imag", .samples = {}, .why_no_reference = kComplexTest}};
const OpCase kViewAsReal{{.op = "view_as_real", .samples = {}, .why_no_reference = kComplexTest}};
const OpCase kViewAsComplex{{.op = "view_as_complex", .samples = {}, .why_no_reference = kComplexTest}};

}  // namespace
}  // namespace tessera::ops::testing
