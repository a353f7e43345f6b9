// Copies items of 1 to 16 bytes at the offsets of a walk, one per thread at a time.
#include "tessera/ops/cuda/strided.cuh"

namespace tessera::ops::cuda {
namespace {

template <class Item>
__device__ void copy_by(const Walk& walk, void* to, const void* from) {
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < walk.numel; i += stride) {
    std::int64_t at[2];
    offsets_at(walk, i, at);
    static_cast<Item*>(to)[at[0]] = static_cast<const Item*>(from)[at[1]];
  }
}

template <class Item>
__device__ void fill_by(const Walk& walk, void* to, Item item) {
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < walk.numel; i += stride) {
    std::int64_t at[1];
    offsets_at(walk, i, at);
    static_cast<Item*>(to)[at[0]] = item;
  }
}

}  // namespace

#define TESSERA_MOVE_KERNELS(nbytes, Item)                                                                        \
  extern "C" __global__ void copy_items_##nbytes(const __grid_constant__ Walk walk, void* to, const void* from) { \
    copy_by<Item>(walk, to, from);                                                                                \
  }                                                                                                               \
  extern "C" __global__ void fill_items_##nbytes(const __grid_constant__ Walk walk, void* to, Item item) {        \
    fill_by<Item>(walk, to, item);                                                                                \
  }
TESSERA_MOVE_KERNELS(1, std::uint8_t)
TESSERA_MOVE_KERNELS(2, std::uint16_t)
TESSERA_MOVE_KERNELS(4, std::uint32_t)
TESSERA_MOVE_KERNELS(8, std::uint64_t)
TESSERA_MOVE_KERNELS(16, uint4)

}  // namespace tessera::ops::cuda
