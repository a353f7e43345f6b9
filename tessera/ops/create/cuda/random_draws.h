// Draws a block of four elements of a random operator with the steps of philox.h. The kernels of random_draws.cu and
// host tests share this code, which must produce the bits of the vectorized host code.
#pragma once

#include <cstdint>

#include "tessera/base/dtype.h"
#include "tessera/ops/create/cuda/places.h"
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

/// Destination of the results.
struct DrawTarget {
  void* data = nullptr;
  DType dtype = DType::kF32;
  bool has_vectors = false;  // contiguous, and four elements can be stored in one access
  std::int64_t numel = 0;
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
