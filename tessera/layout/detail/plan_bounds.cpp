#include "tessera/layout/detail/plan_bounds.h"

#include <algorithm>

namespace tessera::layout::detail {
namespace {

constexpr std::size_t kMaxLevels = kMaxInPlay;

// Returns the share of a dimension that the union over fast atoms of list x has in common with that of list y, for the
// worst values of the slow coordinates; never too small. Lists are read as digits of an index, the first the highest.
double digit_overlap(const PlanSpace& space, const ShardingList& x, const ShardingList& y, Mask slow) {
  double share = 1;
  int i = 0;
  for (; i < x.size && i < y.size; ++i) {
    const Token& a = space.token(token_at(x.word, i));
    const Token& b = space.token(token_at(y.word, i));
    const bool is_slow_a = (slow >> a.bit & 1) != 0;
    const bool is_slow_b = (slow >> b.bit & 1) != 0;
    if (a.bit != b.bit && is_slow_a && is_slow_b) return 0;  // one needs the first digit, the other the last
    if (a.size != b.size) break;
    if (is_slow_a || is_slow_b) share /= static_cast<double>(a.size);
  }
  return share / std::max(space.group(x.tail(i) & slow).ranks, space.group(y.tail(i) & slow).ranks);
}

// Same as digit_overlap() by volumes, for chunks of any size. If the first splits that differ are both slow, the share
// is 0: on the way from one list to a prefix of the other, each rank receives at least half of its then shard, which is
// not less than its overlap with the other list.
double volume_overlap(const PlanSpace& space, const ShardingList& x, const ShardingList& y, Mask slow) {
  if (x.word != y.word) {
    const int from = common_prefix(x.word, y.word);
    const Mask a = from < x.size ? Mask{1} << space.token(token_at(x.word, from)).bit : 0;
    const Mask b = from < y.size ? Mask{1} << space.token(token_at(y.word, from)).bit : 0;
    if ((a & slow) != 0 && (b & slow) != 0) return 0;
  }
  return 1 / std::max(space.group(x.mask & slow).ranks, space.group(y.mask & slow).ranks);
}

}  // namespace

void PlanBounds::build(const PlanSpace& space) {
  space_ = &space;
  numel_ = 1;
  for (int d = 0; d < space.dims(); ++d) numel_ *= space.extent(d, 0);
  const Mask zero_fill = space.sum_finals();

  levels_.clear();
  double faster = 0;
  const Mask moving = space.all() & ~zero_fill;
  for (Mask slow = moving; slow != 0;) {  // from all atoms to the slowest ones
    BoundLevel level;
    level.slow = slow;
    double speed = space.group(slow).us_per_byte;
    level.min_latency_us = space.group(slow).latency_us;
    for (int bit = 0; bit < space.atoms(); ++bit) {
      if ((slow >> bit & 1) == 0) continue;
      speed = std::min(speed, space.group(Mask{1} << bit).us_per_byte);
      level.min_latency_us = std::min(level.min_latency_us, space.group(Mask{1} << bit).latency_us);
    }
    level.us_per_byte = speed - faster;
    faster = speed;
    level.node_ranks[0] = space.group(space.all() & ~slow).ranks;
    level.node_ranks[1] = space.group(space.all() & ~slow & ~space.pending()).ranks;
    level.has_fold = (slow & space.pending()) != 0;
    levels_.push_back(level);
    for (int bit = 0; bit < space.atoms(); ++bit) {
      if (space.group(Mask{1} << bit).us_per_byte <= speed) slow &= ~(Mask{1} << bit);
    }
  }
  build_overlaps(space, space.to(), to_overlaps_);
  build_overlaps(space, space.from(), from_overlaps_);
  Mask to_listed = 0;
  for (int d = 0; d < space.dims(); ++d) to_listed |= space.list(space.to().lists[d]).mask;
  for (BoundLevel& level : levels_) level.to_volume = numel_ / space.group(to_listed & level.slow).ranks;

  const CostModel& model = space.model();
  min_step_us_ = std::min(model.launch_us, model.copy_launch_us);
  const GroupCost& group = space.group(space.pending());
  folded_volume_ = numel_ / space.group(space.all()).ranks;
  fold_volume_ = (group.ranks - 1) * folded_volume_;
  fold_latency_us_ = (group.ranks - 1) * group.latency_us;
}

void PlanBounds::build_overlaps(const PlanSpace& space, const PlanState& end, std::vector<double>& overlaps) const {
  overlaps.clear();
  for (const BoundLevel& level : levels_) {
    for (int d = 0; d < space.dims(); ++d) {
      const ShardingList& of_end = space.list(end.lists[d]);
      for (int i = 0; i < space.list_count(); ++i) {
        overlaps.push_back(space.is_all_even() ? digit_overlap(space, space.list(i), of_end, level.slow)
                                               : volume_overlap(space, space.list(i), of_end, level.slow));
      }
    }
  }
}

double PlanBounds::overlap(const std::vector<double>& overlaps, std::size_t level, const PlanState& state) const {
  const auto lists = static_cast<std::size_t>(space_->list_count());
  const auto dims = static_cast<std::size_t>(space_->dims());
  double share = numel_;
  const double* table = overlaps.data() + level * dims * lists;
  for (std::size_t d = 0; d < dims; ++d) share *= table[d * lists + state.lists[d]];
  return share;
}

LeastCost PlanBounds::cost(const double* bytes_of_level, bool folds, bool has_same_finals, bool is_same) const {
  if (is_same) return {0, 0};
  const CostModel& model = space_->model();
  LeastCost least{has_same_finals ? 0 : model.copy_launch_us, has_same_finals ? 0 : 1};
  double latency_us = folds ? fold_latency_us_ : -1;
  for (std::size_t i = 0; i < levels_.size(); ++i) {
    if (bytes_of_level[i] <= numel_ * 1e-13) continue;  // only rounding errors
    least.us += bytes_of_level[i] * space_->itemsize() * levels_[i].us_per_byte;
    latency_us = std::max(latency_us, levels_[i].min_latency_us);
  }
  if (latency_us >= 0) return {least.us + model.launch_us + latency_us, least.steps + 1};
  return least.steps > 0 ? least : LeastCost{min_step_us_, 1};
}

// Returns the minimum number of elements that steps over slow atoms bring to a rank, if `volume` of its node ends in
// the target and `overlap` of that was there before.
double PlanBounds::received(const BoundLevel& level, double volume, double overlap, bool folds, bool is_pending) const {
  const double node_ranks = level.node_ranks[is_pending ? 1 : 0];
  if (!folds || !level.has_fold) return (volume - overlap) / node_ranks;
  const double share = volume / node_ranks;
  return fold_volume_ + share - std::min({share, overlap / node_ranks, folded_volume_});
}

LeastCost PlanBounds::to_target(const PlanState& state) const {
  const PlanState& to = space_->to();
  const bool has_same_finals = ((state.status ^ to.status) & ~kPending) == 0;
  const bool folds = (state.status & kPending) != 0;
  double bytes[kMaxLevels];
  for (std::size_t i = 0; i < levels_.size(); ++i)
    bytes[i] = received(levels_[i], levels_[i].to_volume, overlap(to_overlaps_, i, state), folds, false);
  const bool is_same = has_same_finals && !folds && std::equal(to.lists, to.lists + space_->dims(), state.lists);
  return cost(bytes, folds, has_same_finals, is_same);
}

LeastCost PlanBounds::from_source(const PlanState& state, Mask listed) const {
  const PlanState& from = space_->from();
  const bool has_same_finals = ((state.status ^ from.status) & ~kPending) == 0;
  const bool folds = ((state.status ^ from.status) & kPending) != 0;
  const bool is_pending = (state.status & kPending) != 0;
  double bytes[kMaxLevels];
  for (std::size_t i = 0; i < levels_.size(); ++i) {
    const double volume = numel_ / space_->group(listed & levels_[i].slow).ranks;
    bytes[i] = received(levels_[i], volume, overlap(from_overlaps_, i, state), folds, is_pending);
  }
  const bool is_same = has_same_finals && !folds && std::equal(from.lists, from.lists + space_->dims(), state.lists);
  return cost(bytes, folds, has_same_finals, is_same);
}

}  // namespace tessera::layout::detail
