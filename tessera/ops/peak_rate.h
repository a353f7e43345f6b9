// A loop of f32 multiply-adds in registers. It reaches the peak rate of one thread with the widest instructions of the
// processor. Internal to the library and its benches. Thread-safe.
#pragma once

#include <string>

namespace tessera::ops::detail {

/// Returns the floating-point operations of one run_peak().
double peak_flops();
/// Runs the loop once, about 100 us.
void run_peak();
/// Returns the Highway name of the instruction set that run_peak() uses: "AVX3".
std::string peak_target();

}  // namespace tessera::ops::detail
