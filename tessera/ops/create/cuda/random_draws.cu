// Random tensors. A thread draws the four elements of a Philox block and stores them in one access. If the result is
// strided or sharded, a thread draws the block of each element and keeps that element.
#include "tessera/ops/create/cuda/random_draws.h"
#include "tessera/ops/cuda/elements.cuh"

namespace tessera::ops::cuda {
namespace {

__device__ std::int64_t first_index() { return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; }
__device__ std::int64_t index_step() { return static_cast<std::int64_t>(gridDim.x) * blockDim.x; }

__device__ RandomDraw counted(const RandomDraw& of) {
  RandomDraw draw = of;
  if (draw.counter != nullptr) draw.call += static_cast<std::uint64_t>(*draw.counter);
  return draw;
}

template <DrawKind kKind>
__device__ void draw_dense(const RandomDraw& of, const DrawTarget& target) {
  const RandomDraw draw = counted(of);
  const std::int64_t blocks = (target.numel + 3) / 4;
  for (std::int64_t block = first_index(); block < blocks; block += index_step()) {
    float drawn[4];
    draw_block<kKind>(draw, static_cast<std::uint64_t>(block), drawn);
    const std::int64_t first = 4 * block;
    if (target.has_vectors && first + 4 <= target.numel) {
      store_vector<4>(drawn, target.data, target.dtype, first);
    } else {
      for (int i = 0; i < 4 && first + i < target.numel; ++i) store(drawn[i], target.data, target.dtype, first + i);
    }
  }
}

template <DrawKind kKind>
__device__ void draw_placed(const RandomDraw& of, const DrawTarget& target, const DrawPlaces& places) {
  const RandomDraw draw = counted(of);
  for (std::int64_t i = first_index(); i < target.numel; i += index_step()) {
    std::int64_t offset;
    std::int64_t global;
    places.find(i, offset, global);
    float drawn[4];
    draw_block<kKind>(draw, static_cast<std::uint64_t>(global) / 4, drawn);
    const auto index = static_cast<int>(global % 4);
    store(index < 2 ? (index == 0 ? drawn[0] : drawn[1]) : (index == 2 ? drawn[2] : drawn[3]), target.data,
          target.dtype, offset);
  }
}

}  // namespace

#define TESSERA_DRAW(name, kind)                                                                          \
  extern "C" __global__ void __launch_bounds__(256) random_##name##_dense(RandomDraw of, DrawTarget to) { \
    draw_dense<DrawKind::kind>(of, to);                                                                   \
  }                                                                                                       \
  extern "C" __global__ void __launch_bounds__(256)                                                       \
      random_##name##_placed(RandomDraw of, DrawTarget to, const __grid_constant__ DrawPlaces places) {   \
    draw_placed<DrawKind::kind>(of, to, places);                                                          \
  }
TESSERA_DRAW(uniform, kUniform)
TESSERA_DRAW(normal, kNormal)
TESSERA_DRAW(truncated, kTruncated)
TESSERA_DRAW(bernoulli, kBernoulli)
#undef TESSERA_DRAW

}  // namespace tessera::ops::cuda
