// Finds the cheapest ways to make the inputs of a call compatible, exactly.
//
// Each atom takes one row: it shards a factor, does nothing, or passes partial values. Then the atoms of
// each factor are ordered. The cost is a sum over the inputs, and an input depends only on the effect of a
// row on itself: each input has a table of the minimum cost of its redistribution given the rows of the
// first atoms. The search is best-first over atoms, with the sum of the tables as its bound. Complete
// choices are queued by the bounds of their redistributions, and a plan is computed only for a choice that
// reaches the top. With more than four atoms a plan may take long, so the number of plans is limited; after
// that, the best plan that communicates once replaces the best plan.
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
  std::vector<Layout> outputs;                     ///< Empty if it is invalid.
  std::vector<std::shared_ptr<const Plan>> moves;  ///< Plan for each input. Null: no redistribution.
  double us = 0;
  std::int64_t nbytes = 0;
  int moved = 0;
  std::string invalid;  ///< Reason why the rule does not allow it. Empty if the rule does.
};

/// Search for fixes of one call. run() may be called once.
class FixSearch {
 public:
  /// With `with_invalid`, the search also finds candidates that the rule does not allow, for explain().
  FixSearch(const FactorCall& call, Planner& planner, bool with_invalid);

  /// Returns the `most` cheapest, ordered by microseconds, then redistributed inputs, then text.
  std::vector<FoundFix> run(std::size_t most);

 private:
  struct FixNode {
    double us = 0;
    std::uint64_t number = 0;
    bool has_lists = false;
    Choice choice;
    SmallVector<std::uint32_t, 4> places;  // in the tables of the inputs
  };
  struct AcceptedFix {
    FoundFix fix;
    Choice choice;
    std::string text;
  };
  static bool is_later(const FixNode& a, const FixNode& b);

  std::vector<AcceptedFix> search(std::size_t most);
  void push(FixNode node);
  void expand(const FixNode& node);
  void choose_lists(FixNode& node, std::size_t factor, const std::vector<std::uint32_t>& atoms_of);
  [[nodiscard]] double cost(const Choice& choice);
  bool refine(const Choice& choice);
  [[nodiscard]] Assignment assignment_of(const Choice& choice) const;
  [[nodiscard]] std::string why_invalid(const Choice& choice, const Assignment& assignment) const;
  [[nodiscard]] FoundFix to_fix(const Choice& choice);

  const FactorCall& call_;
  bool with_invalid_;
  std::vector<std::vector<RowChoice>> rows_;
  ListPool pool_;
  std::vector<InputMoves> inputs_;
  std::vector<FixNode> heap_;
  std::uint64_t numbered_ = 0;
  std::size_t plans_ = 0;      // computed so far during the search
  std::size_t max_plans_ = 0;  // limit of plans_
};

}  // namespace tessera::layout::detail
