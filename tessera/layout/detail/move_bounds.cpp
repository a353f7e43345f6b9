#include "tessera/layout/detail/move_bounds.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tessera/base/error.h"
#include "tessera/layout/detail/step_cost.h"

namespace tessera::layout::detail {
namespace {

constexpr double kSlack = 16 * kCostGrain;  // costs are rounded to the grain, bounds are not

bool is_plain(const AtomDim& dim) {
  return !dim.sizes &&
         std::ranges::all_of(dim.shardings, [](const AtomSharding& sharding) { return sharding.blocks == 1; });
}

}  // namespace

MoveBounds::MoveBounds(const Atoms& atoms, std::optional<AtomLayout> from, const Shape& shape, std::int64_t itemsize,
                       const CostModel& model)
    : atoms_(atoms), from_(std::move(from)), shape_(shape), itemsize_(itemsize), model_(model) {}

MoveBounds::Ground& MoveBounds::ground_for(const std::vector<std::optional<Reduction>>& partials) {
  for (const auto& known : grounds_) {
    if (known->partials == partials) return *known;
  }
  grounds_.push_back(std::make_unique<Ground>());
  Ground& ground = *grounds_.back();
  ground.partials = partials;
  AtomLayout to;
  to.dims.resize(shape_.size());
  to.partials = partials;
  try {
    ground.space.build({atoms_, *from_, to, shape_, itemsize_, 0, model_});
  } catch (const NotSupported&) {  // too many atoms for a search; a plan may still exist if fewer change
    return ground;
  }
  std::size_t in_play = 0;
  for (std::size_t a = 0; a < partials.size(); ++a) {
    if (!(from_->partials[a] && from_->partials[a] == partials[a])) ++in_play;
  }
  for (std::size_t d = 0; d < shape_.size(); ++d) {
    if (shape_[d] > 1 || !from_->dims[d].shardings.empty()) ground.dims.push_back(static_cast<int>(d));
  }
  const PlanSpace& space = ground.space;
  // some atoms were excluded: states have no numbers
  if (static_cast<std::size_t>(space.atoms()) != in_play) return ground;
  if (static_cast<std::size_t>(space.dims()) != ground.dims.size()) return ground;
  ground.bounds.build(space);
  ground.bit_of.assign(atoms_.list.size(), -1);
  for (int bit = 0; bit < space.atoms(); ++bit) {
    ground.bit_of[static_cast<std::size_t>(space.atom(bit))] = bit;
    const double latency_us = space.group(Mask{1} << bit).latency_us;
    ground.min_latency_us = bit == 0 ? latency_us : std::min(ground.min_latency_us, latency_us);
  }
  for (int i = 0; i < space.list_count(); ++i) {
    if (space.list(i).dim < 0) ground.by_word.emplace(space.list(i).word, static_cast<std::uint16_t>(i));
  }
  ground.is_usable = true;
  return ground;
}

// Finds the state of a layout. Returns false if the space has none.
bool MoveBounds::state_of(const Ground& ground, const AtomLayout& to, Mask& listed) {
  lists_.clear();
  listed = 0;
  for (std::size_t d = 0, next = 0; d < to.dims.size(); ++d) {
    const bool is_there = next < ground.dims.size() && ground.dims[next] == static_cast<int>(d);
    if (!is_there) {
      if (!to.dims[d].shardings.empty()) return false;
      continue;
    }
    if (to.dims[d] == from_->dims[d]) {
      lists_.push_back(ground.space.from().lists[next]);
    } else {
      if (!is_plain(to.dims[d])) return false;
      std::uint64_t word = 0;
      for (std::size_t i = 0; i < to.dims[d].shardings.size(); ++i) {
        const std::int32_t bit = ground.bit_of[static_cast<std::size_t>(to.dims[d].shardings[i].atom)];
        word |= static_cast<std::uint64_t>(bit + 1) << (4 * i);
      }
      const auto found = ground.by_word.find(word);
      if (found == ground.by_word.end()) return false;
      lists_.push_back(found->second);
    }
    listed |= ground.space.list(lists_.back()).mask;
    ++next;
  }
  return true;
}

// Returns the minimum number of old chunks that some new shard intersects; uses the lists of the current state.
double MoveBounds::pieces_met(const PlanSpace& space) const {
  double met = 1;
  for (int d = 0; d < space.dims(); ++d) {
    const int old_list = space.from().lists[d];
    const int new_list = lists_[static_cast<std::size_t>(d)];
    if (old_list == new_list) continue;
    const ShardingList& x = space.list(old_list);
    const ShardingList& y = space.list(new_list);
    if (!space.is_even(d, old_list) || !space.is_even(d, new_list) || x.dim >= 0 || y.dim >= 0) continue;
    const int from = common_prefix(x.word, y.word);
    met *= std::max(1.0, space.group(x.tail(from)).ranks / space.group(y.tail(from)).ranks);
  }
  return met;
}

// Returns the cost of two or more steps beyond the bound of the planner,
// which includes one step, one hop and one more step.
double MoveBounds::hops_beyond(const Ground& ground, double min_step_us) const {
  const double met = pieces_met(ground.space);
  if (met <= 1) return 0;
  double least = 4 * model_.launch_us - min_step_us;  // five or more steps that communicate
  for (int steps = 1; steps <= 4; ++steps) {
    const double hops = steps * (std::pow(met, 1.0 / steps) - 1);
    const double launches = steps == 1 ? 0 : (steps - 1) * model_.launch_us - min_step_us;
    least = std::min(least, std::max(0.0, launches) + std::max(0.0, hops - 1) * ground.min_latency_us);
  }
  return std::max(0.0, least);
}

// Returns the cost of two or more steps that communicate beyond the bound of the planner, which includes one of them,
// and a hop if bytes must move. Such a step may have no hops: a box exchange that only slices, in several dimensions.
double MoveBounds::several_us(const Ground& ground, const LeastCost& least) const {
  const double met = ground.space.pending() == 0 ? pieces_met(ground.space) : 1;
  double more = 4 * model_.launch_us;  // five or more such steps
  for (int steps = 2; steps <= 4; ++steps) {
    const double hops = steps * (std::pow(met, 1.0 / steps) - 1);
    more = std::min(more, (steps - 1) * model_.launch_us + std::max(0.0, hops - 1) * ground.min_latency_us);
  }
  return std::max(least.us, model_.launch_us) + more - kSlack;
}

MoveCost MoveBounds::least(const AtomLayout& to) {
  const MoveCost unknown{std::min(model_.launch_us, model_.copy_launch_us), false};
  if (!from_) return unknown;
  Ground& ground = ground_for(to.partials);
  Mask listed = 0;
  if (!ground.is_usable || !state_of(ground, to, listed)) return unknown;
  const PlanSpace& space = ground.space;
  const PlanState state{lists_.data(), space.numel(lists_.data()), space.to().status};
  const LeastCost least = ground.bounds.from_source(state, listed);
  const double step_us = ground.bounds.min_step_us();
  double us = least.us + (least.steps < 2 ? step_us : 0);
  if (space.pending() == 0 && space.finals() == 0) us += hops_beyond(ground, step_us);
  us = std::max(0.0, us - kSlack);
  StepCost cost;
  if (step_cost(space, space.from(), state, cost) && cost.us <= us) return {cost.us, true};
  return {us, false};
}

// Collects every state whose lists begin with those of the source, with the cost of slicing one dimension at a time.
void MoveBounds::find_sliced(Ground& ground) const {
  const PlanSpace& space = ground.space;
  const auto dims = static_cast<std::size_t>(space.dims());
  const PlanState& from = space.from();
  std::vector<std::uint16_t> start(from.lists, from.lists + dims);
  ground.sliced = {{start, from.numel, 0}};
  Mask taken = space.pending();
  for (const std::uint16_t list : start) taken |= space.list(list).mask;
  for (std::size_t d = 0; d < dims; ++d) {
    const ShardingList& old = space.list(start[d]);
    const std::size_t known = ground.sliced.size();
    for (int l = 0; l < space.list_count(); ++l) {
      const ShardingList& list = space.list(l);
      if (l == start[d] || list.size <= old.size || (list.dim >= 0 && list.dim != static_cast<int>(d))) continue;
      if (old.size > 0 && (list.word ^ old.word) << (64 - 4 * old.size) != 0) continue;
      const Mask added = list.mask & ~old.mask;
      if ((added & taken) != 0) continue;
      for (std::size_t k = 0; k < known; ++k) {
        Mask used = 0;
        for (std::size_t e = 0; e < d; ++e)
          used |= space.list(ground.sliced[k].lists[e]).mask & ~space.list(start[e]).mask;
        if ((used & added) != 0) continue;
        Sliced next = ground.sliced[k];
        next.lists[d] = static_cast<std::uint16_t>(l);
        next.numel = space.numel(next.lists.data());
        ground.sliced.push_back(std::move(next));
      }
    }
  }
  for (Sliced& each : ground.sliced) {
    int count = 0;
    for (std::size_t d = 0; d < dims; ++d) count += each.lists[d] != start[d] ? 1 : 0;
    // The cheapest order of several slices is not computed: each produces at least the final size.
    each.us = std::max(0.0, count * model_.copy_us(each.numel * space.itemsize()) - (count > 0 ? kSlack : 0));
  }
  std::ranges::stable_sort(ground.sliced, {}, &Sliced::us);
}

// Returns a lower bound of the cost of a plan that communicates at most once: slices, a step, slices. Exact if there is
// at most one slice on either side.
double MoveBounds::once_us(Ground& ground, const PlanState& to, double enough) const {
  const PlanSpace& space = ground.space;
  const auto dims = static_cast<std::size_t>(space.dims());
  if (ground.sliced.empty()) find_sliced(ground);
  const double max_numel = std::max(space.from().numel, to.numel);
  const double slice_us = std::max(0.0, model_.copy_us(to.numel * space.itemsize()) - kSlack);
  double best = enough;
  std::vector<std::uint16_t> before(to.lists, to.lists + dims);  // the target without some of its last splits
  StepCost cost;
  const auto try_from = [&](double behind_us) {
    const PlanState state{before.data(), space.numel(before.data()), to.status};
    if (state.numel > max_numel) return;
    for (const Sliced& each : ground.sliced) {
      if (each.us + behind_us >= best) break;
      const PlanState start{each.lists.data(), each.numel, space.from().status};
      if (start.status == state.status && each.lists == before) {
        best = std::min(best, each.us + behind_us);
      } else if (step_cost(space, start, state, cost)) {
        best = std::min(best, each.us + cost.us + behind_us);
      }
    }
  };
  const auto shorten = [&](const auto& self, std::size_t d, double behind_us) -> void {
    if (d == dims) {
      try_from(behind_us);
      return;
    }
    self(self, d + 1, behind_us);
    const std::uint16_t whole = before[d];
    while (space.list(before[d]).size > 0) {
      before[d] = static_cast<std::uint16_t>(space.list(before[d]).parent);
      self(self, d + 1, behind_us + slice_us);
    }
    before[d] = whole;
  };
  shorten(shorten, 0, 0);
  return best;
}

MoveCost MoveBounds::sharpen(const AtomLayout& to) {
  const MoveCost known = least(to);
  if (known.is_exact || !from_) return known;
  Ground& ground = ground_for(to.partials);
  Mask listed = 0;
  if (!ground.is_usable || ground.space.finals() != 0 || !state_of(ground, to, listed)) return known;
  const PlanSpace& space = ground.space;
  const PlanState state{lists_.data(), space.numel(lists_.data()), space.to().status};
  const double several = several_us(ground, ground.bounds.from_source(state, listed));
  StepCost cost;
  const bool is_step = step_cost(space, space.from(), state, cost);
  const double once = once_us(ground, state, is_step ? cost.us : std::numeric_limits<double>::infinity());
  if (is_step && cost.us <= several && once >= cost.us) return {cost.us, true};
  return {std::max(known.us, std::min(several, once)), false, std::isinf(once) ? 0 : once};
}

}  // namespace tessera::layout::detail
