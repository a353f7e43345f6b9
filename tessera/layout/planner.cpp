// The cache of plans. A hit takes a lock, a table lookup and a list splice, and
// allocates nothing: keys point to the shape in their plan.
#include "tessera/layout/planner.h"

#include <list>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/layout/detail/atoms.h"
#include "tessera/layout/detail/layout_state.h"
#include "tessera/layout/detail/make_plan.h"

namespace tessera::layout {
namespace {

struct Key {
  LayoutId from;
  LayoutId to;
  const Shape* shape;
  std::int64_t itemsize;
  std::int64_t budget_nbytes;

  friend bool operator==(const Key& a, const Key& b) {
    return a.from == b.from && a.to == b.to && a.itemsize == b.itemsize && a.budget_nbytes == b.budget_nbytes &&
           *a.shape == *b.shape;
  }
};

struct KeyHash {
  std::size_t operator()(const Key& key) const noexcept {
    std::uint64_t hash = key.from.value();
    const auto mix = [&hash](std::uint64_t value) {
      hash = (hash ^ value) * 0x9e3779b97f4a7c15U;
      hash ^= hash >> 32;
    };
    mix(key.to.value());
    mix(static_cast<std::uint64_t>(key.itemsize));
    mix(static_cast<std::uint64_t>(key.budget_nbytes));
    for (const std::int64_t size : *key.shape) mix(static_cast<std::uint64_t>(size));
    return hash;
  }
};

Key key_of(const PlanRequest& request) {
  return {request.from.id(), request.to.id(), &request.shape, request.itemsize, request.budget_nbytes};
}

}  // namespace

struct Planner::State {
  using Plans = std::list<std::shared_ptr<const Plan>>;  // most recently used first

  CostModel model;
  std::size_t capacity;
  mutable std::mutex mutex;
  Plans plans;
  std::unordered_map<Key, Plans::iterator, KeyHash> by_key;
  PlannerCounts counts;

  // Returns null if the plan is not cached. The caller holds the lock.
  std::shared_ptr<const Plan> find(const PlanRequest& request) {
    const auto found = by_key.find(key_of(request));
    if (found == by_key.end()) return nullptr;
    if (found->second != plans.begin()) plans.splice(plans.begin(), plans, found->second);
    return *found->second;
  }

  void drop_last() {
    by_key.erase(key_of(plans.back()->request));
    plans.pop_back();
    ++counts.evictions;
  }
};

Planner::Planner(CostModel model, std::size_t capacity) : state_(std::make_unique<State>()) {
  model.check();
  TESSERA_CHECK(capacity > 0, "planner: capacity must be at least 1");
  state_->model = std::move(model);
  state_->capacity = capacity;
}

Planner::~Planner() = default;

std::shared_ptr<const Plan> Planner::plan(const PlanRequest& request) {
  TESSERA_CHECK(request.from && request.to, "plan: ", request.from ? "target" : "source", " layout must not be empty");
  {
    const std::lock_guard lock(state_->mutex);
    if (auto known = state_->find(request)) {
      ++state_->counts.hits;
      return known;
    }
    ++state_->counts.misses;
  }
  auto made = std::make_shared<const Plan>(detail::make_plan(request, state_->model));
  const std::lock_guard lock(state_->mutex);
  if (auto known = state_->find(request)) return known;  // another thread was faster; its plan is the same
  if (state_->plans.size() >= state_->capacity) state_->drop_last();
  state_->plans.push_front(made);
  state_->by_key.emplace(key_of(made->request), state_->plans.begin());
  return made;
}

std::optional<Step> Planner::step(const PlanRequest& request) const {
  return detail::make_step(request, state_->model);
}

Layout gradient_layout(const Layout& layout) {
  using detail::LayoutAccess;
  const detail::LayoutState& state = LayoutAccess::state(layout);
  if (state.parts.partials.empty()) return layout;
  if (detail::LayoutState* known = state.reduced.load(std::memory_order_acquire)) return LayoutAccess::uncounted(known);
  LayoutParts parts = state.parts;
  parts.partials.clear();
  const Layout reduced = Layout::create(state.mesh, std::move(parts));
  state.reduced.store(LayoutAccess::uncounted(reduced), std::memory_order_release);
  return reduced;
}

std::shared_ptr<const Plan> Planner::dual(const Plan& plan) {
  const PlanRequest& forward = plan.request;
  PlanRequest request = forward;
  request.to = gradient_layout(forward.from);
  const Layout ends[] = {request.to, forward.to};
  std::string why;
  const auto atoms = detail::atoms_of(ends, why);
  TESSERA_CHECK(atoms.has_value(), "dual: ", why);
  const auto source = detail::to_atoms(*atoms, request.to, forward.shape, why);
  const auto target = detail::to_atoms(*atoms, forward.to, forward.shape, why);
  TESSERA_CHECK(source && target, "dual: ", why);
  detail::AtomLayout gradient = *target;
  bool has_gathered = false;
  for (std::size_t a = 0; a < atoms->list.size(); ++a) {
    const auto atom = static_cast<std::int32_t>(a);
    gradient.partials[a].reset();
    if (!source->is_sharded_by(atom) || target->is_sharded_by(atom) || target->partials[a]) continue;
    gradient.partials[a] = Reduction::kSum;
    has_gathered = true;
  }
  request.from = has_gathered ? detail::from_atoms(*atoms, gradient, forward.shape) : gradient_layout(forward.to);
  return this->plan(request);
}

const CostModel& Planner::model() const { return state_->model; }

PlannerCounts Planner::counts() const {
  const std::lock_guard lock(state_->mutex);
  PlannerCounts counts = state_->counts;
  counts.entries = state_->plans.size();
  return counts;
}

}  // namespace tessera::layout
