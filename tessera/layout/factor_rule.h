// How an operator may be sharded, as data. A rule lists the factors (independent indices) of the operator, and the
// factors of each dimension of each operand. A factor in two operands is the same index. For a matrix product:
// [i,k],[k,j]->[i,j], where k is reduced by sum. A mesh axis that shards a factor shards it in every operand that has
// the factor. Sharding a reduced factor makes the result partial.
//
// A rule asserts that each element of a result is one reduction, over all reduced factors that the result lacks, of a
// function of the input elements at those indices. So a bias added after a matrix product is not part of the rule of
// the product: sharding k would add the bias once per shard.
//
// A dimension may be a compound of factors, major to minor: [(a b),c]->[a,(b c)] is a view. A dimension of size 1 that
// is broadcast has no factor and is written 1.
//
// The algebra of each input defines how partial values propagate. Sum and avg pass through jointly linear inputs if all
// of them are partial (avg: if any is), and through a multilinear input if it alone is partial. Min and max pass
// through a monotone input if it alone is partial; they are swapped if the input is monotone down.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/base/shape.h"
#include "tessera/base/small_vector.h"
#include "tessera/layout/arithmetic.h"
#include "tessera/layout/layout.h"

namespace tessera::layout {

/// Effect of sharding a factor.
enum class FactorKind : std::uint8_t {
  kPass,       ///< Each shard is computed independently.
  kReduce,     ///< Each shard gives a partial result, to be reduced by the reduction of the factor.
  kReplicate,  ///< Must not be sharded: the operator reads all of it.
  kBlocked,    ///< May be sharded if every shard is a multiple of `block`.
  kPermuted,   ///< Must not be sharded without a transfer: the operator reorders elements along it.
  /// May be sharded: the ranks exchange small statistics while they compute. Results that lack the factor are complete
  /// on each rank, not partial.
  kCooperate,
};

/// One independent index of an operator.
struct Factor {
  std::string name;                       ///< A letter, then letters and digits.
  FactorKind kind = FactorKind::kPass;    ///< Effect of sharding the factor.
  Reduction reduction = Reduction::kSum;  ///< Reduction of a kReduce factor.
  std::int64_t block = 1;                 ///< Granularity of a kBlocked factor.
  std::int64_t size = 0;                  ///< 0: derived from the shapes.
  /// Compares all fields.
  friend bool operator==(const Factor&, const Factor&) = default;
};

/// How sums propagate through an input.
enum class Linearity : std::uint8_t {
  kNone,   ///< Not linear.
  kJoint,  ///< f(a + c, b + d) = f(a, b) + f(c, d): add
  kMulti,  ///< linear in each alone: mul, mm
};
/// How min and max propagate through an input.
enum class Monotony : std::uint8_t {
  kNone,  ///< They do not propagate.
  kUp,    ///< Both propagate unchanged.
  kDown,  ///< Both propagate and are swapped.
};
/// How partial values of an input propagate.
struct Algebra {
  Linearity linearity = Linearity::kNone;  ///< For sum and avg.
  Monotony monotony = Monotony::kNone;     ///< For min and max.
  /// Compares both fields.
  friend bool operator==(const Algebra&, const Algebra&) = default;
};

/// Factors of one dimension, major to minor, as indices into FactorRule::factors.
using DimFactors = SmallVector<std::int32_t, 4>;
/// Factors of each dimension of an operand.
using OperandFactors = std::vector<DimFactors>;

/// Sharding rule of an operator. Plain data.
struct TESSERA_API FactorRule {
  std::string name;                     ///< Name of the operator.
  std::vector<Factor> factors;          ///< At most 64. Dimensions refer to them by index.
  std::vector<OperandFactors> inputs;   ///< Factors of each input.
  std::vector<OperandFactors> outputs;  ///< Factors of each output.
  std::vector<Algebra> algebra;         ///< Algebra of each input. Empty: no input has an algebra.

  /// Returns "mm: [i,k],[k,j]->[i,j]; k=sum; multi, multi", which parse() reads. After the dimensions follow the
  /// factors that are not pass (k=sum, s=replicate, b=blocked(4), p=permuted, c=cooperate), the sizes that shapes do
  /// not determine (a:4), and the algebra of each input (none, joint, multi, with +up or +down).
  [[nodiscard]] std::string text() const;
  /// Returns the checked rule of this text. Throws InvalidArgument with the
  /// position and the expected text if it is malformed.
  static FactorRule parse(std::string_view text);
  /// Throws InvalidArgument if the rule is invalid: a factor appears twice in an operand; a factor of an output is in
  /// no input, has no size and is not kReplicate; a pass factor is missing from an output (it would be a reduction);
  /// one output is reduced in two ways; a linear input is reduced by anything but sum; a factor is reduced by avg.
  void check() const;
  /// Returns the size of each factor for these shapes. Throws InvalidArgument, which names the operand, the dimension
  /// and the factor, if the shapes are inconsistent.
  [[nodiscard]] std::vector<std::int64_t> sizes(std::span<const Shape> inputs, std::span<const Shape> outputs) const;

  /// Compares all fields, including the order of the factors.
  friend bool operator==(const FactorRule&, const FactorRule&) = default;
};

/// Returns the rule of an elementwise operator on shapes that broadcast. All inputs have the same algebra.
TESSERA_API FactorRule pointwise_rule(std::string name, std::span<const Shape> inputs, Algebra algebra = {});
/// Returns the rule of a view: the same elements in the same order under another shape. Dimensions are split and merged
/// into factors at common boundaries and common divisors. The remainder of a dimension must not be sharded.
TESSERA_API FactorRule view_rule(const Shape& from, const Shape& to);

/// An operand of a call on one rank: the input of the `localize` function of an operator.
struct LocalOperand {
  Shape shape;                  ///< Shape of the local shard.
  std::vector<IndexMap> index;  ///< Indices of the local shard per dimension, for operators that depend on position.
};
/// Returns the local form of each operand (inputs, then outputs) of a call with these layouts.
TESSERA_API std::vector<LocalOperand> localize(std::span<const Shape> shapes, std::span<const Layout> layouts,
                                               Rank rank);

}  // namespace tessera::layout
