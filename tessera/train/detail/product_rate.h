// The rate of products that the MFU of a run refers to: measured on the device of the rank with its own kernels, so
// that no table of devices is needed.
#pragma once

#include <string>
#include <string_view>

namespace tessera::train::detail {

/// Returns the FLOP/s of products of this dtype (f32 or bf16) of 4096 x 4096 matrices on the default device, or the
/// share of this rank of a device that ranks share. Measures for about 60 ms, with up to 256 MiB, and draws no random
/// number. Resets the peaks of the allocator.
double product_rate(std::string_view dtype);
/// Returns the line on products of the default device: "compute: NVIDIA H200, 690 TFLOP/s in bf16 products".
std::string product_rate_text(std::string_view dtype, double flops);

}  // namespace tessera::train::detail
