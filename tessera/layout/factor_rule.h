// How an operator may be sharded, as data. A rule names the operator's factors (its independent indices) and says, for
// each dimension of each operand, which factors it is made of: the same factor in two operands is the same index. For
// a matrix product: [i,k],[k,j]->[i,j], where k is reduced by sum. A mesh axis that cuts a factor cuts it in every
// operand that has it; cutting a reduced factor leaves the result partial.
//
// What a rule says of the operator: each element of a result is one reduction, over all the reduced factors that it
// lacks, of a function of the inputs' elements at those indices. So a bias added behind a matrix product is not part of
// the product's rule: cutting k would add it once a piece.
//
// A dimension may be a compound of factors, major to minor: [(a b),c]->[a,(b c)] is a view. A dimension of size 1 that
// is broadcast has no factor, and is written 1.
//
// The algebra of each input says how partial values flow: sum and avg through jointly linear inputs when all of them
// are partial together (avg: when some are), and through a multilinear one when it alone is; min and max through a
// monotone one when it alone is, swapped where it is monotone down.
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

/// What cutting a factor means.
enum class FactorKind : std::uint8_t {
  kPass,       ///< each piece is computed alone
  kReduce,     ///< pieces give partial results, by the factor's reduction
  kReplicate,  ///< may not be cut: the operator looks at all of it
  kBlocked,    ///< may be cut where every piece is a multiple of `block`
  kPermuted,   ///< may not be cut without moving elements: the operator reorders along it
  /// May be cut: ranks then share small statistics while they compute. Results that lack the factor are whole on every
  /// rank, not partial.
  kCooperate,
};

/// One independent index of an operator.
struct Factor {
  std::string name;                       ///< a letter, then letters and digits
  FactorKind kind = FactorKind::kPass;    ///< what cutting it means
  Reduction reduction = Reduction::kSum;  ///< kReduce
  std::int64_t block = 1;                 ///< kBlocked
  std::int64_t size = 0;                  ///< 0: known from the shapes
  /// Equal when all of it is.
  friend bool operator==(const Factor&, const Factor&) = default;
};

/// Whether sums of partial inputs are sums of partial results.
enum class Linearity : std::uint8_t {
  kNone,   ///< they are not
  kJoint,  ///< f(a + c, b + d) = f(a, b) + f(c, d): add
  kMulti,  ///< linear in each alone: mul, mm
};
/// Whether min and max pass through an input.
enum class Monotony : std::uint8_t {
  kNone,  ///< neither
  kUp,    ///< both
  kDown,  ///< both, as each other
};
/// How partial values of an input flow.
struct Algebra {
  Linearity linearity = Linearity::kNone;  ///< of sum and avg
  Monotony monotony = Monotony::kNone;     ///< of min and max
  /// Equal when both are.
  friend bool operator==(const Algebra&, const Algebra&) = default;
};

/// Factors of one dimension, major to minor, as places in FactorRule::factors.
using DimFactors = SmallVector<std::int32_t, 4>;
/// Of each dimension of an operand.
using OperandFactors = std::vector<DimFactors>;

/// See the head of this file. Plain data.
struct TESSERA_API FactorRule {
  std::string name;                     ///< of the operator
  std::vector<Factor> factors;          ///< at most 64; dimensions name them by their place here
  std::vector<OperandFactors> inputs;   ///< the factors of each
  std::vector<OperandFactors> outputs;  ///< the factors of each
  std::vector<Algebra> algebra;         ///< of each input; none given: none of them has any

  /// "mm: [i,k],[k,j]->[i,j]; k=sum; multi, multi": parse() reads it. After the dimensions: factors that are not pass,
  /// (k=sum, s=replicate, b=blocked(4), p=permuted, c=cooperate), sizes that shapes do not tell (a:4), then the algebra
  /// of each input (none, joint, multi, with +up or +down).
  [[nodiscard]] std::string text() const;
  /// The rule of this text, checked; InvalidArgument says at which place what was expected.
  static FactorRule parse(std::string_view text);
  /// Refuses what makes no sense: a factor twice in an operand, an output of factors that no input has and no size is
  /// given for, a pass factor that is missing from an output (it would have to be a reduction), one output reduced in
  /// two ways, a linear input of what is reduced by other than sum, a factor reduced by avg.
  void check() const;
  /// The size of each factor for these shapes; refuses shapes that disagree, naming operand, dimension and factor.
  [[nodiscard]] std::vector<std::int64_t> sizes(std::span<const Shape> inputs, std::span<const Shape> outputs) const;

  /// Equal when all of it is, the order of factors included.
  friend bool operator==(const FactorRule&, const FactorRule&) = default;
};

/// Elementwise on shapes that broadcast; the same algebra for each input.
TESSERA_API FactorRule pointwise_rule(std::string name, std::span<const Shape> inputs, Algebra algebra = {});
/// A view: the same elements in the same order under another shape. Dimensions are split and merged into factors where
/// the shapes meet, at common divisors too; what is left of a dimension where they do not may not be cut.
TESSERA_API FactorRule view_rule(const Shape& from, const Shape& to);

/// A call as one rank makes it: what `localize` of an operator works from.
struct LocalOperand {
  Shape shape;                  ///< of the rank's part
  std::vector<IndexMap> index;  ///< where it lies, per dimension: for operators that depend on position
};
/// The local form of each operand (inputs, then outputs) of a call with these layouts.
TESSERA_API std::vector<LocalOperand> localize(std::span<const Shape> shapes, std::span<const Layout> layouts,
                                               Rank rank);

}  // namespace tessera::layout
