#include "tessera/layout/detail/fix_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

namespace tessera::layout::detail {
namespace {

constexpr std::size_t kFewAtoms = 4;  // up to this number a plan is fast
constexpr std::size_t kMaxPlans = 16;

}  // namespace

FixSearch::FixSearch(const FactorCall& call, Planner& planner, bool with_invalid)
    : call_(call), with_invalid_(with_invalid), rows_(row_choices(call, with_invalid)), pool_(call) {
  max_plans_ = rows_.size() <= kFewAtoms ? std::numeric_limits<std::size_t>::max() : kMaxPlans;
  inputs_.reserve(call.inputs().size());
  for (std::size_t i = 0; i < call.inputs().size(); ++i) inputs_.emplace_back(call, i, rows_, pool_, planner);
}

// Orders by bound; of equal bounds, the more complete comes first, then the older.
bool FixSearch::is_later(const FixNode& a, const FixNode& b) {
  const std::size_t depth_a = a.choice.rows.size() + (a.has_lists ? 1 : 0);
  const std::size_t depth_b = b.choice.rows.size() + (b.has_lists ? 1 : 0);
  if (a.us != b.us) return a.us > b.us;
  return std::tie(depth_b, a.number) > std::tie(depth_a, b.number);
}

void FixSearch::push(FixNode node) {
  if (std::isinf(node.us)) return;
  node.number = numbered_++;
  heap_.push_back(std::move(node));
  std::push_heap(heap_.begin(), heap_.end(), is_later);
}

void FixSearch::expand(const FixNode& node) {
  const std::size_t atom = node.choice.rows.size();
  if (atom == rows_.size()) {
    FixNode complete = node;
    complete.has_lists = true;
    complete.choice.lists.assign(std::vector<std::uint16_t>(call_.rule().factors.size(), 0));
    std::vector<std::uint32_t> atoms_of(call_.rule().factors.size(), 0);
    for (std::size_t a = 0; a < atom; ++a) {
      const std::int32_t f = rows_[a][node.choice.rows[a]].row.factor;
      if (f >= 0) atoms_of[static_cast<std::size_t>(f)] |= std::uint32_t{1} << a;
    }
    choose_lists(complete, 0, atoms_of);
    return;
  }
  for (std::size_t r = 0; r < rows_[atom].size(); ++r) {
    FixNode next = node;
    next.choice.rows.push_back(static_cast<std::uint16_t>(r));
    next.us = 0;
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      next.places[i] = inputs_[i].next(node.places[i], atom, static_cast<std::uint16_t>(r));
      next.us += inputs_[i].least(atom + 1, next.places[i]);
    }
    push(std::move(next));
  }
}

void FixSearch::choose_lists(FixNode& node, std::size_t factor, const std::vector<std::uint32_t>& atoms_of) {
  if (factor == atoms_of.size()) {
    node.us = cost(node.choice);
    push(node);
    return;
  }
  for (const std::uint16_t list : pool_.of(factor, atoms_of[factor])) {
    node.choice.lists[factor] = list;
    choose_lists(node, factor + 1, atoms_of);
  }
}

double FixSearch::cost(const Choice& choice) {
  double us = 0;
  for (InputMoves& input : inputs_) us += input.target(choice).cost.us;
  return us;
}

// Improves the cost of one input. Returns false if all costs are exact.
bool FixSearch::refine(const Choice& choice) {
  for (InputMoves& input : inputs_) {
    if (input.target(choice).cost.is_exact) continue;
    if (input.refine(choice, plans_ < max_plans_)) ++plans_;
    return true;
  }
  return false;
}

Assignment FixSearch::assignment_of(const Choice& choice) const {
  Assignment out;
  for (std::size_t a = 0; a < rows_.size(); ++a) out.rows.push_back(rows_[a][choice.rows[a]].row);
  for (std::size_t f = 0; f < choice.lists.size(); ++f) out.shardings.push_back(pool_.list(f, choice.lists[f]));
  return out;
}

std::string FixSearch::why_invalid(const Choice& choice, const Assignment& assignment) const {
  std::string why;
  for (std::size_t a = 0; a < rows_.size(); ++a) {
    const RowChoice& each = rows_[a][choice.rows[a]];
    if (!each.refused.empty()) return atom_name(call_.atoms(), static_cast<std::int32_t>(a)) + ": " + each.refused;
  }
  for (std::size_t f = 0; f < assignment.shardings.size(); ++f) {
    if (assignment.shardings[f].shardings.empty()) continue;
    if (!call_.may_shard(static_cast<std::int32_t>(f), assignment.shardings[f], why)) return why;
  }
  static_cast<void>(call_.outputs_over_atoms(assignment, why));
  return why;
}

FoundFix FixSearch::to_fix(const Choice& choice) {
  FoundFix fix;
  const Assignment assignment = assignment_of(choice);
  fix.invalid = why_invalid(choice, assignment);
  for (InputMoves& input : inputs_) {
    const MoveTarget& target = input.target(choice);
    fix.us += target.cost.us;
    fix.moved += target.stays ? 0 : 1;
    fix.inputs.push_back(input.layout(choice));
  }
  if (fix.invalid.empty()) fix.outputs = *call_.outputs_under(assignment, fix.invalid);
  return fix;
}

// Returns all complete choices that may be among the cheapest, ordered by cost.
std::vector<FixSearch::AcceptedFix> FixSearch::search(std::size_t most) {
  std::vector<AcceptedFix> accepted;
  FixNode root;
  for (const InputMoves& input : inputs_) {
    root.places.push_back(0);
    root.us += input.least(0, 0);
  }
  push(root);
  std::size_t valid = 0;
  while (!heap_.empty()) {
    const bool is_enough = accepted.size() >= most && valid > 0;
    if (is_enough && heap_.front().us > accepted[most - 1].fix.us) break;
    std::pop_heap(heap_.begin(), heap_.end(), is_later);
    FixNode node = std::move(heap_.back());
    heap_.pop_back();
    if (!node.has_lists) {
      expand(node);
      continue;
    }
    if (!with_invalid_ && !why_invalid(node.choice, assignment_of(node.choice)).empty()) continue;
    // Another candidate may have computed a plan that this one needs too.
    if (cost(node.choice) > node.us || refine(node.choice)) {
      node.us = cost(node.choice);
      push(std::move(node));
      continue;
    }
    FoundFix fix = to_fix(node.choice);
    const bool is_known =
        std::ranges::any_of(accepted, [&](const AcceptedFix& a) { return a.fix.inputs == fix.inputs; });
    if (is_known) continue;
    if (fix.invalid.empty()) ++valid;
    std::string text;
    for (const Layout& layout : fix.inputs) text += layout.placements_text();
    accepted.push_back({std::move(fix), node.choice, std::move(text)});
  }
  return accepted;
}

std::vector<FoundFix> FixSearch::run(std::size_t most) {
  if (most == 0) return {};
  std::vector<AcceptedFix> accepted = search(most);
  const auto is_before = [](const AcceptedFix& a, const AcceptedFix& b) {
    return std::tie(a.fix.us, a.fix.moved, a.text) < std::tie(b.fix.us, b.fix.moved, b.text);
  };
  std::ranges::stable_sort(accepted, is_before);
  if (accepted.size() > most) accepted.resize(most);
  for (AcceptedFix& each : accepted) {
    each.fix.us = 0;
    for (InputMoves& input : inputs_) {
      const MoveTarget& target = input.make_plan(each.choice);
      each.fix.moves.push_back(target.plan);
      each.fix.us += target.cost.us;
      if (target.plan) each.fix.nbytes += target.plan->nbytes;
    }
  }
  std::ranges::stable_sort(accepted, is_before);  // if a cost was an estimate, the plan may be cheaper
  std::vector<FoundFix> out;
  for (AcceptedFix& each : accepted) out.push_back(std::move(each.fix));
  return out;
}

}  // namespace tessera::layout::detail
