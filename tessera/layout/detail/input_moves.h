// One input in the search for fixes: the cost to redistribute it as the rows of all atoms require. The cost of each
// target is computed once, at first as a bound. The table holds, for the uses of the first atoms, the cost of the
// cheapest target that is still possible.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "tessera/layout/detail/fix_choices.h"
#include "tessera/layout/detail/move_bounds.h"
#include "tessera/layout/planner.h"

namespace tessera::layout::detail {

/// Choices of the search: a row for each of the first atoms and, once all atoms have one, a list for each factor.
struct Choice {
  SmallVector<std::uint16_t, 8> rows;
  SmallVector<std::uint16_t, 8> lists;
};

/// A layout to which an input may be redistributed.
struct MoveTarget {
  MoveCost cost;
  bool stays = false;                ///< The input already has this layout.
  bool is_sharp = false;             ///< refine() has improved the bound.
  std::shared_ptr<const Plan> plan;  ///< Null until computed.
};

/// Costs of redistributing one input.
class InputMoves {
 public:
  InputMoves(const FactorCall& call, std::size_t input, const std::vector<std::vector<RowChoice>>& rows, ListPool& pool,
             Planner& planner);

  /// Returns the table index after `place`, one atom further.
  [[nodiscard]] std::uint32_t next(std::uint32_t place, std::size_t atom, std::uint16_t row) const {
    return place * static_cast<std::uint32_t>(uses_[atom].size()) + use_of_row_[atom][row];
  }
  /// Returns the minimum cost from a table index after `depth` atoms. Infinite if no target exists.
  [[nodiscard]] double least(std::size_t depth, std::uint32_t place) const {
    return depth < min_.size() ? min_[depth][place] : 0;
  }

  /// Returns the target of a complete choice, with its known cost.
  const MoveTarget& target(const Choice& choice) { return find(choice); }
  /// Improves the cost of a target: first by a better bound, then by a plan. Without `may_plan`, the cost of the best
  /// known plan, if any, is used as exact. Returns true if a plan was computed.
  bool refine(const Choice& choice, bool may_plan);
  /// Computes a plan for the target, which makes its cost exact.
  const MoveTarget& make_plan(const Choice& choice);
  /// Returns the layout of the target.
  [[nodiscard]] Layout layout(const Choice& choice);

 private:
  MoveTarget& find(const Choice& choice);
  void fill(std::size_t depth, std::uint32_t place, Choice& choice, std::vector<std::uint32_t>& atoms_of);
  double min_of_lists(Choice& choice, const std::vector<std::uint32_t>& atoms_of, std::size_t next_factor);
  [[nodiscard]] bool stays(const Choice& choice) const;
  bool layout_over_atoms(const Choice& choice, AtomLayout& out) const;

  const FactorCall& call_;
  std::size_t input_;
  const std::vector<std::vector<RowChoice>>& rows_;
  ListPool& pool_;
  Planner& planner_;
  std::vector<std::size_t> factors_;
  std::vector<std::vector<AtomUse>> uses_;              // by atom: possible effects of rows on this input
  std::vector<std::vector<std::uint16_t>> use_of_row_;  // by atom and row
  std::vector<std::uint16_t> now_;                      // by factor: current list
  std::vector<std::vector<double>> min_;                // by depth and table index
  MoveBounds bounds_;
  AtomLayout scratch_;
  std::unordered_map<std::u16string, MoveTarget> targets_;
};

}  // namespace tessera::layout::detail
