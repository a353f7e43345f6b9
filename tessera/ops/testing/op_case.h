// What every operator is tested by. Each has a case: samples of its arguments and a reference in plain loops over
// doubles. Drivers run all cases: against the reference in every dtype, dense and strided (reference_test); gradients
// against central differences (autograd's gradient_test); sharding rules against the whole (validator_test). A test
// fails for every registered operator that has no case, so none is forgotten.
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
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "tessera/tensor/call.h"

namespace tessera::ops::testing {

using Random = std::mt19937_64;

/// A dense array of doubles, last dimension fastest.
struct Array {
  Shape shape;
  std::vector<double> values;  // as many as the shape has elements

  Array() = default;
  explicit Array(Shape of, double fill = 0)
      : shape(std::move(of)), values(static_cast<std::size_t>(shape.numel()), fill) {}
  Array(Shape of, std::vector<double> filled) : shape(std::move(of)), values(std::move(filled)) {}
};

/// One tensor argument of a sample.
struct SampleInput {
  Array value;
  /// Fixed: indices (i64), masks (bool). None: floating, and drivers choose which.
  std::optional<DType> dtype = {};
  bool is_absent = false;         // an optional argument left out
  bool is_differentiable = true;  // of a floating one: whether its gradient is checked
};

/// One call.
struct OpSample {
  std::vector<SampleInput> inputs;
  tensor::Attributes attributes = {};
  std::string note = {};  // shown when it fails
  int outputs = 1;
};

/// How an operator is tested.
struct OpCaseInfo {
  std::string op;
  std::function<std::vector<OpSample>(Random&)> samples;
  /// The results, in doubles, by plain loops. Null: the operator has a test of its own, which `why_no_reference` names.
  std::function<std::vector<Array>(std::span<const Array>, const tensor::AttributesRef&)> reference = {};
  std::string why_no_reference = {};
  /// Largest error allowed in f32, relative to max(1, |expected|); f64 is held to 1e-7 of it or 1e-13, half types to
  /// what rounding their inputs and result once each makes of it.
  double tolerance = 1e-5;
  bool is_checked_by_differences = true;  // the gradient, where it has one
};

/// Registers a case for the life of the program.
struct OpCase {
  explicit OpCase(OpCaseInfo info);
};

/// All cases, by operator.
const std::vector<OpCaseInfo>& all_cases();

/// A floating argument of standard normal values.
SampleInput normal(Random& random, const Shape& shape);
/// A floating argument of values from [low, high).
SampleInput uniform(Random& random, const Shape& shape, double low, double high);
/// An i64 argument of values from [low, high).
SampleInput integers(Random& random, const Shape& shape, std::int64_t low, std::int64_t high);
/// A bool argument.
SampleInput bools(Random& random, const Shape& shape);
/// An optional argument left out.
SampleInput absent();

/// A tensor on the host with these values, rounded to the dtype; with `strided` it is no dense one: dimensions permuted
/// and with gaps.
Tensor to_tensor(const Array& array, DType dtype, bool strided = false);
/// The values of a tensor of any dtype but complex, read after its device has done its work.
Array to_array(const Tensor& tensor);
/// An element of any dtype but complex, as a double.
double read_element(const std::byte* at, DType dtype);
/// Writes one, rounded to the dtype.
void write_element(std::byte* at, DType dtype, double to);
/// The array with each value rounded to the dtype.
Array rounded(const Array& array, DType dtype);
/// Index of a place: its digits over `shape`, last fastest.
std::vector<std::int64_t> digits(const Shape& shape, std::int64_t place);

}  // namespace tessera::ops::testing
