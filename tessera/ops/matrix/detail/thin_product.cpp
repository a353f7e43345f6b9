#include "tessera/ops/matrix/detail/thin_product.h"

#include <algorithm>
#include <type_traits>
#include <utility>
#include <vector>

#undef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tessera/ops/matrix/detail/thin_product.cpp"  // NOLINT
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace tessera::ops::detail::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Tag = hn::ScalableTag<float>;
using Vec = hn::Vec<Tag>;
constexpr auto kLanes = static_cast<std::int64_t>(hn::MaxLanes(Tag()));
// Sums in registers: 24 of 32 vectors, or 12 of 16.
constexpr int kSums = HWY_TARGET <= HWY_AVX3 ? 24 : 12;
// Rows of a tile, which then has four columns of b: with more rows, tiles of fewer columns reach half the speed.
constexpr std::int64_t kTileRows = 6;

// A lambda that must be inlined: registers that it indexes would be memory otherwise.
#undef TESSERA_UNROLLED
#define TESSERA_UNROLLED HWY_ATTR __attribute__((always_inline))

template <class F, std::size_t... kIndexes>
HWY_INLINE void UnrolledOver(const F& f, std::index_sequence<kIndexes...>) {
  (f(std::integral_constant<std::int64_t, static_cast<std::int64_t>(kIndexes)>()), ...);
}
template <std::int64_t kCount, class F>
HWY_INLINE void Unrolled(const F& f) {
  UnrolledOver(f, std::make_index_sequence<static_cast<std::size_t>(kCount)>());
}

HWY_INLINE Vec Load(const float* from) { return hn::LoadU(Tag(), from); }
HWY_INLINE Vec Load(const bf16* from) {
  const hn::Rebind<std::uint16_t, Tag> halves;
  const auto bits = hn::LoadU(halves, reinterpret_cast<const std::uint16_t*>(from));
  const hn::Rebind<std::uint32_t, Tag> words;
  return hn::BitCast(Tag(), hn::ShiftLeft<16>(hn::PromoteTo(words, bits)));
}
HWY_INLINE float ValueOf(float x) { return x; }
HWY_INLINE float ValueOf(bf16 x) { return static_cast<float>(x); }

// kRows rows of a times kCols rows of b.
template <std::int64_t kRows, std::int64_t kCols, class T>
HWY_INLINE void Tile(const ThinProduct<T>& of, const float* a, const T* b, float* c) {
  constexpr std::int64_t kStep = 64 / static_cast<std::int64_t>(sizeof(T));  // a cache line
  constexpr std::int64_t kVectors = kStep / kLanes;
  const Tag d;
  Vec sums[kRows * kCols];
  Unrolled<kRows * kCols>([&](auto i) TESSERA_UNROLLED { sums[i] = hn::Zero(d); });
  const auto add = [&](std::int64_t x) TESSERA_UNROLLED {
    Vec right[kCols];
    Unrolled<kCols>([&](auto j) TESSERA_UNROLLED { right[j] = Load(b + j * of.b_stride + x); });
    Unrolled<kRows>([&](auto i) TESSERA_UNROLLED {
      const Vec left = Load(a + i * of.k + x);
      Unrolled<kCols>([&](auto j)
                          TESSERA_UNROLLED { sums[i * kCols + j] = hn::MulAdd(left, right[j], sums[i * kCols + j]); });
    });
  };
  std::int64_t x = 0;
  for (; x + kStep <= of.k; x += kStep) {
    Unrolled<kCols>([&](auto j) TESSERA_UNROLLED {
      __builtin_prefetch(reinterpret_cast<const char*>(b + (j + kCols) * of.b_stride + x), 0, 0);
    });
    Unrolled<kVectors>([&](auto v) TESSERA_UNROLLED { add(x + v * kLanes); });
  }
  for (; x + kLanes <= of.k; x += kLanes) add(x);
  Unrolled<kRows * kCols>([&](auto at) TESSERA_UNROLLED {
    constexpr std::int64_t kRow = at / kCols;
    constexpr std::int64_t kCol = at % kCols;
    float sum = hn::GetLane(hn::SumOfLanes(d, sums[at]));
    for (std::int64_t y = x; y < of.k; ++y) sum += a[kRow * of.k + y] * ValueOf(b[kCol * of.b_stride + y]);
    float* const to = c + kRow * of.c_stride + kCol;
    *to = of.is_added ? *to + sum : sum;
  });
}

// All rows of b with kRows rows of a.
template <std::int64_t kRows, class T>
HWY_NOINLINE void Rows(const ThinProduct<T>& of, const float* a, float* c) {
  constexpr std::int64_t kCols = std::clamp<std::int64_t>(kSums / kRows, 1, 4);
  std::int64_t j = 0;
  for (; j + kCols <= of.n; j += kCols) Tile<kRows, kCols>(of, a, of.b + j * of.b_stride, c + j);
  for (; j < of.n; ++j) Tile<kRows, 1>(of, a, of.b + j * of.b_stride, c + j);
}

// `a` has contiguous rows of k.
template <class T>
void RowsOf(const ThinProduct<T>& of, std::int64_t rows, const float* a, float* c) {
  switch (rows) {
    case 1: return Rows<1>(of, a, c);
    case 2: return Rows<2>(of, a, c);
    case 3: return Rows<3>(of, a, c);
    case 4: return Rows<4>(of, a, c);
    case 5: return Rows<5>(of, a, c);
    default: return Rows<kTileRows>(of, a, c);
  }
}

// Some rows of b at a time stay in the first-level cache for all rows of a.
template <class T>
void Multiply(const ThinProduct<T>& of) {
  std::vector<float> packed;
  const float* a = nullptr;
  if constexpr (std::is_same_v<T, float>) {
    if (of.a_stride == of.k || of.m == 1) a = of.a;
  }
  if (a == nullptr) {
    packed.resize(static_cast<std::size_t>(of.m * of.k));
    for (std::int64_t i = 0; i < of.m; ++i) {
      for (std::int64_t x = 0; x < of.k; ++x)
        packed[static_cast<std::size_t>(i * of.k + x)] = ValueOf(of.a[i * of.a_stride + x]);
    }
    a = packed.data();
  }
  if (of.m <= kTileRows) return RowsOf(of, of.m, a, of.c);
  constexpr std::int64_t kBlock = 4;
  const std::int64_t tiles = (of.m + kTileRows - 1) / kTileRows;
  const std::int64_t height = (of.m + tiles - 1) / tiles;
  for (std::int64_t j = 0; j < of.n; j += kBlock) {
    ThinProduct<T> block = of;
    block.n = std::min(kBlock, of.n - j);
    block.b = of.b + j * of.b_stride;
    for (std::int64_t i = 0; i < of.m; i += height) {
      RowsOf(block, std::min(height, of.m - i), a + i * of.k, of.c + i * of.c_stride + j);
    }
  }
}

void MultiplyF32(const ThinProduct<float>& of) { Multiply(of); }
void MultiplyBf16(const ThinProduct<bf16>& of) { Multiply(of); }

}  // namespace tessera::ops::detail::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::ops::detail {

HWY_EXPORT(MultiplyF32);
HWY_EXPORT(MultiplyBf16);

void multiply_thin(const ThinProduct<float>& product) { HWY_DYNAMIC_DISPATCH(MultiplyF32)(product); }
void multiply_thin(const ThinProduct<bf16>& product) { HWY_DYNAMIC_DISPATCH(MultiplyBf16)(product); }

}  // namespace tessera::ops::detail
#endif
