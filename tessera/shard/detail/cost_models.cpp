#include "tessera/shard/detail/cost_models.h"

#include <algorithm>
#include <string>

#include "tessera/base/fnv1a.h"
#include "tessera/shard/detail/rank_state.h"
#include "tessera/shard/redistribute.h"

namespace tessera::shard {
namespace detail {

CostModels::CostModels() {
  planners_.push_back(std::make_unique<layout::Planner>());
  now_ = planners_[0].get();
}

std::uint64_t CostModels::number_of(const layout::CostModel& model) {
  if (model == layout::CostModel()) return 0;
  return tessera::detail::fnv1a(model.json());
}

void CostModels::set(const layout::CostModel& model) {
  const std::uint64_t number = number_of(model);
  const std::lock_guard lock(mutex_);
  auto found = std::ranges::find_if(planners_, [&](const auto& planner) { return planner->model() == model; });
  if (found == planners_.end()) {
    planners_.push_back(std::make_unique<layout::Planner>(model));
    found = planners_.end() - 1;
  }
  now_.store(found->get(), std::memory_order_release);
  number_.store(number, std::memory_order_release);
}

CostModels& costs() { return rank_state<CostModels>(); }

}  // namespace detail

layout::Planner& planner() { return detail::costs().planner(); }

}  // namespace tessera::shard
