// The states of one search: how the atoms in play stand in the lists of the dimensions, which are still partial as in
// the source, and which are already partial as in the target. Built once for each request; all of its storage is kept
// for the next, so that a search allocates next to nothing.
//
// In play are the atoms that are not partial alike at both ends. Where these make too many states, atoms that both
// layouts treat alike stay as they are (free at both ends first, then common leading cuts): the search is then exact
// among the plans that leave them alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tessera/base/shape.h"
#include "tessera/layout/cost_model.h"
#include "tessera/layout/detail/atoms.h"
#include "tessera/layout/detail/cut_lists.h"

namespace tessera::layout::detail {

/// What is asked.
struct PlanProblem {
  const Atoms& atoms;
  const AtomLayout& from;
  const AtomLayout& to;
  const Shape& shape;
  std::int64_t itemsize;
  std::int64_t budget_nbytes;  ///< 0: the larger part of the two ends
  const CostModel& model;
};

/// What is partial: atoms as in the target, and, by the highest bit, whether those of the source are not yet settled.
using Status = std::uint32_t;
constexpr Status kPending = Status{1} << 31;

/// A state, by reference to its lists: one number for each dimension of the space.
struct PlanState {
  const std::uint16_t* lists = nullptr;
  double numel = 0;  ///< of the largest part
  Status status = 0;
};

/// What a group of atoms costs.
struct GroupCost {
  double ranks = 1;
  double latency_us = 0;   ///< of the slowest
  double us_per_byte = 0;  ///< of the slowest
};

/// See the head of this file.
class PlanSpace {
 public:
  /// Makes it the space of a problem; NotSupported when more atoms differ than a search takes.
  void build(const PlanProblem& problem);

  [[nodiscard]] int dims() const { return dim_count_; }
  [[nodiscard]] int atoms() const { return static_cast<int>(atoms_.size()); }
  [[nodiscard]] const CutList& list(int number) const { return lists_[static_cast<std::size_t>(number)]; }
  /// Whether no atom was left out of play for the sake of fewer states.
  [[nodiscard]] bool has_all_atoms() const { return has_all_atoms_; }
  [[nodiscard]] int list_count() const { return static_cast<int>(lists_.size()); }
  /// Elements of the largest piece of a dimension under a list.
  [[nodiscard]] double extent(int dim, int list) const { return extents_[place(dim, list)]; }
  /// Whether all pieces are of that size.
  [[nodiscard]] bool is_even(int dim, int list) const { return is_even_[place(dim, list)] != 0; }
  [[nodiscard]] const Token& token(int number) const { return tokens_[static_cast<std::size_t>(number)]; }
  [[nodiscard]] int token_count() const { return static_cast<int>(tokens_.size()); }
  /// Whether any list of the space has a cut with blocks or given sizes.
  [[nodiscard]] bool has_special() const { return static_cast<int>(tokens_.size()) > atoms() + 1; }
  /// Whether every state has pieces of one size only.
  [[nodiscard]] bool is_all_even() const { return is_all_even_; }
  [[nodiscard]] const GroupCost& group(Mask atoms) const { return groups_[atoms]; }

  /// All atoms in play.
  [[nodiscard]] Mask all() const { return (Mask{1} << atoms_.size()) - 1; }
  /// Partial in the source and to be settled.
  [[nodiscard]] Mask pending() const { return pending_; }
  /// Partial in the target and not alike in the source; those by sum may come from zero-fill.
  [[nodiscard]] Mask finals() const { return finals_; }
  [[nodiscard]] Mask sum_finals() const { return sum_finals_; }
  /// Whether the target's may be there before the source's are settled.
  [[nodiscard]] bool can_mix() const { return can_mix_; }

  [[nodiscard]] const PlanState& from() const { return from_; }
  [[nodiscard]] const PlanState& to() const { return to_; }
  [[nodiscard]] double itemsize() const { return itemsize_; }
  /// Most elements of a part.
  [[nodiscard]] double most_numel() const { return most_numel_; }
  [[nodiscard]] const CostModel& model() const { return *model_; }

  /// The list of a dimension with this word; 0, the empty one, where there is none.
  [[nodiscard]] int find_list(int dim, std::uint64_t word) const;
  /// How list `b` follows from list `a`; found once, then kept for this problem.
  [[nodiscard]] ListRelation relation(int a, int b) const {
    if (relations_.empty()) return find_relation(a, b);
    ListRelation& known = relations_[static_cast<std::size_t>(a) * lists_.size() + static_cast<std::size_t>(b)];
    if (known.kind == ListRelation::kUnknown) known = find_relation(a, b);
    return known;
  }
  /// Whether the list has a cut with blocks or given sizes, or behind one with blocks, from a place on.
  [[nodiscard]] bool has_special_tail(const CutList& list, int from) const;

  /// Product of the extents of these lists.
  [[nodiscard]] double numel(const std::uint16_t* lists) const;
  /// Lists of a dimension whose atoms are exactly these, and those with special tokens, over any atoms.
  [[nodiscard]] std::span<const std::int16_t> plain_of(Mask mask) const { return plain_->of(mask); }
  [[nodiscard]] std::span<const std::int16_t> special_of(int dim) const {
    return special_[static_cast<std::size_t>(dim)];
  }

  /// A state as a layout over the problem's atoms.
  [[nodiscard]] AtomLayout to_layout(const PlanProblem& problem, const PlanState& state) const;
  /// The problem's atom behind a bit.
  [[nodiscard]] std::int32_t atom(int bit) const { return atoms_[static_cast<std::size_t>(bit)]; }

 private:
  [[nodiscard]] std::size_t place(int dim, int list) const {
    return static_cast<std::size_t>(dim) * lists_.size() + static_cast<std::size_t>(list);
  }
  void choose_atoms(const PlanProblem& problem);
  void choose_dims(const PlanProblem& problem);
  void read_partials(const PlanProblem& problem);
  void read_ends(const PlanProblem& problem);
  void read_words(const AtomLayout& layout, std::vector<std::uint64_t>& words);
  int special_token(int dim, std::size_t place_in_dim, const AtomDim& cuts, std::uint64_t prefix);
  void add_special_lists(int dim);
  [[nodiscard]] ListRelation find_relation(int a, int b) const;
  void compute_extents();
  void compute_groups(const PlanProblem& problem);

  std::vector<std::int32_t> atoms_;   // in play, by bit
  std::vector<std::int16_t> bit_of_;  // by atom; -1: not in play
  std::vector<int> dim_of_;           // the tensor's dimension behind a dimension of the space
  std::vector<int> frozen_cuts_;      // leading cuts of a tensor's dimension that stay
  std::vector<std::int64_t> sizes_;   // of a dimension of the space, behind those cuts
  std::vector<std::uint8_t> frozen_even_;
  int dim_count_ = 0;
  bool has_all_atoms_ = true;

  std::vector<Token> tokens_;  // [0] is none
  const PlainLists* plain_ = nullptr;
  std::vector<CutList> lists_;  // plain ones first
  std::vector<std::vector<std::int16_t>> special_;
  std::vector<double> extents_;
  std::vector<std::int64_t> exact_extents_;  // of the dimension at hand
  std::vector<std::uint8_t> is_even_;
  std::vector<GroupCost> groups_;
  mutable std::vector<ListRelation> relations_;  // by pair of lists; empty: too many, not kept
  bool is_all_even_ = true;

  Mask pending_ = 0;
  Mask finals_ = 0;
  Mask sum_finals_ = 0;
  bool can_mix_ = true;
  std::vector<std::uint64_t> from_words_;
  std::vector<std::uint64_t> to_words_;
  std::vector<std::uint16_t> from_lists_;
  std::vector<std::uint16_t> to_lists_;
  PlanState from_;
  PlanState to_;
  double itemsize_ = 1;
  double most_numel_ = 0;
  const CostModel* model_ = nullptr;
};

}  // namespace tessera::layout::detail
