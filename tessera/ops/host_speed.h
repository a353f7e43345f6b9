// Measured speed of this processor, and the code that computes. A library that does not know a processor may silently
// pick slow kernels, so the rate of products is measured and compared with the peak of the instructions.
//
//   const HostSpeed& speed = host_speed();
//   if (speed.is_slow()) log::warn(speed.warning());
#pragma once

#include <string>

#include "tessera/base/export.h"

namespace tessera::ops {

/// Instructions, kernels and rates of one thread of the host.
struct TESSERA_API HostSpeed {
  std::string processor = {};      ///< name of the processor: "AMD EPYC"
  std::string vectors = {};        ///< instructions of our vector code (Highway's target): "AVX2"
  std::string products = {};       ///< library of f32 products and its instructions: "oneDNN 2.6.3 (avx512_core)"
  std::string widest = {};         ///< widest instructions that the peak was measured with: "AVX3_ZEN4"
  std::string bf16_products = {};  ///< library of bf16 products and its instructions, or "converted to f32"
  std::string amx = {};            ///< state of AMX: "works", "not supported by the processor"
  double peak_gflops = 0;          ///< GFLOP/s of f32 multiply-adds in registers, one thread
  double product_gflops = 0;       ///< GFLOP/s of an f32 product of 384 x 384 matrices, one thread
  double bf16_product_gflops = 0;  ///< GFLOP/s of a bf16 product of these sizes, conversions included, one thread

  /// Returns true if products reach less than half of the peak, or if the processor has no AVX2.
  [[nodiscard]] bool is_slow() const;
  /// Returns one line that shows what is slow and by how much; empty unless is_slow().
  [[nodiscard]] std::string warning() const;
};

/// Returns the speed of this machine. Measured by the first call in a process, in about 50 ms. Thread-safe.
TESSERA_API const HostSpeed& host_speed();

}  // namespace tessera::ops
