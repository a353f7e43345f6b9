// Waiting on the host with a deadline. The driver's own waits have none, so a wait that has one asks again and again:
// first without pause, then with pauses that grow to a tenth of the time waited, at most 200 us.
#pragma once

#include <algorithm>
#include <chrono>
#include <thread>

#include "tessera/device/event.h"

namespace tessera::device::cuda {

/// Asks `is_done` until it says true or `timeout` has passed. True: it is done.
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
