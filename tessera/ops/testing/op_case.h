// Test cases of operators. Each case has samples of the arguments and a reference in plain loops over doubles. Drivers
// run all cases: compared with the reference in every dtype, contiguous and strided (reference_test); gradients with
// central differences (gradient_test of autograd); sharding rules with the global result (validator_test). A test fails
// for every registered operator without a case.
//
//   const OpCase kSoftmax{{.op = "softmax",
//                          .samples = [](Random& random) -> std::vector<OpSample> {
//                            return {{.inputs = {normal(random, {5, 7})}, .attributes =
//                            Attributes(SoftmaxAttributes{1})}};
//                          },
//                          .reference = softmax_reference}};
#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "tessera/tensor/call.h"

namespace tessera::ops::testing {

using Random = std::mt19937_64;

/// A contiguous array of doubles, last dimension fastest.
struct Array {
  Shape shape;
  std::vector<double> values;  // one per element of the shape

  Array() = default;
  explicit Array(Shape of, double fill = 0)
      : shape(std::move(of)), values(static_cast<std::size_t>(shape.numel()), fill) {}
  Array(Shape of, std::vector<double> filled) : shape(std::move(of)), values(std::move(filled)) {}
};

/// One tensor argument of a sample.
struct SampleInput {
  Array value;
  /// Fixed for indices (i64) and masks (bool). If unset, the argument is floating and drivers choose the dtype.
  std::optional<DType> dtype = {};
  bool is_absent = false;         // an omitted optional argument
  bool is_differentiable = true;  // whether the gradient of a floating argument is checked
};

/// The arguments of one call.
struct OpSample {
  std::vector<SampleInput> inputs;
  tensor::Attributes attributes = {};
  std::string note = {};  // shown if it fails
  int outputs = 1;
};

/// The test of an operator.
struct OpCaseInfo {
  std::string op;
  std::function<std::vector<OpSample>(Random&)> samples;
  /// Computes the results in doubles with plain loops. Null if the operator has a separate test, which
  /// `why_no_reference` names.
  std::function<std::vector<Array>(std::span<const Array>, const tensor::AttributesRef&)> reference = {};
  std::string why_no_reference = {};
  /// Maximum error in f32, relative to max(1, |expected|). f64 allows 1e-7 of it or 1e-13; half types allow the effect
  /// of rounding their inputs and result once each.
  double tolerance = 1e-5;
  bool is_checked_by_differences = true;  // applies to the gradient, if the operator has one
};

/// Prints the name of the operator, for GoogleTest.
void PrintTo(const OpCaseInfo& info, std::ostream* out);

/// Registers a case for the lifetime of the program.
struct OpCase {
  explicit OpCase(OpCaseInfo info);
};

/// Returns all registered cases, one per operator.
const std::vector<OpCaseInfo>& all_cases();

/// Returns a floating argument with standard normal values.
SampleInput normal(Random& random, const Shape& shape);
/// Returns a floating argument with values in [low, high).
SampleInput uniform(Random& random, const Shape& shape, double low, double high);
/// Returns an i64 argument with values in [low, high).
SampleInput integers(Random& random, const Shape& shape, std::int64_t low, std::int64_t high);
/// Returns a bool argument.
SampleInput bools(Random& random, const Shape& shape);
/// Returns an omitted optional argument.
SampleInput absent();

/// Returns a host tensor with these values, rounded to the dtype. With `strided` it is not contiguous: dimensions are
/// permuted and have gaps.
Tensor to_tensor(const Array& array, DType dtype, bool strided = false);
/// Returns the values of a tensor of any dtype except complex, after waiting for its device.
Array to_array(const Tensor& tensor);
/// Returns an element of any dtype except complex as a double.
double read_element(const std::byte* at, DType dtype);
/// Writes an element, rounded to the dtype.
void write_element(std::byte* at, DType dtype, double to);
/// Returns the array with each value rounded to the dtype.
Array rounded(const Array& array, DType dtype);
/// Converts a position to indices over `shape`, last dimension fastest.
std::vector<std::int64_t> digits(const Shape& shape, std::int64_t place);

}  // namespace tessera::ops::testing
