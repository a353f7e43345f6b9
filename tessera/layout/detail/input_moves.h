// One input in the search for fixes: what it costs to bring it where the choices of all atoms want it. Targets are
// priced once each, at first by bounds alone. The table says for the uses of the first atoms what the cheapest target
// costs that is still possible.
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

/// What the search has chosen: a row for each of the first atoms, and, when all have one, a list for each factor.
struct Choice {
  SmallVector<std::uint16_t, 8> rows;
  SmallVector<std::uint16_t, 8> lists;
};

/// A layout that an input may be brought to.
struct MoveTarget {
  MoveCost cost;
  bool stays = false;                ///< it is there already
  bool is_sharp = false;             ///< its bound was looked at twice
  std::shared_ptr<const Plan> plan;  ///< where one was made
};

/// See the head of this file.
class InputMoves {
 public:
  InputMoves(const Call& call, std::size_t input, const std::vector<std::vector<RowChoice>>& rows, ListPool& pool,
             Planner& planner);

  /// The place in the table behind `place`, one atom further.
  [[nodiscard]] std::uint32_t next(std::uint32_t place, std::size_t atom, std::uint16_t row) const {
    return place * static_cast<std::uint32_t>(uses_[atom].size()) + use_of_row_[atom][row];
  }
  /// Least cost behind a place after so many atoms; infinite: there is no target.
  [[nodiscard]] double least(std::size_t depth, std::uint32_t place) const {
    return depth < least_.size() ? least_[depth][place] : 0;
  }

  /// The target of a complete choice, with what is known of its cost.
  const MoveTarget& target(const Choice& choice) { return find(choice); }
  /// Brings its cost nearer to the truth: by a better bound, then by a plan. Without `may_plan` the best plan that was
  /// seen is then taken for the best there is, where one was seen. Returns whether a plan was made.
  bool refine(const Choice& choice, bool may_plan);
  /// Makes a plan for it, so that its cost is exact.
  const MoveTarget& make_plan(const Choice& choice);
  /// Its layout.
  [[nodiscard]] Layout layout(const Choice& choice);

 private:
  MoveTarget& find(const Choice& choice);
  void fill(std::size_t depth, std::uint32_t place, Choice& choice, std::vector<std::uint32_t>& atoms_of);
  double least_of_lists(Choice& choice, const std::vector<std::uint32_t>& atoms_of, std::size_t next_factor);
  [[nodiscard]] bool stays(const Choice& choice) const;
  bool layout_over_atoms(const Choice& choice, AtomLayout& out) const;

  const Call& call_;
  std::size_t input_;
  const std::vector<std::vector<RowChoice>>& rows_;
  ListPool& pool_;
  Planner& planner_;
  std::vector<std::size_t> factors_;                    // of the input
  std::vector<std::vector<AtomUse>> uses_;              // by atom: what rows can do to this input
  std::vector<std::vector<std::uint16_t>> use_of_row_;  // by atom and row
  std::vector<std::uint16_t> now_;                      // by factor: the list it has now
  std::vector<std::vector<double>> least_;              // by depth and place
  MoveBounds bounds_;
  AtomLayout scratch_;
  std::unordered_map<std::u16string, MoveTarget> targets_;
};

}  // namespace tessera::layout::detail
