// Driver events that were let go of, for the next who needs one: making and destroying one takes the driver's lock, and
// with several threads that launch at once some 50 us on an H200; taking one from here takes nanoseconds.
//
// An event may be recorded anew while an earlier point of it is still to come: who waits for that point does so
// already. Events that a graph holds are not given back.
#pragma once

#include <mutex>
#include <vector>

#include "tessera/device/cuda/driver.h"

namespace tessera::device::cuda {

/// Events without timing of one context. Thread-safe.
class EventPool {
 public:
  /// One that was given back; null: there is none.
  CUevent take() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) return nullptr;
    CUevent event = free_.back();
    free_.pop_back();
    return event;
  }
  /// Keeps it; false: there are enough.
  bool give_back(CUevent event) {
    const std::lock_guard lock(mutex_);
    if (free_.size() >= kMost) return false;
    free_.push_back(event);
    return true;
  }

 private:
  static constexpr std::size_t kMost = 4096;
  std::mutex mutex_;
  std::vector<CUevent> free_;
};

}  // namespace tessera::device::cuda
