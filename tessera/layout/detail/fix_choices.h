// What the search for fixes chooses from: the rows of every atom, and the lists of cuts of every factor.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "tessera/layout/detail/call.h"

namespace tessera::layout::detail {

/// A row of an atom, and why the rule does not allow it where it does not.
struct RowChoice {
  AtomRow row;
  std::string refused;
};

/// The rows of each atom: nothing; each factor that some input has; every way in which the algebra lets partial values
/// through of the kinds that some input has along the atom (averages of more than six joint inputs: only as they
/// stand). Where more atoms are there than a plan takes, those that no input uses stay out of it. `with_refused`: rows
/// that the rule does not allow are among them.
std::vector<std::vector<RowChoice>> row_choices(const Call& call, bool with_refused);

/// Lists of cuts by number, for each factor: 0 is none; then those that inputs have now, with blocks and sizes as they
/// are; then plain cuts in every order, made when they are asked for.
class ListPool {
 public:
  explicit ListPool(const Call& call);

  /// A list of a factor.
  [[nodiscard]] const AtomDim& list(std::size_t factor, std::uint16_t number) const { return lists_[factor][number]; }
  /// All lists of exactly these atoms (by bit).
  const std::vector<std::uint16_t>& of(std::size_t factor, std::uint32_t atoms);
  /// The number of a list that an input has now.
  [[nodiscard]] std::uint16_t number_of(std::size_t factor, const AtomDim& cuts) const;

 private:
  std::vector<std::vector<AtomDim>> lists_;
  std::vector<std::size_t> given_;  // by factor: how many are none or come from inputs
  std::vector<std::unordered_map<std::uint32_t, std::vector<std::uint16_t>>> by_atoms_;
};

}  // namespace tessera::layout::detail
