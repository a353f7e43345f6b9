// A loop of f32 multiply-adds in registers: the most that one thread of this processor can do, with the widest
// instructions that it has.
#pragma once

#include <string>

namespace tessera::ops::detail {

/// Returns the floating-point operations of one run_peak().
double peak_flops();
/// Runs the loop once, about 100 us.
void run_peak();
/// Returns the instructions that it uses, by Highway's name: "AVX3".
std::string peak_target();

}  // namespace tessera::ops::detail
