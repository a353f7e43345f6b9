// A call of an operator whose inputs are expressed over the factors of its rule: for each input
// and each atom, the factor that the atom shards or the reduction that is partial along it.
// Matching compares these; the search for fixes creates new ones.
//
// An assignment holds the same for the complete call: the splits of each factor, and for
// each atom the inputs that are partial along it and the resulting reduction. It is valid if
// the rule allows it, and determines all inputs and outputs.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tessera/layout/detail/atoms.h"
#include "tessera/layout/detail/factor_shardings.h"
#include "tessera/layout/propagate.h"

namespace tessera::layout::detail {

/// A set of factors; a rule has at most 64.
using FactorSet = std::uint64_t;

/// Use of an atom in one input.
struct AtomUse {
  enum class Kind : std::uint8_t { kNothing, kShard, kPartial };
  Kind kind = Kind::kNothing;
  Reduction reduction = Reduction::kSum;  ///< Reduction, for kPartial.
  std::int32_t factor = -1;               ///< Sharded factor, for kShard.
  friend bool operator==(const AtomUse&, const AtomUse&) = default;
};

/// A layout of an input over the factors of the rule.
struct FactorLayout {
  std::vector<AtomDim> shardings;  ///< Indexed by factor, canonical. Empty for factors that the input lacks.
  std::vector<AtomUse> uses;       ///< Indexed by atom.
};

/// Use of an atom in the complete call.
struct AtomRow {
  std::int32_t factor = -1;              ///< Factor that the atom shards. -1: none.
  SmallVector<std::int32_t, 4> partial;  ///< Inputs that are partial along the atom, if it shards nothing.
  Reduction kind = Reduction::kSum;      ///< Reduction of these inputs.
  Reduction out = Reduction::kSum;       ///< Resulting reduction of the outputs.
  friend bool operator==(const AtomRow&, const AtomRow&) = default;
};

/// Splits of all factors and uses of all atoms in a call.
struct Assignment {
  std::vector<AtomDim> shardings;  ///< Indexed by factor.
  std::vector<AtomRow> rows;       ///< Indexed by atom.
};

/// A call over the factors of its rule. Refers to the constructor arguments, which must outlive it.
class FactorCall {
 public:
  /// Throws InvalidArgument if a shape does not fit the rule or its layout, a layout is empty, or the meshes differ.
  FactorCall(const FactorRule& rule, std::span<const Operand> inputs, std::span<const Shape> outputs);

  [[nodiscard]] const FactorRule& rule() const { return rule_; }
  [[nodiscard]] std::span<const Operand> inputs() const { return inputs_; }
  /// Returns the atoms of the mesh.
  [[nodiscard]] const Atoms& atoms() const { return atoms_; }
  /// Returns the sizes of the factors.
  [[nodiscard]] std::span<const std::int64_t> sizes() const { return sizes_; }
  /// Returns the factors of an input.
  [[nodiscard]] FactorSet factors_of(std::size_t input) const { return in_inputs_[input]; }
  /// Returns an input over the factors, or nothing if it has no such form.
  [[nodiscard]] const std::optional<FactorLayout>& layout(std::size_t input) const { return layouts_[input]; }
  /// Returns a text such as "input 0 {Shard(0)}".
  [[nodiscard]] std::string input_name(std::size_t input) const;
  /// Returns a text such as "dimension 1 of input 0 {Shard(0)}": the dimension of the input that has this factor.
  [[nodiscard]] std::string dim_name(std::int32_t factor, std::size_t input) const;

  /// Returns the resulting reduction if exactly these inputs are partial along an atom and all others are replicated.
  /// If the rule does not allow this, returns nothing and sets `why`.
  [[nodiscard]] std::optional<Reduction> flow(std::span<const std::int32_t> partial, Reduction kind,
                                              std::string& why) const;
  /// Returns true if this factor may be sharded by `shardings`; otherwise sets `why`.
  [[nodiscard]] bool may_shard(std::int32_t factor, const AtomDim& shardings, std::string& why) const;

  /// Returns the assignment of the inputs as they are. If they are incompatible, returns nothing and sets `why`.
  [[nodiscard]] std::optional<Assignment> match(std::string& why) const;
  /// Returns the layout of an input under an assignment, or nothing and sets `why`.
  [[nodiscard]] std::optional<AtomLayout> input_under(const Assignment& assignment, std::size_t input,
                                                      std::string& why) const;
  /// Returns the layouts of the outputs under an assignment of allowed splits, or nothing and sets `why`.
  [[nodiscard]] std::optional<std::vector<AtomLayout>> outputs_over_atoms(const Assignment& assignment,
                                                                          std::string& why) const;
  /// Same as outputs_over_atoms(), converted to layouts.
  [[nodiscard]] std::optional<std::vector<Layout>> outputs_under(const Assignment& assignment, std::string& why) const;

 private:
  void read_inputs();
  bool read_over_atoms(AtomSplit& split);
  bool read_input(const AtomLayout& layout, std::size_t input, FactorLayout& out, AtomSplit& split,
                  std::string& why) const;
  [[nodiscard]] bool match_atom(std::int32_t atom, AtomRow& row, std::string& why) const;
  [[nodiscard]] bool match_factor(std::int32_t factor, AtomDim& shardings, std::string& why) const;
  [[nodiscard]] bool merge_operand(const OperandFactors& dims, const Assignment& assignment, AtomLayout& out,
                                   std::string& why) const;
  [[nodiscard]] SmallVector<std::int32_t, 8> joint_inputs() const;

  const FactorRule& rule_;
  std::span<const Operand> inputs_;
  std::span<const Shape> outputs_;
  std::vector<std::int64_t> sizes_;
  std::vector<FactorSet> in_inputs_;
  Atoms atoms_;
  std::vector<std::optional<FactorLayout>> layouts_;
  std::string unread_;  // why an input has no form over the factors; empty if all have one
};

/// Returns the factors of an operand.
FactorSet factor_set(const OperandFactors& dims);

}  // namespace tessera::layout::detail
