#include "tessera/device/host/detail/timeline.h"

#include <algorithm>

namespace tessera::device::host::detail {

void Timeline::want(std::uint64_t sequence) {
  std::uint64_t least = wanted_.load();
  while (sequence < least && !wanted_.compare_exchange_weak(least, sequence)) {
  }
}

// Clears all requests first: a sleeper that waits for more has already listened, so the bell wakes it and it requests
// again.
void Timeline::wake() {
  wanted_.store(kOpen);
  bell_.ring();
}

void Timeline::fail(std::uint64_t sequence, std::exception_ptr error) {
  const std::lock_guard lock(mutex_);
  if (!failures_.empty() && failures_.back().last >= sequence) return;
  std::erase_if(resets_, [&](std::uint64_t reset) { return reset < sequence; });
  failures_.push_back({sequence, resets_.empty() ? kOpen : resets_.front(), std::move(error)});
  has_failures_.store(true);
}

std::exception_ptr Timeline::failure_at(std::uint64_t sequence) const {
  if (!has_failures_.load()) return nullptr;
  const std::lock_guard lock(mutex_);
  for (auto failure = failures_.rbegin(); failure != failures_.rend(); ++failure) {
    if (failure->first <= sequence) return sequence <= failure->last ? failure->error : nullptr;
  }
  return nullptr;
}

std::exception_ptr Timeline::parked() const {
  if (!has_failures_.load()) return nullptr;
  const std::lock_guard lock(mutex_);
  return failures_.back().last == kOpen ? failures_.back().error : nullptr;
}

void Timeline::reset_after(std::uint64_t last) {
  const std::lock_guard lock(mutex_);
  if (!failures_.empty() && failures_.back().last == kOpen) failures_.back().last = last;
  std::erase_if(resets_, [&](std::uint64_t reset) { return reset <= done_.load(); });
  if (last > done_.load()) resets_.push_back(last);
}

}  // namespace tessera::device::host::detail
