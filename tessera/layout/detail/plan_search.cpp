#include "tessera/layout/detail/plan_search.h"

#include <algorithm>
#include <limits>
#include <tuple>

namespace tessera::layout::detail {
namespace {

bool is_same(const PlanSpace& space, const PlanState& a, const PlanState& b) {
  return a.status == b.status && std::equal(a.lists, a.lists + space.dims(), b.lists);
}

template <class OpenState>
bool is_later(const OpenState& a, const OpenState& b) {
  return std::tie(a.min_us, a.us, a.steps, a.node) > std::tie(b.min_us, b.us, b.steps, b.node);
}

}  // namespace

// Returns the cost of the plan that always exists: reduce in place, exchange, make partial. It is an upper bound.
double PlanSearch::direct_us() {
  const PlanSpace& space = *space_;
  PlanState state = space.from();
  StepCost cost;
  double us = 0;
  if (space.pending() != 0) {
    const PlanState folded{state.lists, state.numel, 0};
    step_cost(space, state, folded, cost);
    us += cost.us;
    state = folded;
  }
  const PlanState moved{space.to().lists, space.to().numel, 0};
  if (step_cost(space, state, moved, cost)) us += cost.us;
  if (step_cost(space, moved, space.to(), cost)) us += cost.us;
  return us;
}

void PlanSearch::keep(Status status, Mask listed, double numel) {
  if (numel > space_->max_numel()) return;
  const PlanState state{current_.data(), numel, status};
  const LeastCost to = bounds_.to_target(state);
  if (to.us > ceiling()) return;
  const LeastCost from = bounds_.from_source(state, listed);
  if (from.us + to.us > ceiling()) return;
  PlanNode node;
  node.state = {nullptr, numel, status};
  // Not included in the bounds: a path of more steps than they pay for.
  node.min_to = to.us + (to.steps < 2 ? bounds_.min_step_us() : 0);
  node.min_from = from.us + (from.steps < 2 ? bounds_.min_step_us() : 0);
  nodes_.push_back(node);
  list_store_.insert(list_store_.end(), current_.begin(), current_.end());
}

void PlanSearch::place_dim(int dim, Status status, Mask free, Mask listed, double numel) {
  if (dim == space_->dims()) {
    keep(status, listed, numel);
    return;
  }
  const auto with = [&](int list) {
    const Mask mask = space_->list(list).mask;
    current_[static_cast<std::size_t>(dim)] = static_cast<std::uint16_t>(list);
    place_dim(dim + 1, status, free & ~mask, listed | mask, numel * space_->extent(dim, list));
  };
  for (Mask mask = free;; mask = (mask - 1) & free) {
    for (const std::int16_t list : space_->plain_of(mask)) with(list);
    if (mask == 0) break;
  }
  for (const std::int16_t list : space_->special_of(dim)) {
    if ((space_->list(list).mask & ~free) == 0) with(list);
  }
}

void PlanSearch::enumerate(Status status, Mask free) {
  current_.assign(static_cast<std::size_t>(space_->dims()), 0);
  place_dim(0, status, free, 0, 1);
}

// Computes the exact cost of one step from each end, which often beats the direct plan and improves the bounds.
void PlanSearch::sharpen() {
  const auto dims = static_cast<std::size_t>(space_->dims());
  const PlanState& from = space_->from();
  const PlanState& to = space_->to();
  StepCost cost;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    PlanNode& node = nodes_[i];
    node.state.lists = list_store_.data() + i * dims;
    double first = std::numeric_limits<double>::infinity();
    double last = first;
    if (is_same(*space_, node.state, from))
      first = node.min_from = 0;
    else if (step_cost(*space_, from, node.state, cost))
      first = cost.us;
    if (is_same(*space_, node.state, to))
      last = node.min_to = 0;
    else if (step_cost(*space_, node.state, to, cost))
      last = cost.us;
    best_us_ = std::min(best_us_, first + last);
    node.min_from = std::min(node.min_from, first);
    node.min_to = std::min(node.min_to, last);
  }
  std::erase_if(nodes_, [&](const PlanNode& node) { return node.min_from + node.min_to > ceiling(); });
  // Sorts by remaining cost, so that a scan may stop at the first state that is too far. Lists break ties, so that the
  // order depends only on the problem.
  std::sort(nodes_.begin(), nodes_.end(), [&](const PlanNode& a, const PlanNode& b) {
    if (a.min_to != b.min_to) return a.min_to < b.min_to;
    if (a.state.status != b.state.status) return a.state.status < b.state.status;
    return std::lexicographical_compare(a.state.lists, a.state.lists + dims, b.state.lists, b.state.lists + dims);
  });
}

void PlanSearch::open(std::size_t index) {
  const PlanNode& node = nodes_[index];
  open_.push_back({node.us + node.min_to, node.us, node.steps, static_cast<std::uint32_t>(index)});
  std::push_heap(open_.begin(), open_.end(), is_later<OpenState>);
}

bool PlanSearch::pop_next(std::size_t& index) {
  while (!open_.empty()) {
    std::pop_heap(open_.begin(), open_.end(), is_later<OpenState>);
    const OpenState next = open_.back();
    open_.pop_back();
    if (next.min_us > ceiling()) return false;
    const PlanNode& node = nodes_[next.node];
    if (node.us != next.us || node.steps != next.steps || next.node == target_) continue;
    index = next.node;
    return true;
  }
  return false;
}

void PlanSearch::relax_from(std::size_t index) {
  const PlanNode from = nodes_[index];
  const double least = from.us + bounds_.min_step_us();
  StepCost cost;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    PlanNode& node = nodes_[i];
    if (least + node.min_to > ceiling()) break;
    if (node.is_reached && least > node.us) continue;
    const double most = std::min(ceiling() - node.min_to, node.is_reached ? node.us + kCostGrain : ceiling()) - from.us;
    ++costed_;
    if (!step_cost(*space_, from.state, node.state, cost, most)) continue;
    const double us = from.us + cost.us;
    if (us + node.min_to > ceiling()) continue;
    const std::int32_t steps = from.steps + 1;
    if (node.is_reached &&
        std::tie(us, steps, cost.kind, cost.axes) >= std::tie(node.us, node.steps, node.kind, node.axes)) {
      continue;
    }
    node.us = us;
    node.steps = steps;
    node.before = static_cast<std::int32_t>(index);
    node.kind = cost.kind;
    node.axes = cost.axes;
    node.is_reached = true;
    if (i == target_) best_us_ = std::min(best_us_, us);
    open(i);
  }
}

const std::vector<PathStep>& PlanSearch::run(const PlanSpace& space) {
  space_ = &space;
  path_.clear();
  nodes_.clear();
  costed_ = 0;
  is_exact_ = true;
  list_store_.clear();
  if (is_same(space, space.from(), space.to())) return path_;
  bounds_.build(space);
  best_us_ = direct_us();
  for (Mask finals = space.finals();; finals = (finals - 1) & space.finals()) {
    if (space.pending() != 0 && (finals == 0 || (space.can_mix() && (finals & space.pending()) == 0)))
      enumerate(finals | kPending, space.all() & ~space.pending() & ~finals);
    enumerate(finals, space.all() & ~finals);
    if (finals == 0) break;
  }
  sharpen();
  open_.clear();
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (is_same(space, nodes_[i].state, space.to())) target_ = i;
    if (!is_same(space, nodes_[i].state, space.from())) continue;
    nodes_[i].is_reached = true;
    open(i);
  }
  for (std::size_t i = 0; is_exact_ && pop_next(i);) {
    relax_from(i);
    if (costed_ > kMaxCosted && nodes_[target_].is_reached) is_exact_ = false;
  }
  for (auto i = static_cast<std::int32_t>(target_); nodes_[static_cast<std::size_t>(i)].before >= 0;) {
    const PlanNode& node = nodes_[static_cast<std::size_t>(i)];
    PathStep step{{}, node.state};
    step_cost(space, nodes_[static_cast<std::size_t>(node.before)].state, node.state, step.cost);
    path_.push_back(step);
    i = node.before;
  }
  std::reverse(path_.begin(), path_.end());
  return path_;
}

}  // namespace tessera::layout::detail
