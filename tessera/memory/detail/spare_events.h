// Events of freed blocks that no block waits for anymore, to be recorded again: creating an event is a driver call.
#pragma once

#include <mutex>
#include <utility>
#include <vector>

#include "tessera/device/device.h"
#include "tessera/device/event.h"

namespace tessera::memory::detail {

/// Events of one device. Thread-safe; its lock is held for no driver call.
class SpareEvents {
 public:
  /// Returns a spare event, or a new one of `device`.
  device::Event take(const device::Device& device) {
    {
      const std::lock_guard lock(mutex_);
      if (!events_.empty()) {
        device::Event event = std::move(events_.back());
        events_.pop_back();
        return event;
      }
    }
    return device.create_event();
  }
  /// Keeps the events of these uses that nothing else refers to: an event that another part of a split block still
  /// waits for must stay recorded.
  template <class Uses>
  void put(Uses& uses) {
    const std::lock_guard lock(mutex_);
    for (auto& use : uses) {
      if (use.event && use.event.state().use_count() == 1) events_.push_back(std::move(use.event));
    }
  }

 private:
  std::mutex mutex_;
  std::vector<device::Event> events_;
};

}  // namespace tessera::memory::detail
