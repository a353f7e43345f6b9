// Kernels for products that cuBLASLt does not provide: copies of operands into an order that it reads, and products of
// integers. They are plain loops, because training uses neither.
#include "tessera/ops/cuda/elements.cuh"
#include "tessera/ops/matrix/cuda/gemm_strided.h"

namespace tessera::ops::cuda {
namespace {

template <class Item>
__device__ void move_one(const StridedMove& move, std::int64_t to, std::int64_t from) {
  static_cast<Item*>(move.to)[to] = move.from != nullptr ? static_cast<const Item*>(move.from)[from] : Item{};
}

__device__ std::int64_t first_index() { return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; }
__device__ std::int64_t index_step() { return static_cast<std::int64_t>(gridDim.x) * blockDim.x; }

}  // namespace

extern "C" __global__ void gemm_move_strided(const __grid_constant__ StridedMove move) {
  for (std::int64_t i = first_index(); i < move.numel; i += index_step()) {
    std::int64_t rest = i;
    std::int64_t to = 0;
    std::int64_t from = 0;
    for (int d = move.ndim; d-- > 0;) {
      const std::int64_t digit = rest % move.sizes[d];
      rest /= move.sizes[d];
      to += digit * move.to_steps[d];
      from += digit * move.from_steps[d];
    }
    switch (move.itemsize) {
      case 1: move_one<std::uint8_t>(move, to, from); break;
      case 2: move_one<std::uint16_t>(move, to, from); break;
      case 4: move_one<std::uint32_t>(move, to, from); break;
      default: move_one<std::uint64_t>(move, to, from); break;
    }
  }
}

// Sums wrap, as they do on the host.
extern "C" __global__ void gemm_integers(const __grid_constant__ IntegerGemm of) {
  for (std::int64_t i = first_index(); i < of.numel; i += index_step()) {
    const std::int64_t col = i % of.n;
    const std::int64_t row = i / of.n % of.m;
    std::int64_t rest = i / of.n / of.m;
    std::int64_t a = row * of.a_row;
    std::int64_t b = col * of.b_col;
    std::int64_t c = row * of.c_row + col * of.c_col;
    for (int d = of.nloops; d-- > 0;) {
      const std::int64_t digit = rest % of.loop_sizes[d];
      rest /= of.loop_sizes[d];
      a += digit * of.loop_a[d];
      b += digit * of.loop_b[d];
      c += digit * of.loop_c[d];
    }
    std::int64_t depth = 1;
    for (int d = 0; d < of.nk; ++d) depth *= of.k_sizes[d];
    std::uint64_t sum = of.is_added ? static_cast<std::uint64_t>(load<std::int64_t>(of.c, of.dtype, c)) : 0;
    for (std::int64_t k = 0; k < depth; ++k) {
      std::int64_t at = k;
      std::int64_t from_a = a;
      std::int64_t from_b = b;
      for (int d = of.nk; d-- > 0;) {
        const std::int64_t digit = at % of.k_sizes[d];
        at /= of.k_sizes[d];
        from_a += digit * of.k_a[d];
        from_b += digit * of.k_b[d];
      }
      sum += static_cast<std::uint64_t>(load<std::int64_t>(of.a, of.dtype, from_a)) *
             static_cast<std::uint64_t>(load<std::int64_t>(of.b, of.dtype, from_b));
    }
    store(static_cast<std::int64_t>(sum), of.c, of.dtype, c);
  }
}

}  // namespace tessera::ops::cuda
