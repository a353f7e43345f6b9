// Copies, and reductions of floating-point numbers. Complex numbers are reduced as real and imaginary parts.
#include "tessera/comm/backends/cuda/comm_transfers.cuh"

#define TESSERA_COMM_FLOAT_KERNELS(name, type)  \
  TESSERA_COMM_KERNEL(name##_sum, type, kSum)   \
  TESSERA_COMM_KERNEL(name##_avg, type, kAvg)   \
  TESSERA_COMM_KERNEL(name##_min, type, kMin)   \
  TESSERA_COMM_KERNEL(name##_max, type, kMax)   \
  TESSERA_COMM_KERNEL(name##_prod, type, kProd) \
  TESSERA_COMM_KERNEL(name##_premultiply, type, kPremultiply)

TESSERA_COMM_KERNEL(copy, void, kSum)
TESSERA_COMM_FLOAT_KERNELS(f64, double)
TESSERA_COMM_FLOAT_KERNELS(f32, float)
TESSERA_COMM_FLOAT_KERNELS(f16, __half)
TESSERA_COMM_FLOAT_KERNELS(bf16, __nv_bfloat16)
