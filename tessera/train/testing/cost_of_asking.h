// What it costs a thread to ask for work, for benches.
#pragma once

#include <ctime>

#include "tessera/device/device.h"

namespace tessera::train::testing {

/// CPU time of the calling thread, in microseconds.
inline double cpu_microseconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return 1e6 * static_cast<double>(now.tv_sec) + 1e-3 * static_cast<double>(now.tv_nsec);
}

/// CPU time of this thread in which it asks for work. The stream is stopped meanwhile: a stream that has nothing to do
/// may run what it is given on the thread that gives it.
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
