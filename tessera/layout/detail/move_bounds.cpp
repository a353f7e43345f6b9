#include "tessera/layout/detail/move_bounds.h"

#include <algorithm>
#include <cmath>

#include "tessera/base/error.h"
#include "tessera/layout/detail/step_price.h"

namespace tessera::layout::detail {
namespace {

constexpr double kSlack = 16 * kPriceGrain;  // prices are rounded to the grain, bounds are not

bool is_plain(const AtomDim& dim) {
  return !dim.sizes && std::ranges::all_of(dim.cuts, [](const AtomCut& cut) { return cut.blocks == 1; });
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
  } catch (const NotSupported&) {  // more atoms than a search takes; a plan may still exist, when fewer change
    return ground;
  }
  std::size_t in_play = 0;
  for (std::size_t a = 0; a < partials.size(); ++a) {
    if (!(from_->partials[a] && from_->partials[a] == partials[a])) ++in_play;
  }
  for (std::size_t d = 0; d < shape_.size(); ++d) {
    if (shape_[d] > 1 || !from_->dims[d].cuts.empty()) ground.dims.push_back(static_cast<int>(d));
  }
  const PlanSpace& space = ground.space;
  if (static_cast<std::size_t>(space.atoms()) != in_play) return ground;  // some were left out: states have no numbers
  if (static_cast<std::size_t>(space.dims()) != ground.dims.size()) return ground;
  ground.bounds.build(space);
  ground.bit_of.assign(atoms_.list.size(), -1);
  for (int bit = 0; bit < space.atoms(); ++bit) {
    ground.bit_of[static_cast<std::size_t>(space.atom(bit))] = static_cast<std::int8_t>(bit);
    const double latency_us = space.group(Mask{1} << bit).latency_us;
    ground.least_latency_us = bit == 0 ? latency_us : std::min(ground.least_latency_us, latency_us);
  }
  for (int i = 0; i < space.list_count(); ++i) {
    if (space.list(i).dim < 0) ground.by_word.emplace(space.list(i).word, static_cast<std::uint16_t>(i));
  }
  ground.is_usable = true;
  return ground;
}

// Finds the state of a layout; false: the space has none.
bool MoveBounds::state_of(const Ground& ground, const AtomLayout& to, Mask& listed) {
  lists_.clear();
  listed = 0;
  for (std::size_t d = 0, next = 0; d < to.dims.size(); ++d) {
    const bool is_there = next < ground.dims.size() && ground.dims[next] == static_cast<int>(d);
    if (!is_there) {
      if (!to.dims[d].cuts.empty()) return false;
      continue;
    }
    if (to.dims[d] == from_->dims[d]) {
      lists_.push_back(ground.space.from().lists[next]);
    } else {
      if (!is_plain(to.dims[d])) return false;
      std::uint64_t word = 0;
      for (std::size_t i = 0; i < to.dims[d].cuts.size(); ++i) {
        const int bit = ground.bit_of[static_cast<std::size_t>(to.dims[d].cuts[i].atom)];
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

// What two or more steps cost beyond the planner's bound, which pays for one step, one hop and one more step.
double MoveBounds::hops_beyond(const Ground& ground, double least_step_us) const {
  const PlanSpace& space = ground.space;
  double met = 1;
  for (int d = 0; d < space.dims(); ++d) {
    const int old_list = space.from().lists[d];
    const int new_list = lists_[static_cast<std::size_t>(d)];
    if (old_list == new_list) continue;
    const CutList& x = space.list(old_list);
    const CutList& y = space.list(new_list);
    const int from = common_prefix(x.word, y.word);
    if (!space.is_even(d, old_list) || !space.is_even(d, new_list) || x.dim >= 0 || y.dim >= 0) continue;
    met *= std::max(1.0, space.group(x.tail(from)).ranks / space.group(y.tail(from)).ranks);
  }
  if (met <= 1) return 0;
  double least = 4 * model_.launch_us - least_step_us;  // five steps that communicate, or more
  for (int steps = 1; steps <= 4; ++steps) {
    const double hops = steps * (std::pow(met, 1.0 / steps) - 1);
    const double launches = steps == 1 ? 0 : (steps - 1) * model_.launch_us - least_step_us;
    least = std::min(least, std::max(0.0, launches) + std::max(0.0, hops - 1) * ground.least_latency_us);
  }
  return std::max(0.0, least);
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
  const double step_us = ground.bounds.least_step_us();
  double us = least.us + (least.steps < 2 ? step_us : 0);
  const bool only_moves = space.pending() == 0 && space.finals() == 0;
  if (only_moves) us += hops_beyond(ground, step_us);
  us = std::max(0.0, us - kSlack);
  StepPrice price;
  if (price_step(space, space.from(), state, price) && price.us <= us) return {price.us, true};
  return {us, false};
}

}  // namespace tessera::layout::detail
