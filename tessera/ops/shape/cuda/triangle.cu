// tril and triu: copies the elements on one side of a diagonal and clears the others, a group of columns per thread.
// Groups without a kept element are not read.
#include "tessera/ops/cuda/strided.cuh"
#include "tessera/ops/shape/cuda/triangle.h"

namespace tessera::ops::cuda {
namespace {

template <class Item, int kTogether>
struct alignas(kTogether * sizeof(Item)) Columns {
  Item items[kTogether];
};

template <class Item, int kTogether>
__device__ void copy_side(const TriangleCopy& of) {
  using Group = Columns<Item, kTogether>;
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < of.walk.numel; i += stride) {
    std::int64_t at[4];
    offsets_at(of.walk, i, at);
    const std::int64_t last = of.rows.global(at[2]) + of.last;
    bool is_kept[kTogether];
    bool is_read = false;
#pragma unroll
    for (int k = 0; k < kTogether; ++k) {
      is_kept[k] = (of.columns.global(at[3] + k) <= last) == of.is_lower;
      is_read |= is_kept[k];
    }
    Group group{};
    if (is_read) group = static_cast<const Group*>(of.from)[at[1]];
#pragma unroll
    for (int k = 0; k < kTogether; ++k) {
      if (!is_kept[k]) group.items[k] = Item{};
    }
    static_cast<Group*>(of.to)[at[0]] = group;
  }
}

}  // namespace

#define TESSERA_TRIANGLE(nbytes, Item)                                                                           \
  extern "C" __global__ void __launch_bounds__(256) triangle_##nbytes(const __grid_constant__ TriangleCopy of) { \
    copy_side<Item, 1>(of);                                                                                      \
  }                                                                                                              \
  extern "C" __global__ void __launch_bounds__(256)                                                              \
      triangle_groups_##nbytes(const __grid_constant__ TriangleCopy of) {                                        \
    copy_side<Item, 16 / sizeof(Item)>(of);                                                                      \
  }
TESSERA_TRIANGLE(1, std::uint8_t)
TESSERA_TRIANGLE(2, std::uint16_t)
TESSERA_TRIANGLE(4, std::uint32_t)
TESSERA_TRIANGLE(8, std::uint64_t)
TESSERA_TRIANGLE(16, uint4)

}  // namespace tessera::ops::cuda
