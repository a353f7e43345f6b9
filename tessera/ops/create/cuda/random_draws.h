// What a random operator draws for a block of four elements, from philox.h's steps: the same code for the kernels of
// random_draws.cu and, in tests, for the host, where it must make the bits that the host's vectors make.
#pragma once

#include <cstdint>

#include "tessera/base/dtype.h"
#include "tessera/ops/detail/philox.h"

namespace tessera::ops::cuda {

/// Which numbers.
enum class DrawKind : std::uint8_t { kUniform, kNormal, kTruncated, kBernoulli };

/// A call of a random operator.
struct RandomDraw {
  std::uint64_t seed = 0;
  std::uint64_t call = 0;
  const std::int64_t* counter = nullptr;  // in device memory, added to the call; null: none
  float a = 0;                            // least value, mean or probability
  float b = 1;                            // range or standard deviation
  float low = 0, high = 0;                // of truncated ones; high: the last below the range's end of uniform ones
};

/// The most dimensions of a result that is not dense or is a part of a whole, and levels of each index map.
inline constexpr int kMostDrawDims = 12;
inline constexpr int kMostDrawLevels = 3;

/// Where results go.
struct DrawTarget {
  void* data = nullptr;
  DType dtype = DType::kF32;
  bool has_vectors = false;  // dense, and four elements can be stored at once
  std::int64_t numel = 0;
};

/// How to find elements of a result that is not a dense whole: sizes and steps in memory, outermost first, and what
/// global index each has.
struct DrawPlaces {
  std::int32_t ndim = 0;
  bool is_part = false;  // maps count; else the global index is the local one
  std::int64_t sizes[kMostDrawDims] = {};
  std::int64_t steps[kMostDrawDims] = {};
  std::int64_t global_sizes[kMostDrawDims] = {};
  std::int64_t offsets[kMostDrawDims] = {};
  std::int64_t blocks[kMostDrawDims] = {};
  std::int32_t nlevels[kMostDrawDims] = {};
  std::int64_t counts[kMostDrawDims][kMostDrawLevels] = {};
  std::int64_t strides[kMostDrawDims][kMostDrawLevels] = {};

  /// Finds element `i`, last dimension fastest: its offset in memory and its global index.
  TESSERA_HOST_DEVICE void find(std::int64_t i, std::int64_t& offset, std::int64_t& global) const {
    offset = 0;
    global = is_part ? 0 : i;
    std::int64_t step = 1;
    for (int d = ndim; d-- > 0;) {
      const std::int64_t digit = i % sizes[d];
      i /= sizes[d];
      offset += digit * steps[d];
      if (!is_part) continue;
      global += global_of(d, digit) * step;
      step *= global_sizes[d];
    }
  }
  /// The global index of a local one of dimension d (layout::IndexMap::global).
  TESSERA_HOST_DEVICE std::int64_t global_of(int d, std::int64_t local) const {
    std::int64_t at = offsets[d] + local % blocks[d];
    local /= blocks[d];
    for (int l = nlevels[d]; l-- > 0;) {
      at += local % counts[d][l] * strides[d][l];
      local /= counts[d][l];
    }
    return at;
  }
};

/// One normal number, brought to mean and deviation. Exactly the standard ones stay as drawn, zeros with their sign.
TESSERA_HOST_DEVICE inline float placed(const RandomDraw& of, float value) {
  return of.a == 0 && of.b == 1 ? value : detail::OneByOne::fma(value, of.b, of.a);
}

/// Likewise one of a pair, drawn again for element `index` of the block until it lies in the range. Attempts have calls
/// of their own, far from those that the generator counts.
TESSERA_HOST_DEVICE inline float truncated(const RandomDraw& of, std::uint64_t block, int index, float value) {
  constexpr std::uint64_t kMostAttempts = 1024;
  for (std::uint64_t attempt = 1; !(value >= of.low && value <= of.high); ++attempt) {
    if (attempt == kMostAttempts) {
      value = value < of.low ? of.low : value;
      return of.high < value ? of.high : value;
    }
    std::uint32_t words[4];
    detail::words_of_block(of.seed, of.call ^ (attempt << 48), block, words);
    float pair[2];
    detail::normals_of<detail::OneByOne>(words[index / 2 * 2], words[index / 2 * 2 + 1], pair[0], pair[1]);
    value = placed(of, pair[index % 2]);
  }
  return value;
}

/// The four elements of a block.
template <DrawKind kKind>
TESSERA_HOST_DEVICE inline void draw_block(const RandomDraw& of, std::uint64_t block, float (&to)[4]) {
  std::uint32_t words[4];
  detail::words_of_block(of.seed, of.call, block, words);
  if constexpr (kKind == DrawKind::kNormal || kKind == DrawKind::kTruncated) {
    detail::normals_of<detail::OneByOne>(words[0], words[1], to[0], to[1]);
    detail::normals_of<detail::OneByOne>(words[2], words[3], to[2], to[3]);
    for (int i = 0; i < 4; ++i) {
      to[i] = placed(of, to[i]);
      if constexpr (kKind == DrawKind::kTruncated) to[i] = truncated(of, block, i, to[i]);
    }
  } else {
    for (int i = 0; i < 4; ++i) {
      const float uniform = detail::uniform_of<detail::OneByOne>(words[i]);
      if constexpr (kKind == DrawKind::kBernoulli) {
        to[i] = uniform < of.a ? 1.0F : 0.0F;
      } else {
        to[i] = placed(of, uniform);
        // Rounding could reach the end of the range.
        if (!(of.a == 0 && of.b == 1)) to[i] = of.high < to[i] ? of.high : to[i];
      }
    }
  }
}

}  // namespace tessera::ops::cuda
