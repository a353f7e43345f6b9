// The cheapest ways to make the inputs of a call fit together, exactly.
//
// Every atom takes one row: it cuts a factor, does nothing, or carries partial values through. Then the atoms of each
// factor are put in some order. What this costs is a sum over inputs, and an input sees of a row only what it does to
// itself: each has a table of what its move costs at least once the first atoms are settled. The search is best-first
// over atoms, with the sum of the tables as its bound; complete choices are kept by the bounds of their moves, and a
// plan is made only for one that has come to the top. With more than four atoms a plan may take long, so that only so
// many are made to choose by; from there on the best plan that communicates once stands for the best plan.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tessera/layout/detail/call.h"
#include "tessera/layout/detail/fix_choices.h"
#include "tessera/layout/detail/input_moves.h"
#include "tessera/layout/planner.h"

namespace tessera::layout::detail {

/// A way to run the call.
struct FoundFix {
  std::vector<Layout> inputs;
  std::vector<Layout> outputs;                     ///< none where it is invalid
  std::vector<std::shared_ptr<const Plan>> moves;  ///< of each input; null: it stays
  double us = 0;
  std::int64_t nbytes = 0;
  int moved = 0;
  std::string invalid;  ///< why the rule does not allow it; empty: it does
};

/// See the head of this file. Used once.
class FixSearch {
 public:
  /// `with_invalid`: candidates that the rule does not allow are found as well, for people.
  FixSearch(const Call& call, Planner& planner, bool with_invalid);

  /// The `most` cheapest, in order: microseconds, inputs moved, text.
  std::vector<FoundFix> run(std::size_t most);

 private:
  struct Node {
    double us = 0;
    std::uint64_t number = 0;
    bool has_lists = false;
    Choice choice;
    SmallVector<std::uint32_t, 4> places;  // in the inputs' tables
  };
  struct Accepted {
    FoundFix fix;
    Choice choice;
    std::string text;
  };
  static bool is_later(const Node& a, const Node& b);

  std::vector<Accepted> search(std::size_t most);
  void push(Node node);
  void expand(const Node& node);
  void choose_lists(Node& node, std::size_t factor, const std::vector<std::uint32_t>& atoms_of);
  [[nodiscard]] double price(const Choice& choice);
  bool refine(const Choice& choice);
  [[nodiscard]] Assignment assignment_of(const Choice& choice) const;
  [[nodiscard]] std::string why_invalid(const Choice& choice, const Assignment& assignment) const;
  [[nodiscard]] FoundFix to_fix(const Choice& choice);

  const Call& call_;
  bool with_invalid_;
  std::vector<std::vector<RowChoice>> rows_;
  ListPool pool_;
  std::vector<InputMoves> inputs_;
  std::vector<Node> heap_;
  std::uint64_t numbered_ = 0;
  std::size_t plans_ = 0;       // made so far, to choose by
  std::size_t most_plans_ = 0;  // to be made
};

}  // namespace tessera::layout::detail
