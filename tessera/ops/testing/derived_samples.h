// Additional samples of an operator from a seed: random shapes, broadcasts, dimensions and attributes. Values are drawn
// from those of its case, so that they stay in the domain of the operator. The derivations are split into files by
// operator family; an operator without a derivation yields a sample of its case.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tessera/ops/testing/op_case.h"

namespace tessera::ops::testing {

/// Source of a derived sample: random choices and the values of a case.
class Derivation {
 public:
  /// Uses the samples of a case, which must outlive this object.
  Derivation(const std::vector<OpSample>& samples, Random& random) : samples_(samples), random_(random) {}

  /// Returns a number in [0, below).
  std::int64_t pick(std::int64_t below) {
    return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(below));
  }
  /// Returns a number in [low, high].
  std::int64_t between(std::int64_t low, std::int64_t high) { return low + pick(high - low + 1); }
  /// Returns true with probability 1 / times.
  bool one_in(std::int64_t times) { return pick(times) == 0; }
  /// Returns one of `ndim` dimensions, sometimes counted from the end.
  std::int64_t dim(std::int64_t ndim) {
    const std::int64_t range = std::max<std::int64_t>(ndim, 1);
    return one_in(2) ? pick(range) : pick(range) - range;
  }
  /// Returns some of `ndim` dimensions in any order, or all of them; some are counted from the end.
  tensor::IntList dims(std::int64_t ndim, bool all = false);
  /// Returns a size: usually small, odd or a power of two, sometimes 1 or (with `or_none`) 0.
  std::int64_t size(bool or_none = true);
  /// Returns a shape with at most a few thousand elements.
  Shape shape(std::int64_t least, std::int64_t most, bool or_none = true);
  /// Returns a floating argument with values of argument `input` of the samples.
  SampleInput values(std::size_t input, const Shape& shape);
  /// Returns indices below `size`, i64 or i32; no indices if size is 0.
  SampleInput indices(const Shape& shape, std::int64_t size);
  /// Returns the samples of the case.
  [[nodiscard]] const std::vector<OpSample>& samples() const { return samples_; }
  /// Returns the generator.
  Random& random() { return random_; }

 private:
  const std::vector<OpSample>& samples_;
  Random& random_;
};

/// Creates a sample.
using DeriveFn = std::function<OpSample(Derivation&)>;
/// Derivations by operator.
using Derivations = std::map<std::string, DeriveFn>;
/// Adds the derivations of the reduce family.
void add_reduce_derivations(Derivations& to);
/// Adds the derivations of the shape family.
void add_shape_derivations(Derivations& to);
/// Adds the derivations of the index family.
void add_index_derivations(Derivations& to);
/// Adds the derivations of the matrix and nn families.
void add_nn_derivations(Derivations& to);

/// Returns a sample like those of the case. Sets `is_derived` to false if it is one of those.
OpSample derived_sample(const OpCaseInfo& info, Random& random, bool& is_derived);

/// Returns a shape of these sizes.
Shape shape_of(const std::vector<std::int64_t>& sizes);
/// Returns `shape` with another size of one dimension.
Shape resized(const Shape& shape, std::int64_t dim, std::int64_t size);

}  // namespace tessera::ops::testing
