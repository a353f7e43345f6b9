// Further samples of an operator, from a seed: random shapes, broadcasts, dimensions and attributes, with values drawn
// from those of its case, so that they stay where the operator and its reference make sense. Broken into files by the
// families of operators; an operator that none of them knows gets a sample of its case.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tessera/ops/testing/op_case.h"

namespace tessera::ops::testing {

/// What a sample is derived from: random choices, and the values of a case.
class Derivation {
 public:
  /// Of the samples of a case, which must outlive it.
  Derivation(const std::vector<OpSample>& samples, Random& random) : samples_(samples), random_(random) {}

  /// A number of [0, below).
  std::int64_t pick(std::int64_t below) {
    return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(below));
  }
  /// A number of [low, high].
  std::int64_t between(std::int64_t low, std::int64_t high) { return low + pick(high - low + 1); }
  /// True once in `times`.
  bool one_in(std::int64_t times) { return pick(times) == 0; }
  /// A dimension of so many, at times counted from the end.
  std::int64_t dim(std::int64_t ndim) {
    const std::int64_t range = std::max<std::int64_t>(ndim, 1);
    return one_in(2) ? pick(range) : pick(range) - range;
  }
  /// Some of so many dimensions in any order, or all of them; some counted from the end.
  tensor::IntList dims(std::int64_t ndim, bool all = false);
  /// A size: mostly small, odd ones and powers of two, at times 1 or (where `or_none`) 0.
  std::int64_t size(bool or_none = true);
  /// Dimensions; at most a few thousand elements.
  Shape shape(std::int64_t least, std::int64_t most, bool or_none = true);
  /// A floating argument with values of argument `input` of the case's samples.
  SampleInput values(std::size_t input, const Shape& shape);
  /// Indices below `size`, i64 or i32; none where size is 0.
  SampleInput indices(const Shape& shape, std::int64_t size);
  /// The case's samples.
  [[nodiscard]] const std::vector<OpSample>& samples() const { return samples_; }
  /// The generator.
  Random& random() { return random_; }

 private:
  const std::vector<OpSample>& samples_;
  Random& random_;
};

/// Makes a sample.
using DeriveFn = std::function<OpSample(Derivation&)>;
/// By operator.
using Derivations = std::map<std::string, DeriveFn>;
/// reduce.
void add_reduce_derivations(Derivations& to);
/// shape and index.
void add_shape_derivations(Derivations& to);
/// Likewise.
void add_index_derivations(Derivations& to);
/// matrix and nn.
void add_nn_derivations(Derivations& to);

/// A sample like those of the case; `is_derived` says whether it is another than those.
OpSample derived_sample(const OpCaseInfo& info, Random& random, bool& is_derived);

/// A shape of these sizes.
Shape shape_of(const std::vector<std::int64_t>& sizes);
/// `shape` with another size of one dimension.
Shape resized(const Shape& shape, std::int64_t dim, std::int64_t size);

}  // namespace tessera::ops::testing
