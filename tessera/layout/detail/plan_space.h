// The states of one search: the position of the atoms in play in the lists of the dimensions, the atoms that are still
// partial as in the source, and those already partial as in the target. The space is rebuilt for each request and
// reuses its storage, so a search allocates almost nothing.
//
// The atoms in play are those that are not partial in the same way in source and target. If they make too many states,
// atoms that both layouts use in the same way are excluded (first those unused in both, then common leading splits).
// The search is then exact among the plans that do not change them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tessera/base/shape.h"
#include "tessera/layout/cost_model.h"
#include "tessera/layout/detail/atoms.h"
#include "tessera/layout/detail/sharding_lists.h"

namespace tessera::layout::detail {

/// Input of a search.
struct PlanProblem {
  const Atoms& atoms;
  const AtomLayout& from;
  const AtomLayout& to;
  const Shape& shape;
  std::int64_t itemsize;
  std::int64_t budget_nbytes;  ///< 0: the larger of the source and target shards.
  const CostModel& model;
};

/// Partial axes: bits of the atoms that are partial as in the target; the highest bit is
/// set until the partial axes of the source are reduced.
using Status = std::uint32_t;
constexpr Status kPending = Status{1} << 31;

/// A state, with references to its lists: one number per dimension of the space.
struct PlanState {
  const std::uint16_t* lists = nullptr;
  double numel = 0;  ///< Elements of the largest shard.
  Status status = 0;
};

/// Cost parameters of a group of atoms.
struct GroupCost {
  double ranks = 1;
  double latency_us = 0;   ///< Of the slowest axis.
  double us_per_byte = 0;  ///< Of the slowest axis.
};

/// The states of one problem, with precomputed lists, extents and costs.
class PlanSpace {
 public:
  /// Rebuilds the space for a problem. Throws NotSupported if more atoms differ than a search supports.
  void build(const PlanProblem& problem);

  [[nodiscard]] int dims() const { return dim_count_; }
  [[nodiscard]] int atoms() const { return static_cast<int>(atoms_.size()); }
  [[nodiscard]] const ShardingList& list(int number) const { return lists_[static_cast<std::size_t>(number)]; }
  /// Returns true if no atom was excluded to reduce the number of states.
  [[nodiscard]] bool has_all_atoms() const { return has_all_atoms_; }
  [[nodiscard]] int list_count() const { return static_cast<int>(lists_.size()); }
  /// Returns the elements of the largest chunk of a dimension under a list.
  [[nodiscard]] double extent(int dim, int list) const { return extents_[place(dim, list)]; }
  /// Returns true if all chunks have that size.
  [[nodiscard]] bool is_even(int dim, int list) const { return is_even_[place(dim, list)] != 0; }
  [[nodiscard]] const Token& token(int number) const { return tokens_[static_cast<std::size_t>(number)]; }
  [[nodiscard]] int token_count() const { return static_cast<int>(tokens_.size()); }
  /// Returns true if any list of the space has a split with blocks or explicit sizes.
  [[nodiscard]] bool has_special() const { return static_cast<int>(tokens_.size()) > atoms() + 1; }
  /// Returns true if all chunks of every state have equal sizes.
  [[nodiscard]] bool is_all_even() const { return is_all_even_; }
  [[nodiscard]] const GroupCost& group(Mask atoms) const { return groups_[atoms]; }

  /// Returns all atoms in play.
  [[nodiscard]] Mask all() const { return (Mask{1} << atoms_.size()) - 1; }
  /// Returns the atoms that are partial in the source and must be reduced.
  [[nodiscard]] Mask pending() const { return pending_; }
  /// Returns the atoms that are partial in the target but not in the same way in
  /// the source. Zero-fill can produce those with sum.
  [[nodiscard]] Mask finals() const { return finals_; }
  [[nodiscard]] Mask sum_finals() const { return sum_finals_; }
  /// Returns true if partial axes of the target may exist before those of the source are reduced.
  [[nodiscard]] bool can_mix() const { return can_mix_; }

  [[nodiscard]] const PlanState& from() const { return from_; }
  [[nodiscard]] const PlanState& to() const { return to_; }
  [[nodiscard]] double itemsize() const { return itemsize_; }
  /// Returns the maximum number of elements of a shard.
  [[nodiscard]] double max_numel() const { return max_numel_; }
  [[nodiscard]] const CostModel& model() const { return *model_; }

  /// Returns the list of a dimension with this word, or 0, the empty list, if no such list exists.
  [[nodiscard]] int find_list(int dim, std::uint64_t word) const;
  /// Returns the relation of list `b` to list `a`. Cached per problem.
  [[nodiscard]] ListRelation relation(int a, int b) const {
    if (relations_.empty()) return find_relation(a, b);
    ListRelation& known = relations_[static_cast<std::size_t>(a) * lists_.size() + static_cast<std::size_t>(b)];
    if (known.kind == ListRelation::kUnknown) known = find_relation(a, b);
    return known;
  }
  /// Returns true if the list has, from index `from`, a split with blocks or explicit sizes or after one with blocks.
  [[nodiscard]] bool has_special_tail(const ShardingList& list, int from) const;

  /// Returns the product of the extents of these lists.
  [[nodiscard]] double numel(const std::uint16_t* lists) const;
  /// Returns the plain lists with exactly these atoms. special_of() returns
  /// the lists with special tokens over any atoms.
  [[nodiscard]] std::span<const std::int16_t> plain_of(Mask mask) const { return plain_->of(mask); }
  [[nodiscard]] std::span<const std::int16_t> special_of(int dim) const {
    return special_[static_cast<std::size_t>(dim)];
  }

  /// Returns a state as a layout over the atoms of the problem.
  [[nodiscard]] AtomLayout to_layout(const PlanProblem& problem, const PlanState& state) const;
  /// Returns the atom of the problem for a bit.
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
  int special_token(int dim, std::size_t place_in_dim, const AtomDim& shardings, std::uint64_t prefix);
  void add_special_lists(int dim);
  [[nodiscard]] ListRelation find_relation(int a, int b) const;
  void compute_extents();
  void compute_groups(const PlanProblem& problem);

  std::vector<std::int32_t> atoms_;    // in play, by bit
  std::vector<std::int16_t> bit_of_;   // by atom; -1: not in play
  std::vector<int> dim_of_;            // dimension of the tensor for a dimension of the space
  std::vector<int> frozen_shardings_;  // leading splits of a dimension of the tensor that stay
  std::vector<std::int64_t> sizes_;    // of a dimension of the space, after those splits
  std::vector<std::uint8_t> frozen_even_;
  int dim_count_ = 0;
  bool has_all_atoms_ = true;

  std::vector<Token> tokens_;  // [0] is unused
  const PlainLists* plain_ = nullptr;
  std::vector<ShardingList> lists_;  // plain lists first
  std::vector<std::vector<std::int16_t>> special_;
  std::vector<double> extents_;
  std::vector<std::int64_t> exact_extents_;  // of the current dimension
  std::vector<std::uint8_t> is_even_;
  std::vector<GroupCost> groups_;
  mutable std::vector<ListRelation> relations_;  // by pair of lists; empty if there are too many to cache
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
  double max_numel_ = 0;
  const CostModel* model_ = nullptr;
};

}  // namespace tessera::layout::detail
