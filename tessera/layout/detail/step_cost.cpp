#include "tessera/layout/detail/step_cost.h"

#include <algorithm>
#include <cmath>

namespace tessera::layout::detail {
namespace {

// Relation of the lists of all dimensions of two states.
struct Relation {
  int grown = 0;      // dimensions whose list was extended
  int shrunk = 0;     // dimensions whose list lost its last splits
  int apart = 0;      // dimensions whose lists diverge
  int grown_dim = 0;  // the last of each
  int shrunk_dim = 0;
  int grown_at = 0;  // length of the common prefix there
  int shrunk_at = 0;
  Mask grown_atoms = 0;  // in all tails
  Mask shrunk_atoms = 0;
  Mask axes = 0;
  double kept = 1;  // elements of the new shard that each rank holds already
  double met = 1;   // old chunks that a new chunk intersects
  bool has_same_pieces = true;
};

Relation relate(const PlanSpace& space, const PlanState& a, const PlanState& b) {
  Relation relation;
  Mask axes = 0;
  for (int d = 0; d < space.dims(); ++d) {
    const int x = a.lists[d];
    const int y = b.lists[d];
    const double new_extent = space.extent(d, y);
    if (x == y) {
      relation.kept *= new_extent;
      continue;
    }
    const ListRelation lists = space.relation(x, y);
    axes |= lists.axes;
    if (lists.kind == ListRelation::kGrown) {
      ++relation.grown;
      relation.grown_dim = d;
      relation.grown_at = lists.from;
      relation.grown_atoms |= lists.axes;
      relation.kept *= new_extent;
    } else if (lists.kind == ListRelation::kShrunk) {
      ++relation.shrunk;
      relation.shrunk_dim = d;
      relation.shrunk_at = lists.from;
      relation.shrunk_atoms |= lists.axes;
      // The rank with the smallest chunk has at least the remainder after all others, counted as large as the largest.
      relation.kept *= std::max(0.0, new_extent - space.extent(d, x) * (lists.pieces - 1));
      relation.met *= lists.pieces;
    } else {
      ++relation.apart;
      relation.kept = 0;
      relation.met *= lists.pieces;
      relation.has_same_pieces =
          relation.has_same_pieces &&
          (lists.has_same_sequence || (lists.has_same_product && space.is_even(d, x) && space.is_even(d, y)));
    }
  }
  relation.axes = axes;
  return relation;
}

// Returns true if chunks along this dimension are adjacent in memory, for a tail of plain, even splits.
bool is_outermost(const PlanSpace& space, const PlanState& state, int dim) {
  for (int d = 0; d < dim; ++d) {
    if (space.extent(d, state.lists[d]) > 1) return false;
  }
  return true;
}

bool needs_no_copy(const PlanSpace& space, const PlanState& whole, int dim, int sharding_list, int from) {
  return space.is_even(dim, sharding_list) && is_outermost(space, whole, dim) &&
         !space.has_special_tail(space.list(sharding_list), from);
}

double on_grain(double us) {
  constexpr double kRound = 0x1.8p32;  // adding it removes the bits below the grain
  return us < 0x1p31 ? (us + kRound) - kRound : us;
}

// Takes the step if it is cheaper than the best so far; kinds are offered in their order.
void offer(const PlanSpace& space, StepCost step, StepCost& best, bool& is_found) {
  const CostModel& model = space.model();
  step.nbytes *= space.itemsize();
  step.copy_nbytes *= space.itemsize();
  double us = 0;
  const bool is_local = !communicates(step.kind);
  if (!is_local) {
    const GroupCost& group = space.group(step.axes);
    us = model.launch_us + step.hops * group.latency_us + step.nbytes * group.us_per_byte;
  }
  if (is_local || step.copy_nbytes > 0) us += model.copy_us(step.copy_nbytes);
  step.us = on_grain(us);
  if (is_found && step.us >= best.us) return;
  best = step;
  is_found = true;
}

bool same_atoms(const PlanSpace& space, std::uint64_t a, std::uint64_t b) {
  for (; a != 0 && b != 0; a >>= 4, b >>= 4) {
    if (space.token(token_at(a, 0)).bit != space.token(token_at(b, 0)).bit) return false;
  }
  return a == b;  // both ended
}

bool cost_of_move(const PlanSpace& space, const PlanState& a, const PlanState& b, StepCost& best, double limit_us) {
  const Relation relation = relate(space, a, b);
  if (relation.axes == 0) return false;
  bool is_found = false;
  const double received = b.numel - relation.kept;  // minimum over all kinds of steps
  if (relation.apart + relation.shrunk > 0 &&
      received * space.itemsize() * space.group(relation.axes).us_per_byte > limit_us)
    return false;
  const double ranks = space.group(relation.axes).ranks;
  if (relation.apart == 0 && relation.shrunk == 1 && relation.grown == 0) {
    const int d = relation.shrunk_dim;
    const bool is_free = needs_no_copy(space, b, d, a.lists[d], relation.shrunk_at);
    offer(space, {StepKind::kAllGather, relation.axes, ranks - 1, (ranks - 1) * a.numel, is_free ? 0 : b.numel, 0},
          best, is_found);
  }
  if (relation.apart == 0 && relation.shrunk == 0 && relation.grown == 1)
    offer(space, {StepKind::kSlice, relation.axes, 0, 0, b.numel, 0}, best, is_found);
  if (relation.apart == 0 && relation.shrunk == 1 && relation.grown == 1 &&
      relation.grown_atoms == relation.shrunk_atoms) {
    const int source = relation.shrunk_dim;
    const int target = relation.grown_dim;
    if (same_atoms(space, space.list(a.lists[source]).word >> (4 * relation.shrunk_at),
                   space.list(b.lists[target]).word >> (4 * relation.grown_at))) {
      const double message = a.numel / space.extent(target, a.lists[target]) * space.extent(target, b.lists[target]);
      double copies = 0;
      if (!needs_no_copy(space, a, target, b.lists[target], relation.grown_at)) copies += a.numel;
      if (!needs_no_copy(space, b, source, a.lists[source], relation.shrunk_at)) copies += b.numel;
      offer(space,
            {StepKind::kAllToAll, relation.axes, ranks - 1, (ranks - 1) * (a.numel > 0 ? message : 0), copies, 0}, best,
            is_found);
    }
  }
  if (relation.grown == 0 && relation.shrunk == 0 && relation.has_same_pieces)
    offer(space, {StepKind::kPermute, relation.axes, 1, b.numel, 0, 0}, best, is_found);
  const double peers = relation.met - (relation.kept > 0 ? 1 : 0);
  offer(space, {StepKind::kBoxExchange, relation.axes, peers, received, received + b.numel, 0}, best, is_found);
  return is_found;
}

bool cost_of_fold(const PlanSpace& space, const PlanState& a, const PlanState& b, StepCost& best) {
  const Mask atoms = space.pending();
  const double ranks = space.group(atoms).ranks;
  bool is_found = false;
  if (std::equal(a.lists, a.lists + space.dims(), b.lists)) {
    const double share = std::ceil(a.numel / ranks);
    offer(space, {StepKind::kAllReduce, atoms, 2 * (ranks - 1), 2 * (ranks - 1) * share, 0, 0}, best, is_found);
    return true;
  }
  const Relation relation = relate(space, a, b);
  if (relation.apart != 0 || relation.shrunk != 0 || relation.grown_atoms != atoms) return false;
  const int d = relation.grown_dim;
  const bool is_free = relation.grown == 1 && needs_no_copy(space, a, d, b.lists[d], relation.grown_at);
  offer(space, {StepKind::kReduceScatter, atoms, ranks - 1, (ranks - 1) * b.numel, is_free ? 0 : a.numel, 0}, best,
        is_found);
  return is_found;
}

bool cost_of_partial(const PlanSpace& space, const PlanState& a, const PlanState& b, StepCost& best) {
  const Mask made = b.status & ~a.status;
  bool is_found = false;
  if (std::equal(a.lists, a.lists + space.dims(), b.lists)) {
    offer(space, {StepKind::kPartition, made, 0, 0, b.numel, 0}, best, is_found);
    return true;
  }
  if ((made & ~space.sum_finals()) != 0) return false;
  const Relation relation = relate(space, a, b);
  if (relation.apart != 0 || relation.grown != 0 || relation.shrunk != 1 || relation.shrunk_atoms != made) return false;
  offer(space, {StepKind::kZeroFill, made, 0, 0, b.numel, 0}, best, is_found);
  return is_found;
}

}  // namespace

bool step_cost(const PlanSpace& space, const PlanState& a, const PlanState& b, StepCost& cost, double limit_us) {
  if (a.status == b.status) return cost_of_move(space, a, b, cost, limit_us);
  const Status changed = a.status ^ b.status;
  if (changed == kPending && (a.status & kPending) != 0) return cost_of_fold(space, a, b, cost);
  if ((changed & kPending) == 0 && (a.status & changed) == 0) return cost_of_partial(space, a, b, cost);
  return false;
}

double lacking_numel(const PlanSpace& space, const PlanState& a, const PlanState& b) {
  return b.numel - relate(space, a, b).kept;
}

}  // namespace tessera::layout::detail
