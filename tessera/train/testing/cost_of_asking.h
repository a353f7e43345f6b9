// Measures the cost of enqueueing work, for benches.
#pragma once

#include <ctime>

#include "tessera/device/device.h"

namespace tessera::train::testing {

/// Returns the CPU time of the calling thread, in microseconds.
inline double cpu_microseconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return 1e6 * static_cast<double>(now.tv_sec) + 1e-3 * static_cast<double>(now.tv_nsec);
}

/// Returns the CPU time in which this thread enqueues work. The stream is stopped meanwhile, because an idle stream may
/// run work on the enqueueing thread.
template <class F>
double cost_of_asking(const F& body) {
  const device::Device host = device::Device::get("host");
  host.stall_stream(host.default_stream(), true);
  const double start = cpu_microseconds();
  body();
  const double spent = cpu_microseconds() - start;
  host.stall_stream(host.default_stream(), false);
  host.synchronize();
  return spent;
}

}  // namespace tessera::train::testing
