#include "tessera/layout/testing/exhaustive_planner.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "tessera/layout/testing/step_definition.h"

namespace tessera::layout::testing {
namespace {

using detail::AtomDim;
using detail::AtomLayout;
using detail::Atoms;
using detail::AtomSharding;

// Enumerates every state that the rules allow.
class States {
 public:
  States(const Setting& setting, const AtomLayout& from, const std::vector<AtomLayout>& to, double max_numel)
      : setting_(setting), from_(from), to_(to), max_numel_(max_numel) {}

  std::vector<AtomLayout> all() {
    AtomLayout state;
    state.dims.resize(from_.dims.size());
    state.partials = from_.partials;
    const auto& finals = to_.front().partials;
    choose_partials(state, 0, false, finals);
    bool has_pending = false;
    for (std::size_t i = 0; i < finals.size(); ++i) {
      if (!from_.partials[i] || from_.partials[i] == finals[i]) continue;
      has_pending = true;
      state.partials[i].reset();
    }
    if (has_pending) choose_partials(state, 0, true, finals);
    return std::move(states_);
  }

 private:
  // Each atom that is partial in the target but not in the state may already be partial.
  void choose_partials(AtomLayout state, std::size_t atom, bool is_folded, const auto& finals) {
    if (atom == finals.size()) {
      for (std::size_t i = 0; i < state.partials.size(); ++i) {
        for (std::size_t j = 0; j < i; ++j) {
          if (state.partials[i] && state.partials[j] && !can_mix(*state.partials[i], *state.partials[j])) return;
        }
      }
      place(state, 0);
      return;
    }
    choose_partials(state, atom + 1, is_folded, finals);
    if (finals[atom] && !state.partials[atom]) {
      state.partials[atom] = finals[atom];
      choose_partials(state, atom + 1, is_folded, finals);
    }
  }

  void place(AtomLayout& state, std::size_t d) {
    if (d == state.dims.size()) {
      if (part_numel(setting_, state) <= max_numel_) states_.push_back(state);
      return;
    }
    bool is_sharded = !from_.dims[d].shardings.empty();
    for (const AtomLayout& to : to_) is_sharded = is_sharded || !to.dims[d].shardings.empty();
    place(state, d + 1);
    if (setting_.shape[d] == 1 && !is_sharded) return;
    const AtomDim before = state.dims[d];
    for (std::int32_t atom = 0; atom < static_cast<std::int32_t>(state.partials.size()); ++atom) {
      if (is_used(state, atom)) continue;
      for (const auto& [sharding, sizes] : ways_to_shard(state.dims[d], d, atom)) {
        state.dims[d].shardings.push_back(sharding);
        if (sizes) state.dims[d].sizes = sizes;
        extend(state, d);
        state.dims[d] = before;
      }
    }
  }
  // The list of dimension d has grown by one: continues with it as `place` does.
  void extend(AtomLayout& state, std::size_t d) { place(state, d); }

  struct Way {
    AtomSharding sharding;
    std::shared_ptr<const std::vector<std::int64_t>> sizes;
  };
  // Returns plain splits, unless after a split with blocks, and the splits of
  // the source or a target after the same splits.
  [[nodiscard]] std::vector<Way> ways_to_shard(const AtomDim& so_far, std::size_t d, std::int32_t atom) const {
    std::vector<Way> ways;
    const bool has_blocks = std::any_of(so_far.shardings.begin(), so_far.shardings.end(),
                                        [](auto& sharding) { return sharding.blocks != 1; });
    if (!has_blocks) ways.push_back({{atom, 1}, nullptr});
    const auto add = [&](const AtomDim& dim) {
      const std::size_t n = so_far.shardings.size();
      if (dim.shardings.size() <= n || dim.shardings[n].atom != atom) return;
      if (n > 0 && !(AtomDim{so_far.shardings, so_far.sizes} == AtomDim{first_shardings(dim, n), dim.sizes})) return;
      const Way way{dim.shardings[n], n == 0 ? dim.sizes : nullptr};
      for (const Way& known : ways) {
        if (known.sharding == way.sharding && !known.sizes == !way.sizes && (!way.sizes || *known.sizes == *way.sizes))
          return;
      }
      ways.push_back(way);
    };
    add(from_.dims[d]);
    for (const AtomLayout& to : to_) add(to.dims[d]);
    return ways;
  }
  static SmallVector<AtomSharding, 6> first_shardings(const AtomDim& dim, std::size_t n) {
    SmallVector<AtomSharding, 6> shardings;
    for (std::size_t i = 0; i < n; ++i) shardings.push_back(dim.shardings[i]);
    return shardings;
  }
  static bool is_used(const AtomLayout& state, std::int32_t atom) {
    if (state.partials[static_cast<std::size_t>(atom)]) return true;
    for (const AtomDim& dim : state.dims) {
      for (const AtomSharding& sharding : dim.shardings) {
        if (sharding.atom == atom) return true;
      }
    }
    return false;
  }

  const Setting& setting_;
  const AtomLayout& from_;
  const std::vector<AtomLayout>& to_;
  double max_numel_;
  std::vector<AtomLayout> states_;
};

// A plan reduces all pending axes in one step and makes partial only axes that stay partial. So a step may reduce
// neither a subset of the pending axes nor an axis that is partial for the target.
bool keeps_rules(const AtomLayout& source, const AtomLayout& target, const AtomLayout& a, const AtomLayout& b) {
  bool folds = false;
  bool leaves = false;
  for (std::size_t i = 0; i < a.partials.size(); ++i) {
    const bool is_pending = source.partials[i] && source.partials[i] != target.partials[i];
    if (a.partials[i] && !b.partials[i]) {
      if (!is_pending || a.partials[i] != source.partials[i]) return false;
      folds = true;
    } else if (is_pending && a.partials[i] && a.partials[i] == source.partials[i]) {
      leaves = true;
    }
  }
  return !(folds && leaves);
}

}  // namespace

std::vector<double> exhaustive_costs(const Atoms& atoms, const AtomLayout& from, const std::vector<AtomLayout>& to,
                                     const Shape& shape, std::int64_t itemsize, std::int64_t budget_nbytes,
                                     const CostModel& model) {
  const Setting setting{atoms, shape, itemsize, model};
  const double most = static_cast<double>(budget_nbytes) / static_cast<double>(itemsize);
  std::vector<DescribedState> states;
  for (const AtomLayout& state : States(setting, from, to, most).all()) states.push_back(describe(setting, state));
  const std::size_t count = states.size();
  std::vector<double> cost(count, std::numeric_limits<double>::infinity());
  std::vector<bool> is_settled(count, false);
  const auto number = [&](const AtomLayout& state) {
    const auto found =
        std::find_if(states.begin(), states.end(), [&](const auto& each) { return each.layout == state; });
    return static_cast<std::size_t>(found - states.begin());
  };
  cost[number(from)] = 0;
  std::vector<std::size_t> targets;
  for (const AtomLayout& target : to) targets.push_back(number(target));
  for (;;) {
    std::size_t best = count;
    for (std::size_t i = 0; i < count; ++i) {
      if (!is_settled[i] && (best == count || cost[i] < cost[best])) best = i;
    }
    is_settled[best] = true;
    if (std::all_of(targets.begin(), targets.end(), [&](std::size_t t) { return is_settled[t]; })) break;
    for (std::size_t i = 0; i < count; ++i) {
      if (is_settled[i] || !keeps_rules(from, to.front(), states[best].layout, states[i].layout)) continue;
      if (const auto step = defined_step(setting, states[best], states[i]))
        cost[i] = std::min(cost[i], cost[best] + step->us);
    }
  }
  std::vector<double> costs;
  for (const std::size_t target : targets) costs.push_back(cost[target]);
  return costs;
}

std::optional<double> exhaustive_cost(const PlanRequest& request, const CostModel& model) {
  std::string why;
  const Layout both[] = {request.from, request.to};
  const auto atoms = detail::atoms_of(both, why);
  if (!atoms) return std::nullopt;
  const auto from = detail::to_atoms(*atoms, request.from, request.shape, why);
  const auto to = detail::to_atoms(*atoms, request.to, request.shape, why);
  if (!from || !to) return std::nullopt;
  const Setting setting{*atoms, request.shape, request.itemsize, model};
  std::int64_t budget = request.budget_nbytes;
  if (budget == 0) {
    budget =
        static_cast<std::int64_t>(std::max(part_numel(setting, *from), part_numel(setting, *to))) * request.itemsize;
  }
  return exhaustive_costs(*atoms, *from, {*to}, request.shape, request.itemsize, budget, model).front();
}

}  // namespace tessera::layout::testing
