#include "tessera/nn/detail/parameter_units.h"

#include <algorithm>

#include "tessera/autograd/hooks.h"

namespace tessera::nn::detail {

void ParameterUnits::add(const std::vector<std::shared_ptr<ParameterSlot>>& slots) {
  std::vector<shard::UnitParameter> unit;
  for (const auto& slot : slots) unit.push_back({slot->leaf, slot->in_use});
  const std::size_t number = gatherer_.add_unit(std::move(unit));
  for (std::size_t i = 0; i < slots.size(); ++i) slots[i]->places.push_back({number, i});
}

const UnitPlace& ParameterUnits::next_place(const ParameterSlot& slot) const {
  if (slot.places.size() == 1 || !was_used_) return slot.places.front();
  if (autograd::is_in_backward()) {
    for (auto place = slot.places.rbegin(); place != slot.places.rend(); ++place) {
      if (place->unit <= last_) return *place;
    }
    return slot.places.back();
  }
  const auto next = std::ranges::find_if(slot.places, [&](const UnitPlace& place) { return place.unit > last_; });
  return next == slot.places.end() ? slot.places.front() : *next;
}

Tensor ParameterUnits::read(const ParameterSlot& slot) {
  if (active_) {
    for (const UnitPlace& place : slot.places) {
      if (place.unit == last_) return (*active_)[place.index];
    }
  }
  const UnitPlace& place = next_place(slot);
  active_.reset();  // its memory serves the next unit
  last_ = place.unit;
  was_used_ = true;
  active_ =
      gatherer_.use(place.unit, repeated_ > 0 ? shard::SavedWeights::kByCaller : shard::SavedWeights::kGatheredAgain);
  return (*active_)[place.index];
}

void ParameterUnits::release() { active_.reset(); }

ParameterUnits::RepeatedScope::RepeatedScope(ParameterUnits* units) : units_(units) {
  if (units_ == nullptr) return;
  units_->release();  // tensors of an earlier read would be kept for their gradients
  ++units_->repeated_;
}

ParameterUnits::RepeatedScope::~RepeatedScope() {
  if (units_ == nullptr) return;
  --units_->repeated_;
  units_->release();
}

}  // namespace tessera::nn::detail
