// Draws a block of four elements of a random operator with the steps of philox.h. The kernels of random_draws.cu and
// host tests share this code, which must produce the bits of the vectorized host code.
#pragma once

#include <cstdint>

#include "tessera/base/dtype.h"
#include "tessera/ops/detail/philox.h"

namespace tessera::ops::cuda {

/// Distribution of a draw.
enum class DrawKind : std::uint8_t { kUniform, kNormal, kTruncated, kBernoulli };

/// A call of a random operator.
struct RandomDraw {
  std::uint64_t seed = 0;
  std::uint64_t call = 0;
  const std::int64_t* counter = nullptr;  // in device memory, added to the call; may be null
  float a = 0;                            // lower bound, mean or probability
  float b = 1;                            // range or standard deviation
  float low = 0, high = 0;                // bounds of truncated draws; high is the greatest value of uniform draws
};

/// Maximum dimensions of a result that is strided or sharded, and maximum levels of each index map.
inline constexpr int kMaxDrawDims = 12;
inline constexpr int kMaxDrawLevels = 3;

/// Destination of the results.
struct DrawTarget {
  void* data = nullptr;
  DType dtype = DType::kF32;
  bool has_vectors = false;  // contiguous, and four elements can be stored in one access
  std::int64_t numel = 0;
};

/// Offsets and global indices of the elements of a strided or sharded result: sizes and strides, outermost first, and
/// the index map of each dimension.
struct DrawPlaces {
  std::int32_t ndim = 0;
  bool is_part = false;  // uses the maps; otherwise the global index equals the local index
  std::int64_t sizes[kMaxDrawDims] = {};
  std::int64_t steps[kMaxDrawDims] = {};
  std::int64_t global_sizes[kMaxDrawDims] = {};
  std::int64_t offsets[kMaxDrawDims] = {};
  std::int64_t blocks[kMaxDrawDims] = {};
  std::int32_t nlevels[kMaxDrawDims] = {};
  std::int64_t counts[kMaxDrawDims][kMaxDrawLevels] = {};
  std::int64_t strides[kMaxDrawDims][kMaxDrawLevels] = {};

  /// Computes the offset in memory and the global index of element `i`, last dimension fastest.
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
  /// Returns the global index of a local index of dimension d (layout::IndexMap::global).
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

/// Scales a standard normal number to mean and deviation. With mean 0 and deviation 1 it is unchanged, including the
/// sign of zero.
TESSERA_HOST_DEVICE inline float placed(const RandomDraw& of, float value) {
  return of.a == 0 && of.b == 1 ? value : detail::OneByOne::fma(value, of.b, of.a);
}

/// Scales one of a pair of normal numbers and redraws it for element `index` of the block until it is in the range.
/// Attempts use separate call numbers, far from those of the generator.
TESSERA_HOST_DEVICE inline float truncated(const RandomDraw& of, std::uint64_t block, int index, float value) {
  constexpr std::uint64_t kMaxAttempts = 1024;
  for (std::uint64_t attempt = 1; !(value >= of.low && value <= of.high); ++attempt) {
    if (attempt == kMaxAttempts) {
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

/// Draws the four elements of a block.
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
