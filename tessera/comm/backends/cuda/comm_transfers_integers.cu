// Reductions of integers. Sums, products and bitwise reductions are the same for signed and unsigned types.
#include "tessera/comm/backends/cuda/comm_transfers.cuh"

#define TESSERA_COMM_ORDERED_KERNELS(name, type) \
  TESSERA_COMM_KERNEL(name##_avg, type, kAvg)    \
  TESSERA_COMM_KERNEL(name##_min, type, kMin)    \
  TESSERA_COMM_KERNEL(name##_max, type, kMax)
#define TESSERA_COMM_INTEGER_KERNELS(name, type)  \
  TESSERA_COMM_ORDERED_KERNELS(name, type)        \
  TESSERA_COMM_KERNEL(name##_sum, type, kSum)     \
  TESSERA_COMM_KERNEL(name##_prod, type, kProd)   \
  TESSERA_COMM_KERNEL(name##_band, type, kBitAnd) \
  TESSERA_COMM_KERNEL(name##_bor, type, kBitOr)   \
  TESSERA_COMM_KERNEL(name##_bxor, type, kBitXor)

TESSERA_COMM_ORDERED_KERNELS(i64, std::int64_t)
TESSERA_COMM_ORDERED_KERNELS(i32, std::int32_t)
TESSERA_COMM_ORDERED_KERNELS(i16, std::int16_t)
TESSERA_COMM_ORDERED_KERNELS(i8, std::int8_t)
TESSERA_COMM_INTEGER_KERNELS(u64, std::uint64_t)
TESSERA_COMM_INTEGER_KERNELS(u32, std::uint32_t)
TESSERA_COMM_INTEGER_KERNELS(u16, std::uint16_t)
TESSERA_COMM_INTEGER_KERNELS(u8, std::uint8_t)
