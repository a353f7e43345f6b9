// The cost model of a rank, with its planner. Plans are cached under the number of the cost model, so that ranks that
// share a cache but have different cost models do not share plans.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "tessera/layout/planner.h"

namespace tessera::shard::detail {

/// Cost model of one rank. Planners live as long as the rank, because a thread may use one while another replaces it.
class CostModels {
 public:
  CostModels();
  /// Returns the planner with the current cost model.
  [[nodiscard]] layout::Planner& planner() const { return *now_.load(std::memory_order_acquire); }
  /// Returns the number of the cost model: the same for equal ones on all ranks, and 0 for the initial one.
  [[nodiscard]] const std::atomic<std::uint64_t>& number() const { return number_; }
  /// Replaces the cost model.
  void set(const layout::CostModel& model);
  /// Returns the number of a cost model.
  static std::uint64_t number_of(const layout::CostModel& model);

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<layout::Planner>> planners_;
  std::atomic<layout::Planner*> now_;
  std::atomic<std::uint64_t> number_{0};
};
/// Returns the cost model of the current rank.
CostModels& costs();

}  // namespace tessera::shard::detail
