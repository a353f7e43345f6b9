// Copies of items at indices: from indices (gather, index_select, embedding), to indices (scatter), and one_hot. A
// thread moves items of up to 16 bytes; neighbouring threads share an index, which caches serve.
//
// If several items are written to one place, the last one in the order of the index wins: an item of a short line looks
// for a later one at the same place; longer lines determine the winner of each place first.
#include "tessera/ops/cuda/strided.cuh"
#include "tessera/ops/index/cuda/rejections.cuh"
#include "tessera/ops/index/cuda/take_items.h"

namespace tessera::ops::cuda {
namespace {

constexpr int kEach = 4;

__device__ std::int64_t first_item() { return std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; }
__device__ std::int64_t all_threads() { return std::int64_t{gridDim.x} * blockDim.x; }

// The loads of all indices are under way before the first item is loaded, and all items before the first store.
template <class Item>
__device__ void take(const TakenItems& of) {
  const std::int64_t stride = all_threads();
  for (std::int64_t start = first_item(); start < of.walk.numel; start += kEach * stride) {
    std::int64_t to[kEach];
    std::int64_t from[kEach];
    bool is_held[kEach];
    Item items[kEach];
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
      is_held[k] = false;
      if (start + k * stride >= of.walk.numel) continue;
      std::int64_t at[3];
      offsets_at(of.walk, start + k * stride, at);
      to[k] = at[0];
      const std::int64_t index = checked_index(of.index, at[2]);
      const std::int64_t slice = index < 0 ? -1 : of.map.local(index);
      is_held[k] = slice >= 0;
      from[k] = at[1] + slice * of.step;
    }
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
      items[k] = Item{};
      if (is_held[k]) items[k] = static_cast<const Item*>(of.from)[from[k]];
    }
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
      if (start + k * stride < of.walk.numel) static_cast<Item*>(of.to)[to[k]] = items[k];
    }
  }
}

// Returns true if a later item of the line is written to the same place.
__device__ bool is_overwritten(const PutItems& of, std::int64_t item, std::int64_t at, std::int64_t index) {
  const std::int64_t step = of.walk.steps[0][2];
  for (std::int64_t i = item % of.length + 1; i < of.length; ++i) {
    at += step;
    if (index_at(of.index, at) == index) return true;
  }
  return false;
}

template <class Item>
__device__ void put(const PutItems& of) {
  for (std::int64_t i = first_item(); i < of.walk.numel; i += all_threads()) {
    std::int64_t at[4];
    offsets_at(of.walk, i, at);
    const std::int64_t index = checked_index(of.index, at[2]);
    if (index < 0) continue;
    Item item = *reinterpret_cast<const Item*>(of.value);
    if (of.from != nullptr) {
      const bool is_last = of.winners != nullptr
                               ? of.winners[at[3] + index * of.winner_step] == static_cast<std::uint32_t>(i + 1)
                               : !is_overwritten(of, i, at[2], index);
      if (!is_last) continue;
      item = static_cast<const Item*>(of.from)[at[1]];
    }
    static_cast<Item*>(of.to)[at[0] + index * of.step] = item;
  }
}

}  // namespace

#define TESSERA_ITEM_KERNELS(nbytes, Item)                                                                       \
  extern "C" __global__ void __launch_bounds__(256) take_items_##nbytes(const __grid_constant__ TakenItems of) { \
    take<Item>(of);                                                                                              \
  }                                                                                                              \
  extern "C" __global__ void __launch_bounds__(256) put_items_##nbytes(const __grid_constant__ PutItems of) {    \
    put<Item>(of);                                                                                               \
  }
TESSERA_ITEM_KERNELS(1, std::uint8_t)
TESSERA_ITEM_KERNELS(2, std::uint16_t)
TESSERA_ITEM_KERNELS(4, std::uint32_t)
TESSERA_ITEM_KERNELS(8, std::uint64_t)
TESSERA_ITEM_KERNELS(16, uint4)

extern "C" __global__ void __launch_bounds__(256) clear_winners(const __grid_constant__ PutItems of) {
  for (std::int64_t i = first_item(); i < of.numel; i += all_threads()) of.winners[i] = 0;
}

// The greatest number does not depend on the order of the atomics.
extern "C" __global__ void __launch_bounds__(256) find_winners(const __grid_constant__ PutItems of) {
  for (std::int64_t i = first_item(); i < of.walk.numel; i += all_threads()) {
    std::int64_t at[4];
    offsets_at(of.walk, i, at);
    const std::int64_t index = checked_index(of.index, at[2]);
    if (index >= 0) atomicMax(&of.winners[at[3] + index * of.winner_step], static_cast<std::uint32_t>(i + 1));
  }
}

extern "C" __global__ void __launch_bounds__(256) one_hot_items(const __grid_constant__ OneHot of) {
  for (std::int64_t i = first_item(); i < of.walk.numel; i += all_threads()) {
    std::int64_t at[3];
    offsets_at(of.walk, i, at);
    const std::int64_t index = checked_index(of.index, at[1]);
    of.to[at[0]] = index >= 0 && of.map.local(index) == at[2] ? 1 : 0;
  }
}

}  // namespace tessera::ops::cuda
