// Candidates of the search for fixes: the rows of each atom and the lists of splits of each factor.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "tessera/layout/detail/call.h"

namespace tessera::layout::detail {

/// A row of an atom. `refused` is the reason if the rule does not allow the row.
struct RowChoice {
  AtomRow row;
  std::string refused;
};

/// Returns the rows of each atom: no use; each factor that some input has; each way in which the algebra passes partial
/// values of the reductions that some input has along the atom (averages of more than six joint inputs: only as they
/// are). If there are more atoms than a plan supports, atoms that no input uses stay unused. With `with_refused`, the
/// result includes rows that the rule does not allow.
std::vector<std::vector<RowChoice>> row_choices(const FactorCall& call, bool with_refused);

/// Lists of splits by number, for each factor: 0 is the empty list; then the lists of the inputs, with blocks and sizes
/// as they are; then plain splits in every order, created on demand.
class ListPool {
 public:
  explicit ListPool(const FactorCall& call);

  [[nodiscard]] const AtomDim& list(std::size_t factor, std::uint16_t number) const { return lists_[factor][number]; }
  /// Returns all lists of exactly these atoms (by bit).
  const std::vector<std::uint16_t>& of(std::size_t factor, std::uint32_t atoms);
  /// Returns the number of a list that an input has.
  [[nodiscard]] std::uint16_t number_of(std::size_t factor, const AtomDim& shardings) const;

 private:
  std::vector<std::vector<AtomDim>> lists_;
  std::vector<std::size_t> given_;  // by factor: number of lists that are empty or come from inputs
  std::vector<std::unordered_map<std::uint32_t, std::vector<std::uint16_t>>> by_atoms_;
};

}  // namespace tessera::layout::detail
