// Runs every operator with complex numbers. It must match complex references composed of the real ones, or reject the
// dtype with an error that names the operator and the call. Linear operators act on real and imaginary parts
// separately, bilinear operators on the four products. For the others, this file defines each element.
#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <functional>
#include <map>
#include <set>

#include "tessera/ops/pointwise/complex.h"
#include "tessera/ops/pointwise/pointwise.h"
#include "tessera/ops/reduce/reduce.h"
#include "tessera/ops/testing/reference.h"
#include "tessera/ops/testing/sample_memory.h"
#include "tessera/tensor/device_context.h"

namespace tessera::ops::testing {
namespace {

using Complex = std::complex<double>;

// The real and imaginary parts of the arguments of a call, or of its results.
struct Parts {
  std::vector<Array> real;
  std::vector<Array> imaginary;  // zeros of the same shapes for real arguments
};

// Returns a c64 tensor with any strides.
Tensor complex_tensor(const Array& real_part, const Array& imaginary_part, Lay lay, Random& random) {
  const device::Device host = device::Device::get("host");
  Tensor made = allocate_laid(real_part.shape, DType::kC64, host, lay, random);
  const device::Stream& stream = tensor::current_stream(host);
  if (made.numel() > 0) {
    write_on(stream, real(made), real_part, "real");
    write_on(stream, imag(made), imaginary_part, "imaginary");
  }
  return made;
}

bool is_complex_input(const SampleInput& input) { return !input.is_absent && !input.dtype; }

// Combines two samples with different floating values into real and imaginary parts.
Parts parts_of(const OpSample& a, const OpSample& b) {
  Parts parts;
  for (std::size_t i = 0; i < a.inputs.size(); ++i) {
    const SampleInput& input = a.inputs[i];
    parts.real.push_back(input.is_absent ? Array() : rounded(input.value, dtype_in(input, DType::kF32)));
    parts.imaginary.push_back(is_complex_input(input) ? rounded(b.inputs[i].value, DType::kF32)
                                                      : Array(parts.real.back().shape));
  }
  return parts;
}

std::vector<Tensor> tensors_of(const OpSample& sample, const Parts& parts, Lay lay, Random& random) {
  std::vector<Tensor> tensors;
  for (std::size_t i = 0; i < sample.inputs.size(); ++i) {
    const SampleInput& input = sample.inputs[i];
    tensors.push_back(input.is_absent           ? Tensor()
                      : is_complex_input(input) ? complex_tensor(parts.real[i], parts.imaginary[i], lay, random)
                                                : to_tensor(input.value, *input.dtype, lay != Lay::kDense));
  }
  return tensors;
}

using Function = std::function<Complex(const std::vector<Complex>&, double number)>;

double truth(bool value) { return value ? 1 : 0; }

// Operators of complex elements with the value of each element. The number is ScalarAttributes::value.
const std::map<std::string, Function> kFunctions = {
    {"abs", [](const auto& v, double) { return Complex(std::abs(v[0])); }},
    {"exp", [](const auto& v, double) { return std::exp(v[0]); }},
    {"log", [](const auto& v, double) { return std::log(v[0]); }},
    {"sqrt", [](const auto& v, double) { return std::sqrt(v[0]); }},
    {"rsqrt", [](const auto& v, double) { return 1.0 / std::sqrt(v[0]); }},
    {"reciprocal", [](const auto& v, double) { return 1.0 / v[0]; }},
    {"square", [](const auto& v, double) { return v[0] * v[0]; }},
    {"sin", [](const auto& v, double) { return std::sin(v[0]); }},
    {"cos", [](const auto& v, double) { return std::cos(v[0]); }},
    {"tanh", [](const auto& v, double) { return std::tanh(v[0]); }},
    {"div", [](const auto& v, double) { return v[0] / v[1]; }},
    {"pow", [](const auto& v, double) { return std::pow(v[0], v[1]); }},
    {"pow_scalar", [](const auto& v, double s) { return std::pow(v[0], s); }},
    {"rpow_scalar", [](const auto& v, double s) { return std::pow(s, v[0]); }},
    {"lerp", [](const auto& v, double) { return v[0] + v[2] * (v[1] - v[0]); }},
    {"addcmul", [](const auto& v, double s) { return v[0] + s * v[1] * v[2]; }},
    {"addcdiv", [](const auto& v, double s) { return v[0] + s * v[1] / v[2]; }},
    {"rdiv_scalar", [](const auto& v, double s) { return s / v[0]; }},
    {"eq", [](const auto& v, double) { return Complex(truth(v[0] == v[1])); }},
    {"ne", [](const auto& v, double) { return Complex(truth(v[0] != v[1])); }},
    {"eq_scalar", [](const auto& v, double s) { return Complex(truth(v[0] == s)); }},
    {"ne_scalar", [](const auto& v, double s) { return Complex(truth(v[0] != s)); }},
    {"logical_not", [](const auto& v, double) { return Complex(truth(v[0] == 0.0)); }},
    {"logical_and", [](const auto& v, double) { return Complex(truth(v[0] != 0.0 && v[1] != 0.0)); }},
    {"logical_or", [](const auto& v, double) { return Complex(truth(v[0] != 0.0 || v[1] != 0.0)); }},
    {"logical_xor", [](const auto& v, double) { return Complex(truth((v[0] != 0.0) != (v[1] != 0.0))); }},
    {"isnan", [](const auto&, double) { return Complex(0); }},
    {"isfinite", [](const auto&, double) { return Complex(1); }},
    {"conj", [](const auto& v, double) { return std::conj(v[0]); }},
};
const std::set<std::string> kBilinear = {"bmm", "contract", "linear", "mm", "mul"};
// Linear operators. The numbers that they add or write have no imaginary part.
const std::set<std::string> kLinear = {
    "add",         "add_scalar", "cast",      "cat",          "copy",       "div_scalar",  "embedding",   "expand",
    "flip",        "gather",     "index_add", "index_select", "index_sum",  "lerp_scalar", "masked_fill", "mean",
    "mul_scalar",  "neg",        "pad",       "permute",      "roll",       "rsub_scalar", "scatter",     "scatter_add",
    "scatter_sum", "select",     "slice",     "sub",          "sub_scalar", "sum",         "tril",        "triu",
    "unslice",     "view",       "where",     "where_scalar"};

Complex value_at(const Parts& parts, std::size_t input, const Shape& whole, std::int64_t place) {
  const Shape& shape = parts.real[input].shape;
  const auto index = digits(whole, place);
  std::int64_t at = 0;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    at = at * shape[d] + (shape[d] == 1 ? 0 : index[whole.size() - shape.size() + d]);
  }
  const auto i = static_cast<std::size_t>(at);
  return {parts.real[input].values[i], parts.imaginary[input].values[i]};
}

Parts by_function(const Function& f, const Parts& in, const tensor::AttributesRef& attributes) {
  Shape whole = in.real[0].shape;
  for (const Array& input : in.real) whole = broadcast(whole, input.shape);
  Parts out{{Array(whole)}, {Array(whole)}};
  const bool has_number = attributes.text().find("value=") != std::string::npos;
  const double number = has_number ? attributes.as<ScalarAttributes>().value.as_double() : 0;
  for (std::int64_t i = 0; i < whole.numel(); ++i) {
    std::vector<Complex> values;
    for (std::size_t n = 0; n < in.real.size(); ++n) values.push_back(value_at(in, n, whole, i));
    const Complex value = f(values, number);
    out.real[0].values[static_cast<std::size_t>(i)] = value.real();
    out.imaginary[0].values[static_cast<std::size_t>(i)] = value.imag();
  }
  return out;
}

// Adds by * b to a, element by element.
void add_to(std::vector<Array>& a, const std::vector<Array>& b, double by) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t e = 0; e < a[i].values.size(); ++e) a[i].values[e] += by * b[i].values[e];
  }
}

// Real arguments are unchanged; the others become zero or their imaginary parts.
std::vector<Array> with(const OpSample& sample, const Parts& in, bool is_imaginary) {
  std::vector<Array> arrays = in.real;
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    if (is_complex_input(sample.inputs[i])) arrays[i] = is_imaginary ? in.imaginary[i] : Array(arrays[i].shape);
  }
  return arrays;
}

Parts want_of(const OpCaseInfo& info, const OpSample& sample, const Parts& in) {
  const tensor::AttributesRef attributes = sample.attributes.ref();
  if (const auto found = kFunctions.find(info.op); found != kFunctions.end()) {
    return by_function(found->second, in, attributes);
  }
  if (kBilinear.contains(info.op)) {
    const Array* const a[] = {&in.real[0], &in.imaginary[0]};
    const Array* const b[] = {&in.real[1], &in.imaginary[1]};
    const auto product = [&](int i, int j) {
      const std::vector<Array> both = {*a[i], *b[j]};
      return info.reference(both, attributes);
    };
    Parts out{product(0, 0), product(0, 1)};
    add_to(out.real, product(1, 1), -1);
    add_to(out.imaginary, product(1, 0), 1);
    return out;
  }
  Parts out{info.reference(in.real, attributes), info.reference(with(sample, in, true), attributes)};
  add_to(out.imaginary, info.reference(with(sample, in, false), attributes), -1);
  return out;
}

void expect_right(const OpCaseInfo& info, const OpSample& sample, const Parts& in, Lay lay, Random& random) {
  std::vector<Tensor> outputs(static_cast<std::size_t>(sample.outputs));
  const std::vector<Tensor> inputs = tensors_of(sample, in, lay, random);
  call_sample(info, sample, device::Device::get("host"), inputs, outputs);
  const Parts want = want_of(info, sample, in);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const bool is_pair = is_complex(outputs[i].dtype());
    const double tolerance = tolerance_in(is_pair ? DType::kF32 : outputs[i].dtype(), info.tolerance);
    EXPECT_EQ(difference(to_array(is_pair ? real(outputs[i]) : outputs[i]), want.real[i], tolerance), "") << "real";
    if (!is_pair) continue;
    EXPECT_EQ(difference(to_array(imag(outputs[i])), want.imaginary[i], tolerance), "") << "imaginary";
  }
}

OpSample in_complex(const OpCaseInfo& info, OpSample sample) {
  if (info.op != "sum") return sample;  // only sum has the dtype of its result as an attribute
  SumAttributes a = sample.attributes.ref().as<SumAttributes>();
  a.dtype = DType::kC64;
  sample.attributes = tensor::Attributes(a);
  return sample;
}

TEST(ReferenceComplex, EveryOperatorIsRightOrRefuses) {
  std::set<std::string> taken;
  for (const OpCaseInfo& info : all_cases()) {
    if (!info.reference) continue;
    Random random(7);
    const auto samples = info.samples(random);
    const auto others = info.samples(random);
    for (std::size_t i = 0; i < samples.size(); ++i) {
      const OpSample sample = in_complex(info, samples[i]);
      if (std::ranges::none_of(sample.inputs, is_complex_input)) continue;
      SCOPED_TRACE(text_of(info, sample));
      const Parts in = parts_of(sample, others[i]);
      if (!is_taken(info, sample, tensors_of(sample, in, Lay::kDense, random))) break;
      taken.insert(info.op);
      for (const Lay lay : {Lay::kDense, Lay::kReversed, Lay::kRandom}) expect_right(info, sample, in, lay, random);
    }
  }
  std::set<std::string> want = kLinear;
  want.insert(kBilinear.begin(), kBilinear.end());
  for (const auto& [op, function] : kFunctions) {
    if (op != "conj") want.insert(op);  // rejects real numbers, see below
  }
  EXPECT_EQ(taken, want);
}

TEST(ReferenceComplex, OperatorsOfComplexNumbersAloneAreRight) {
  Random random(3);
  for (const Shape& shape : {Shape({5, 7}), Shape({3, 4, 5}), Shape({0, 3}), Shape()}) {
    const OpSample a{.inputs = {normal(random, shape)}};
    const Parts in = parts_of(a, {.inputs = {normal(random, shape)}});
    for (const Lay lay : {Lay::kDense, Lay::kReversed, Lay::kRandom}) {
      expect_right({.op = "conj", .samples = {}}, a, in, lay, random);
      const Tensor x = complex_tensor(in.real[0], in.imaginary[0], lay, random);
      EXPECT_EQ(to_array(real(x)).values, in.real[0].values);
      EXPECT_EQ(to_array(imag(x)).values, in.imaginary[0].values);
      const Array pairs = to_array(view_as_real(x));
      ASSERT_EQ(pairs.values.size(), 2 * in.real[0].values.size());
      for (std::size_t i = 0; i < in.real[0].values.size(); ++i) {
        EXPECT_EQ(pairs.values[2 * i], in.real[0].values[i]);
        EXPECT_EQ(pairs.values[2 * i + 1], in.imaginary[0].values[i]);
      }
      const Tensor back = view_as_complex(view_as_real(x));
      EXPECT_EQ(back.shape(), shape);
      EXPECT_EQ(to_array(imag(back)).values, in.imaginary[0].values);
    }
  }
}

}  // namespace
}  // namespace tessera::ops::testing
