// Compares the gradient of every operator with central differences, in f64, on the test samples of the operator: the
// slope of a random projection of the results along random directions of the inputs. Then does the same for the
// gradients themselves, on the device that TESSERA_TEST_DEVICE names. The operators that cannot be checked are listed
// here; all others are checked.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <functional>
#include <map>
#include <set>

#include "tessera/autograd/autograd.h"
#include "tessera/ops/pointwise/complex.h"
#include "tessera/ops/pointwise/functions.h"
#include "tessera/ops/pointwise/pointwise.h"
#include "tessera/ops/testing/sample_memory.h"

namespace tessera::autograd {
namespace {

using ops::testing::Array;
using ops::testing::OpCaseInfo;
using ops::testing::OpSample;
using ops::testing::Random;
using ops::testing::read_back;
using Arrays = std::vector<Array>;

// Operators with a gradient that differences cannot check, with the reason.
const std::map<std::string, std::string> kUnchecked = {
    {"conj", "complex: see Complex below"},
    {"real", "complex: see Complex below"},
    {"imag", "complex: see Complex below"},
    {"view_as_real", "complex: see Complex below"},
    {"view_as_complex", "complex: see Complex below"},
};
// Operators whose gradient is one fused operator without a gradient.
const std::set<std::string> kOnceDifferentiable = {
    "cross_entropy", "layer_norm", "linear_cross_entropy",         "linear_cross_entropy_with_gradients",
    "log_softmax",   "rms_norm",   "scaled_dot_product_attention", "softmax"};
// Operators whose results after the first are gradients, which have no gradient.
const std::set<std::string> kOfFirstResult = {"linear_cross_entropy_with_gradients"};

constexpr double kStep = 1e-5;
constexpr double kTolerance = 1e-6;

Tensor placed(const Array& array, DType dtype, bool strided = false) {
  return ops::testing::on_device(ops::testing::to_tensor(array, dtype, strided), ops::testing::tested_device());
}

Array random_like(const Array& like, Random& random) {
  Array out(like.shape);
  std::normal_distribution<double> normal;
  for (double& value : out.values) value = normal(random);
  return out;
}

double dot(const Array& a, const Array& b) {
  double total = 0;
  for (std::size_t i = 0; i < a.values.size(); ++i) {
    if (b.values[i] != 0) total += a.values[i] * b.values[i];  // 0 times infinity is 0 here
  }
  return total;
}

// One sample as a function of its differentiable inputs.
class Sampled {
 public:
  Sampled(const OpCaseInfo& info, const OpSample& sample, bool strided)
      : op_(tensor::find_op(info.op)), sample_(sample), strided_(strided) {
    for (std::size_t i = 0; i < sample.inputs.size(); ++i) {
      const auto& input = sample.inputs[i];
      if (!input.is_absent && !input.dtype && input.is_differentiable) free_.push_back(i);
    }
  }
  [[nodiscard]] bool has_free() const { return !free_.empty(); }
  [[nodiscard]] Arrays point() const {
    Arrays out;
    for (const std::size_t i : free_) out.push_back(sample_.inputs[i].value);
    return out;
  }

  struct Result {
    std::vector<Tensor> leaves;
    std::vector<Tensor> outputs;  // differentiable outputs
  };
  [[nodiscard]] Result run(const Arrays& at) const {
    Result result;
    std::vector<Tensor> inputs;
    for (std::size_t i = 0, next = 0; i < sample_.inputs.size(); ++i) {
      const auto& input = sample_.inputs[i];
      if (input.is_absent) {
        inputs.emplace_back();
      } else if (next < free_.size() && free_[next] == i) {
        inputs.push_back(placed(at[next++], DType::kF64, strided_));
        set_requires_grad(inputs.back(), true);
        result.leaves.push_back(inputs.back());
      } else {
        inputs.push_back(placed(input.value, input.dtype.value_or(DType::kF64), strided_));
      }
    }
    std::vector<Tensor> outputs(static_cast<std::size_t>(sample_.outputs));
    tensor::call_into({op_, inputs, sample_.attributes.ref(), outputs});
    if (kOfFirstResult.contains(op_.name())) outputs.resize(1);
    for (const Tensor& output : outputs) {
      if (is_floating(output.dtype())) result.outputs.push_back(output);
    }
    return result;
  }

  /// Returns the projection of the results.
  [[nodiscard]] double value(const Arrays& at, const Arrays& onto) const {
    const NoGrad off;
    const Result result = run(at);
    double total = 0;
    for (std::size_t i = 0; i < onto.size(); ++i) total += dot(read_back(result.outputs[i]), onto[i]);
    return total;
  }
  /// Returns the gradient of the projection; zeros for inputs without a gradient.
  [[nodiscard]] Arrays gradient(const Arrays& at, const Arrays& onto) const {
    const Result result = run(at);
    return arrays_of(
        gradients(tracked(result, onto).first, result.leaves, tracked(result, onto).second, {.allow_unused = true}),
        at);
  }
  /// Returns the gradient of the projection of the gradient onto `again`.
  [[nodiscard]] Arrays second_gradient(const Arrays& at, const Arrays& onto, const Arrays& again) const {
    const Result result = run(at);
    const auto [outputs, grads] = tracked(result, onto);
    const auto first = gradients(outputs, result.leaves, grads, {.create_graph = true, .allow_unused = true});
    std::vector<Tensor> from;
    std::vector<Tensor> along;
    for (std::size_t i = 0; i < first.size(); ++i) {
      if (!first[i] || !requires_grad(first[i])) continue;
      from.push_back(first[i]);
      along.push_back(placed(again[i], DType::kF64));
    }
    if (from.empty()) return arrays_of(std::vector<Tensor>(at.size()), at);
    return arrays_of(gradients(from, result.leaves, along, {.allow_unused = true}), at);
  }

 private:
  static std::pair<std::vector<Tensor>, std::vector<Tensor>> tracked(const Result& result, const Arrays& onto) {
    std::pair<std::vector<Tensor>, std::vector<Tensor>> out;
    for (std::size_t i = 0; i < result.outputs.size(); ++i) {
      if (!requires_grad(result.outputs[i])) continue;
      out.first.push_back(result.outputs[i]);
      out.second.push_back(placed(onto[i], DType::kF64));
    }
    return out;
  }
  static Arrays arrays_of(const std::vector<Tensor>& tensors, const Arrays& like) {
    Arrays out;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      out.push_back(tensors[i] ? read_back(tensors[i]) : Array(like[i].shape));
    }
    return out;
  }

  tensor::Operator op_;
  const OpSample& sample_;
  bool strided_;
  std::vector<std::size_t> free_;
};

// Compares <gradient, direction> with the slope of `value` along random directions: of all inputs, then of each alone.
template <class F>
void expect_slopes(const Arrays& at, const Arrays& gradient, Random& random, const F& value) {
  for (std::size_t which = 0; which <= at.size(); ++which) {
    Arrays directions;
    Arrays ahead = at;
    Arrays behind = at;
    double want = 0;
    for (std::size_t i = 0; i < at.size(); ++i) {
      const Array direction = which == 0 || which == i + 1 ? random_like(at[i], random) : Array(at[i].shape);
      for (std::size_t k = 0; k < direction.values.size(); ++k) {
        ahead[i].values[k] += kStep * direction.values[k];
        behind[i].values[k] -= kStep * direction.values[k];
      }
      want += dot(gradient[i], direction);
    }
    const double slope = (value(ahead) - value(behind)) / (2 * kStep);
    ASSERT_NEAR(want, slope, kTolerance * std::max(1.0, std::abs(slope)))
        << (which == 0 ? std::string("along all inputs") : "along input " + std::to_string(which - 1));
  }
}

Arrays projections(const Sampled& sampled, Random& random) {
  Arrays onto;
  for (const Tensor& output : sampled.run(sampled.point()).outputs) {
    const Array value = read_back(output);
    onto.push_back(random_like(value, random));
    for (std::size_t i = 0; i < value.values.size(); ++i) {
      if (!std::isfinite(value.values[i])) onto.back().values[i] = 0;  // has no slope
    }
  }
  return onto;
}

// Returns false for results that are nowhere finite, such as the variance of one element.
bool has_slope(const Arrays& onto) {
  return std::ranges::any_of(onto, [](const Array& array) {
    return array.values.empty() || std::ranges::any_of(array.values, [](double value) { return value != 0; });
  });
}

void check_first(const OpCaseInfo& info, const OpSample& sample, bool strided) {
  const Sampled sampled(info, sample, strided);
  if (!sampled.has_free()) return;
  Random random(11);
  const Arrays onto = projections(sampled, random);
  if (!has_slope(onto)) return;
  expect_slopes(sampled.point(), sampled.gradient(sampled.point(), onto), random,
                [&](const Arrays& at) { return sampled.value(at, onto); });
}

void check_second(const OpCaseInfo& info, const OpSample& sample) {
  const Sampled sampled(info, sample, false);
  if (!sampled.has_free()) return;
  Random random(13);
  const Arrays onto = projections(sampled, random);
  if (!has_slope(onto)) return;
  Arrays again;
  for (const Array& input : sampled.point()) again.push_back(random_like(input, random));
  expect_slopes(sampled.point(), sampled.second_gradient(sampled.point(), onto, again), random, [&](const Arrays& at) {
    const Arrays first = sampled.gradient(at, onto);
    double total = 0;
    for (std::size_t i = 0; i < first.size(); ++i) total += dot(first[i], again[i]);
    return total;
  });
}

// Runs `check` on all samples of all operators with a gradient, except those that cannot be checked.
template <class F>
void for_each_sample(const F& check) {
  for (const OpCaseInfo& info : ops::testing::all_cases()) {
    const bool has_gradient = tensor::find_op(info.op)->def.gradient != nullptr;
    if (!has_gradient || !info.samples || kUnchecked.contains(info.op)) continue;
    Random random(5);
    for (const OpSample& sample : info.samples(random)) {
      SCOPED_TRACE(info.op + "(" + sample.attributes.ref().text() + ") " + sample.note);
      try {
        check(info, sample);
      } catch (const std::exception& error) {
        ADD_FAILURE() << error.what();
      }
    }
  }
}

TEST(Gradient, OfEveryOperatorIsTheSlope) {
  for_each_sample([](const OpCaseInfo& info, const OpSample& sample) {
    for (const bool strided : {false, true}) check_first(info, sample, strided);
  });
}

TEST(Gradient, OfEveryGradientIsItsSlope) {
  std::set<std::string> refused;
  for_each_sample([&](const OpCaseInfo& info, const OpSample& sample) {
    try {
      check_second(info, sample);
    } catch (const NotSupported& error) {
      if (!kOnceDifferentiable.contains(info.op)) throw;
      refused.insert(info.op);
    }
  });
  EXPECT_EQ(refused, kOnceDifferentiable) << "an operator that can be differentiated twice is named as if not";
}

TEST(Gradient, IsCheckedForEveryOperatorThatHasOne) {
  std::set<std::string> checked;
  for (const OpCaseInfo& info : ops::testing::all_cases()) {
    if (!info.samples) continue;
    Random random(5);
    for (const OpSample& sample : info.samples(random)) {
      if (info.is_checked_by_differences && Sampled(info, sample, false).has_free()) checked.insert(info.op);
    }
  }
  for (const tensor::Operator op : tensor::all_ops()) {
    if (op->def.gradient == nullptr) continue;
    EXPECT_NE(checked.contains(op.name()), kUnchecked.contains(op.name()))
        << op.name() << (checked.contains(op.name()) ? " is checked and named as if not" : " is not checked");
  }
}

// A complex gradient consists of the gradients of the real and the imaginary part of a real loss.
TEST(Complex, GradientsAreThoseOfTheParts) {
  const Array at({2, 2}, {1, 2, 3, 4});  // 1 + 2i, 3 + 4i
  const auto gradient_of = [&](const std::function<Tensor(const Tensor&)>& loss, const Array& along) {
    const Tensor x = ops::testing::to_tensor(at, DType::kF32);
    set_requires_grad(x, true);
    backward(loss(ops::view_as_complex(x)), ops::testing::to_tensor(along, DType::kF32));
    return ops::testing::to_array(grad(x)).values;
  };
  const Array parts({2, 2}, {10, 20, 30, 40});
  const Array each({2}, {10, 20});
  using Values = std::vector<double>;
  EXPECT_EQ(gradient_of([](const Tensor& z) { return ops::view_as_real(z); }, parts), Values({10, 20, 30, 40}));
  EXPECT_EQ(gradient_of([](const Tensor& z) { return ops::view_as_real(ops::conj(z)); }, parts),
            Values({10, -20, 30, -40}));
  EXPECT_EQ(gradient_of([](const Tensor& z) { return ops::real(z); }, each), Values({10, 0, 20, 0}));
  EXPECT_EQ(gradient_of([](const Tensor& z) { return ops::imag(z); }, each), Values({0, 10, 0, 20}));
  // |z|^2 = re^2 + im^2.
  EXPECT_EQ(gradient_of([](const Tensor& z) { return ops::real(ops::mul(z, ops::conj(z))); }, each),
            Values({20, 40, 120, 160}));
}

// Complex functions, compared with differences of the function in doubles.
TEST(Complex, GradientsOfFunctionsAreTheirDerivatives) {
  using Value = std::complex<double>;
  struct Function {
    const char* name;
    Tensor (*ours)(const Tensor&);
    Value (*theirs)(Value);
  };
  static const Value kNumber(0.3, 0.8);
  const Function kFunctions[] = {
      {"exp", ops::exp, [](Value z) { return std::exp(z); }},
      {"log", ops::log, [](Value z) { return std::log(z); }},
      {"sqrt", ops::sqrt, [](Value z) { return std::sqrt(z); }},
      {"rsqrt", ops::rsqrt, [](Value z) { return 1.0 / std::sqrt(z); }},
      {"reciprocal", ops::reciprocal, [](Value z) { return 1.0 / z; }},
      {"square", ops::square, [](Value z) { return z * z; }},
      {"sin", ops::sin, [](Value z) { return std::sin(z); }},
      {"cos", ops::cos, [](Value z) { return std::cos(z); }},
      {"tanh", ops::tanh, [](Value z) { return std::tanh(z); }},
      {"pow of a number", [](const Tensor& x) { return ops::pow(x, 3); }, [](Value z) { return std::pow(z, 3); }},
      {"pow of a complex number", [](const Tensor& x) { return ops::pow(x, kNumber); },
       [](Value z) { return std::pow(z, kNumber); }},
      {"number to the power", [](const Tensor& x) { return ops::pow(kNumber, x); },
       [](Value z) { return std::pow(kNumber, z); }},
      {"pow of itself", [](const Tensor& x) { return ops::pow(x, x); }, [](Value z) { return std::pow(z, z); }},
      {"lerp", [](const Tensor& x) { return ops::lerp(ops::mul(x, kNumber), ops::sin(x), x); },
       [](Value z) { return z * kNumber + z * (std::sin(z) - z * kNumber); }},
      {"lerp by a number", [](const Tensor& x) { return ops::lerp(ops::sin(x), x, kNumber); },
       [](Value z) { return std::sin(z) + kNumber * (z - std::sin(z)); }},
      {"addcmul", [](const Tensor& x) { return ops::addcmul(x, ops::sin(x), ops::cos(x), kNumber); },
       [](Value z) { return z + kNumber * std::sin(z) * std::cos(z); }},
      {"addcdiv", [](const Tensor& x) { return ops::addcdiv(x, ops::sin(x), ops::cos(x), kNumber); },
       [](Value z) { return z + kNumber * std::sin(z) / std::cos(z); }},
  };
  const Value at(0.7, -0.4);
  const Value weights(0.6, 1.3);  // of the real and the imaginary part in the loss
  for (const Function& function : kFunctions) {
    SCOPED_TRACE(function.name);
    const Tensor x = ops::testing::to_tensor(Array({1, 2}, {at.real(), at.imag()}), DType::kF32);
    set_requires_grad(x, true);
    backward(ops::view_as_real(function.ours(ops::view_as_complex(x))),
             ops::testing::to_tensor(Array({1, 2}, {weights.real(), weights.imag()}), DType::kF32));
    const std::vector<double> got = ops::testing::to_array(grad(x)).values;
    const auto loss = [&](Value z) {
      const Value y = function.theirs(z);
      return weights.real() * y.real() + weights.imag() * y.imag();
    };
    EXPECT_NEAR(got[0], (loss(at + kStep) - loss(at - kStep)) / (2 * kStep), 1e-4);
    EXPECT_NEAR(got[1], (loss(at + Value(0, kStep)) - loss(at - Value(0, kStep))) / (2 * kStep), 1e-4);
  }
}

}  // namespace
}  // namespace tessera::autograd
