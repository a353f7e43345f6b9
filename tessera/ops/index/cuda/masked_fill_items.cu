// masked_fill for items of 1 to 16 bytes: 16 bytes per thread at a time, or one item.
#include "tessera/ops/cuda/strided.cuh"
#include "tessera/ops/index/cuda/masked_fill.h"

namespace tessera::ops::cuda {
namespace {

template <class Item, int N>
struct alignas(N * sizeof(Item)) Items {
  Item items[N];
};

template <class Item, int N>
__device__ void fill_by(const MaskedFill& call) {
  Item value;
  memcpy(&value, call.value, sizeof value);
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < call.walk.numel; i += stride) {
    std::int64_t at[3];
    offsets_at(call.walk, i, at);
    auto items = *reinterpret_cast<const Items<Item, N>*>(static_cast<const Item*>(call.x) + at[1]);
    Items<std::uint8_t, N> is_filled;
    if (call.is_splat) {
      const std::uint8_t one = call.mask[at[2]];
#pragma unroll
      for (int k = 0; k < N; ++k) is_filled.items[k] = one;
    } else {
      is_filled = *reinterpret_cast<const Items<std::uint8_t, N>*>(call.mask + at[2]);
    }
#pragma unroll
    for (int k = 0; k < N; ++k) {
      if (is_filled.items[k] != 0) items.items[k] = value;
    }
    *reinterpret_cast<Items<Item, N>*>(static_cast<Item*>(call.out) + at[0]) = items;
  }
}

}  // namespace

#define TESSERA_MASKED_FILL(nbytes, Item)                                                                              \
  extern "C" __global__ void masked_fill_##nbytes(const __grid_constant__ MaskedFill call) { fill_by<Item, 1>(call); } \
  extern "C" __global__ void masked_fill_vectors_##nbytes(const __grid_constant__ MaskedFill call) {                   \
    fill_by<Item, 16 / nbytes>(call);                                                                                  \
  }
TESSERA_MASKED_FILL(1, std::uint8_t)
TESSERA_MASKED_FILL(2, std::uint16_t)
TESSERA_MASKED_FILL(4, std::uint32_t)
TESSERA_MASKED_FILL(8, std::uint64_t)
TESSERA_MASKED_FILL(16, uint4)

}  // namespace tessera::ops::cuda
