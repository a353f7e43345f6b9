// Fills a tensor from the global indices of its elements. A thread fills four consecutive elements, which share the
// random words of a block if the tensor is contiguous and not sharded.
#include "tessera/ops/create/cuda/counted.h"
#include "tessera/ops/cuda/elements.cuh"

namespace tessera::ops::cuda {
namespace {

constexpr int kEach = 4;

struct Drawn {
  std::uint64_t block = ~std::uint64_t{0};
  std::uint32_t words[4];

  __device__ void draw(const CountedFill& of, std::uint64_t call, std::uint64_t wanted) {
    if (wanted == block) return;
    detail::words_of_block(of.seed, call, wanted, words);
    block = wanted;
  }
};

__device__ std::int64_t random_integer(const CountedFill& of, std::uint64_t call, std::uint64_t element, Drawn& drawn) {
  if (!of.range.is_short()) {
    drawn.draw(of, call, element / 2);
    return of.range.of_words(drawn.words, element);
  }
  drawn.draw(of, call, element / 4);
  const auto at = static_cast<int>(element % 4);
  return of.range.of_word(at < 2 ? (at == 0 ? drawn.words[0] : drawn.words[1])
                                 : (at == 2 ? drawn.words[2] : drawn.words[3]));
}

template <class Value>
__device__ void fill(const CountedFill& of, const Value& value) {
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x * kEach;
  for (std::int64_t first = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * kEach; first < of.numel;
       first += stride) {
    Drawn drawn;
    if (of.has_vectors && first + kEach <= of.numel) {
      decltype(value(first, drawn)) values[kEach];
#pragma unroll
      for (int k = 0; k < kEach; ++k) values[k] = value(first + k, drawn);
      store_vector<kEach>(values, of.to, of.dtype, first);
      continue;
    }
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
      const std::int64_t i = first + k;
      if (i >= of.numel) break;
      std::int64_t offset = i;
      std::int64_t global = i;
      if (!of.is_dense) of.places.find(i, offset, global);
      store(value(global, drawn), of.to, of.dtype, offset);
    }
  }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(256) counted_fill(const __grid_constant__ CountedFill of) {
  const std::uint64_t call = of.call + (of.counter != nullptr ? static_cast<std::uint64_t>(*of.counter) : 0);
  switch (of.kind) {
    case CountKind::kIntegers:
      return fill(of, [&](std::int64_t at, Drawn&) {
        return static_cast<std::int64_t>(static_cast<std::uint64_t>(of.start) +
                                         static_cast<std::uint64_t>(at) * static_cast<std::uint64_t>(of.step));
      });
    case CountKind::kFloating:
      return fill(of, [&](std::int64_t at, Drawn&) {
        return __fma_rn(static_cast<double>(at), of.floating_step, of.floating_start);
      });
    case CountKind::kDiagonal:
      return fill(of, [&](std::int64_t at, Drawn&) { return at / of.row == at % of.row ? 1.0F : 0.0F; });
    case CountKind::kDraws:
      return fill(of, [&](std::int64_t at, Drawn& drawn) {
        return random_integer(of, call, static_cast<std::uint64_t>(at), drawn);
      });
    case CountKind::kPermutation: {
      detail::Permutation permutation = of.permutation;
#pragma unroll
      for (int b = 0; b < detail::Permutation::kRounds / 4; ++b) {
        std::uint32_t words[4];
        detail::words_of_block(of.seed, call, static_cast<std::uint64_t>(b), words);
#pragma unroll
        for (int k = 0; k < 4; ++k) permutation.keys[4 * b + k] = words[k];
      }
      return fill(of, [&](std::int64_t at, Drawn&) { return permutation.of(static_cast<std::uint64_t>(at)); });
    }
  }
}

}  // namespace tessera::ops::cuda
