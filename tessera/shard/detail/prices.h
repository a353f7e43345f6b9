// The prices in force on a rank, with the planner that has them. What is kept of plans is kept under the number of the
// prices, so that ranks which share a cache, but not yet the prices, do not take each other's.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "tessera/layout/planner.h"

namespace tessera::shard::detail {

/// Of one rank. Planners live as long as it: a thread may be asking one while another sets new prices.
class Prices {
 public:
  Prices();
  /// The planner with the prices in force.
  [[nodiscard]] layout::Planner& planner() const { return *now_.load(std::memory_order_acquire); }
  /// Numbers the prices: the same for equal ones on all ranks; 0 for those that a program begins with.
  [[nodiscard]] const std::atomic<std::uint64_t>& number() const { return number_; }
  /// From now on these.
  void set(const layout::CostModel& model);
  /// The number of such prices.
  static std::uint64_t number_of(const layout::CostModel& model);

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<layout::Planner>> planners_;
  std::atomic<layout::Planner*> now_;
  std::atomic<std::uint64_t> number_{0};
};
/// Of the current rank.
Prices& prices();

}  // namespace tessera::shard::detail
