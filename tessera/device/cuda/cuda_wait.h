// Waits on the host with a deadline. The waits of the driver have none, so this polls: first without pauses, then with
// pauses that grow to a tenth of the elapsed time, at most 200 us.
#pragma once

#include <algorithm>
#include <chrono>
#include <thread>

#include "tessera/device/event.h"

namespace tessera::device::cuda {

/// Polls `is_done` until it returns true or `timeout` has passed. Returns true if it is done.
template <class IsDone>
bool poll_until(std::chrono::nanoseconds timeout, IsDone&& is_done) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  for (;;) {
    if (is_done()) return true;
    const auto waited = Clock::now() - start;
    if (waited >= timeout) return false;
    if (waited > std::chrono::microseconds(50)) {
      const auto pause = std::min<Clock::duration>(waited / 10, std::chrono::microseconds(200));
      std::this_thread::sleep_for(std::min<Clock::duration>(pause, timeout - waited));
    }
  }
}

}  // namespace tessera::device::cuda
