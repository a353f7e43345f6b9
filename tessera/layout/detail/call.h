// A call of an operator with its inputs read over the factors of its rule: for each input, which factor every atom
// cuts, or in what it is partial there. Matching compares these; the search for fixes makes new ones.
//
// An assignment says the same for the whole call: the list of cuts of every factor, and for every atom which inputs are
// partial along it and what comes out. It is valid when the rule allows it; inputs and outputs follow from it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tessera/layout/detail/atoms.h"
#include "tessera/layout/detail/factor_cuts.h"
#include "tessera/layout/propagate.h"

namespace tessera::layout::detail {

/// A set of factors; a rule has at most 64.
using FactorSet = std::uint64_t;

/// What an atom does in one input.
struct AtomUse {
  enum class Kind : std::uint8_t { kNothing, kCut, kPartial };
  Kind kind = Kind::kNothing;
  Reduction reduction = Reduction::kSum;  ///< kPartial
  std::int32_t factor = -1;               ///< kCut
  friend bool operator==(const AtomUse&, const AtomUse&) = default;
};

/// A layout of an input over the factors of the rule.
struct FactorLayout {
  std::vector<AtomDim> cuts;  ///< by factor, canonical; those the input lacks are empty
  std::vector<AtomUse> uses;  ///< by atom
};

/// What an atom does in the whole call.
struct AtomRow {
  std::int32_t factor = -1;              ///< that it cuts; -1: none
  SmallVector<std::int32_t, 4> partial;  ///< the inputs that are partial along it, if it cuts nothing
  Reduction kind = Reduction::kSum;      ///< of these inputs
  Reduction out = Reduction::kSum;       ///< of the outputs then
  friend bool operator==(const AtomRow&, const AtomRow&) = default;
};

/// See the head of this file.
struct Assignment {
  std::vector<AtomDim> cuts;  ///< by factor
  std::vector<AtomRow> rows;  ///< by atom
};

/// See the head of this file. Refers to what it was made from.
class Call {
 public:
  /// Refuses shapes that the rule or a layout does not fit, layouts of different meshes, and empty ones.
  Call(const FactorRule& rule, std::span<const Operand> inputs, std::span<const Shape> outputs);

  /// The rule.
  [[nodiscard]] const FactorRule& rule() const { return rule_; }
  /// The inputs as given.
  [[nodiscard]] std::span<const Operand> inputs() const { return inputs_; }
  /// The mesh's parts that do something.
  [[nodiscard]] const Atoms& atoms() const { return atoms_; }
  /// The sizes of the factors.
  [[nodiscard]] std::span<const std::int64_t> sizes() const { return sizes_; }
  /// The factors of an input.
  [[nodiscard]] FactorSet factors_of(std::size_t input) const { return in_inputs_[input]; }
  /// An input over the factors; none where it has no such form.
  [[nodiscard]] const std::optional<FactorLayout>& layout(std::size_t input) const { return layouts_[input]; }
  /// "input 0 {Shard(0)}".
  [[nodiscard]] std::string input_name(std::size_t input) const;

  /// What comes out when exactly these inputs are partial along an atom and the others replicated; none: `why`.
  [[nodiscard]] std::optional<Reduction> flow(std::span<const std::int32_t> partial, Reduction kind,
                                              std::string& why) const;
  /// Whether this factor may be cut so; no: `why`.
  [[nodiscard]] bool may_cut(std::int32_t factor, const AtomDim& cuts, std::string& why) const;

  /// The assignment that the inputs make as they are; none: `why` they do not fit together.
  [[nodiscard]] std::optional<Assignment> match(std::string& why) const;
  /// The layout of an input under an assignment; none: `why`.
  [[nodiscard]] std::optional<AtomLayout> input_under(const Assignment& assignment, std::size_t input,
                                                      std::string& why) const;
  /// The layouts of the outputs under an assignment of allowed cuts; none: `why`.
  [[nodiscard]] std::optional<std::vector<AtomLayout>> outputs_over_atoms(const Assignment& assignment,
                                                                          std::string& why) const;
  /// Likewise, as layouts.
  [[nodiscard]] std::optional<std::vector<Layout>> outputs_under(const Assignment& assignment, std::string& why) const;

 private:
  void read_inputs();
  bool read_over_atoms(AtomSplit& split);
  bool read_input(const AtomLayout& layout, std::size_t input, FactorLayout& out, AtomSplit& split,
                  std::string& why) const;
  [[nodiscard]] bool match_atom(std::int32_t atom, AtomRow& row, std::string& why) const;
  [[nodiscard]] bool match_factor(std::int32_t factor, AtomDim& cuts, std::string& why) const;
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
  std::string unread_;  // why an input has no form over the factors; empty: all have
};

/// The factors of an operand.
FactorSet factor_set(const OperandFactors& dims);

}  // namespace tessera::layout::detail
