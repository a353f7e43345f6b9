#include "tessera/ops/matrix/detail/small_product.h"

#include <algorithm>
#include <type_traits>
#include <utility>

// Guarded, since the rest of this file is compiled once for each target.
#ifndef TESSERA_OPS_MATRIX_SMALL_PRODUCT_KERNEL
#define TESSERA_OPS_MATRIX_SMALL_PRODUCT_KERNEL
namespace tessera::ops::detail {
namespace {

using SmallProduct = void (*)(const GemmSizes&, float, const ProductOperand<float>&, const ProductOperand<float>&,
                              float, float*, std::int64_t);
// Elements of b, which must stay in the first-level cache; and k if b is transposed, since it is packed then.
constexpr std::int64_t kMaxRight = 8192;
constexpr std::int64_t kMaxPackedDepth = 256;

}  // namespace
}  // namespace tessera::ops::detail
#endif

#undef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tessera/ops/matrix/detail/small_product.cpp"  // NOLINT
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace tessera::ops::detail::HWY_NAMESPACE {

#if HWY_TARGET <= HWY_AVX3  // with shorter vectors the library is faster

namespace hn = hwy::HWY_NAMESPACE;

using Tag = hn::ScalableTag<float>;
using Vec = hn::Vec<Tag>;
constexpr auto kLanes = static_cast<std::int64_t>(hn::MaxLanes(Tag()));
// A tile is 6 rows of four vectors: 24 sums, the four vectors of b and one number of a take 29 of 32 registers.
constexpr std::int64_t kTileRows = 6;
constexpr std::int64_t kTileVectors = 4;
constexpr std::int64_t kTileCols = kTileVectors * kLanes;
// A packed transposed b: at most kMaxRight elements, and less than a vector after each k.
constexpr std::int64_t kPanel = kMaxRight + kMaxPackedDepth * (kLanes - 1);

// A lambda that must be inlined: registers that it indexes would be memory otherwise.
#undef TESSERA_UNROLLED
#define TESSERA_UNROLLED HWY_ATTR __attribute__((always_inline))

// Calls f(0), f(1) ... f(kCount - 1) with constants.
template <class F, std::size_t... kIndexes>
HWY_INLINE void UnrolledOver(const F& f, std::index_sequence<kIndexes...>) {
  (f(std::integral_constant<std::int64_t, static_cast<std::int64_t>(kIndexes)>()), ...);
}
template <std::int64_t kCount, class F>
HWY_INLINE void Unrolled(const F& f) {
  UnrolledOver(f, std::make_index_sequence<static_cast<std::size_t>(kCount)>());
}

// The columns of b that a tile reads; the row of the next k is `stride` elements further.
struct Columns {
  const float* data;
  std::int64_t stride;
  std::int64_t count;
};
struct Result {
  float alpha;
  float beta;
  float* data;
  std::int64_t stride;
  bool is_plain;  // alpha is 1 and beta 0
};

// kRows rows of c. Rows of a, or columns of a transposed a, are `a_stride` elements apart.
template <std::int64_t kRows, std::int64_t kVectors, bool kIsWhole, bool kIsTransposed>
HWY_INLINE void Tile(std::int64_t k, const float* a, std::int64_t a_stride, const Columns& b, const Result& c) {
  const Tag d;
  const auto last = hn::FirstN(d, static_cast<std::size_t>(b.count - (kVectors - 1) * kLanes));
  const auto load = [&](const float* from, auto v) TESSERA_UNROLLED {
    if constexpr (!kIsWhole && v == kVectors - 1) {
      return hn::MaskedLoad(last, d, from + v * kLanes);
    } else {
      return hn::LoadU(d, from + v * kLanes);
    }
  };
  Vec sums[kRows * kVectors];
  Unrolled<kRows * kVectors>([&](auto i) TESSERA_UNROLLED { sums[i] = hn::Zero(d); });
  const float* right = b.data;
  for (std::int64_t x = 0; x < k; ++x, right += b.stride, a += kIsTransposed ? a_stride : 1) {
    Vec r[kVectors];
    Unrolled<kVectors>([&](auto v) TESSERA_UNROLLED { r[v] = load(right, v); });
    Unrolled<kRows>([&](auto i) TESSERA_UNROLLED {
      const Vec l = hn::Set(d, a[kIsTransposed ? i : i * a_stride]);
      Unrolled<kVectors>(
          [&](auto v) TESSERA_UNROLLED { sums[i * kVectors + v] = hn::MulAdd(l, r[v], sums[i * kVectors + v]); });
    });
  }
  const auto store = [&](auto at, Vec made) TESSERA_UNROLLED {
    constexpr std::int64_t kVector = at % kVectors;
    float* to = c.data + at / kVectors * c.stride + kVector * kLanes;
    if constexpr (!kIsWhole && kVector == kVectors - 1) {
      hn::BlendedStore(made, last, d, to);
    } else {
      hn::StoreU(made, d, to);
    }
  };
  if (c.is_plain) {
    Unrolled<kRows * kVectors>([&](auto at) TESSERA_UNROLLED { store(at, sums[at]); });
    return;
  }
  const Vec alpha = hn::Set(d, c.alpha);
  const Vec beta = hn::Set(d, c.beta);
  Unrolled<kRows * kVectors>([&](auto at) TESSERA_UNROLLED {
    constexpr std::integral_constant<std::int64_t, at % kVectors> kVector;
    Vec made = hn::Mul(alpha, sums[at]);
    if (c.beta != 0) made = hn::MulAdd(beta, load(c.data + at / kVectors * c.stride, kVector), made);
    store(at, made);
  });
}

// All rows of one block of columns.
template <std::int64_t kVectors, bool kIsWhole, bool kIsTransposed>
HWY_NOINLINE void Rows(std::int64_t m, std::int64_t k, const float* a, std::int64_t a_stride, const Columns& b,
                       Result c) {
  const std::int64_t a_row = kIsTransposed ? 1 : a_stride;
  const auto tiles = [&](auto rows) TESSERA_UNROLLED {
    for (; m >= rows; m -= rows, a += rows * a_row, c.data += rows * c.stride) {
      Tile<rows, kVectors, kIsWhole, kIsTransposed>(k, a, a_stride, b, c);
    }
  };
  tiles(std::integral_constant<std::int64_t, kTileRows>());
  tiles(std::integral_constant<std::int64_t, 4>());
  tiles(std::integral_constant<std::int64_t, 2>());
  tiles(std::integral_constant<std::int64_t, 1>());
}

// Blocks of four elements side by side, `step` apart.
template <class D>
HWY_INLINE hn::Vec<D> LoadBlocks(D d, const float* from, std::int64_t step) {
  if constexpr (hn::MaxLanes(D()) == 4) {
    return hn::LoadU(d, from);
  } else {
    const hn::Half<D> half;
    constexpr auto kBlocks = static_cast<std::int64_t>(hn::MaxLanes(hn::Half<D>()) / 4);
    return hn::Combine(d, LoadBlocks(half, from + kBlocks * step, step), LoadBlocks(half, from, step));
  }
}

// Four numbers along k of as many columns as a vector has.
HWY_INLINE void PackBlock(const float* from, std::int64_t stride, float* to, std::int64_t width) {
  const Tag d;
  const auto a = LoadBlocks(d, from, 4 * stride);
  const auto b = LoadBlocks(d, from + stride, 4 * stride);
  const auto c = LoadBlocks(d, from + 2 * stride, 4 * stride);
  const auto e = LoadBlocks(d, from + 3 * stride, 4 * stride);
  const auto ac_low = hn::InterleaveLower(d, a, c);
  const auto ac_high = hn::InterleaveUpper(d, a, c);
  const auto be_low = hn::InterleaveLower(d, b, e);
  const auto be_high = hn::InterleaveUpper(d, b, e);
  hn::StoreU(hn::InterleaveLower(d, ac_low, be_low), d, to);
  hn::StoreU(hn::InterleaveUpper(d, ac_low, be_low), d, to + width);
  hn::StoreU(hn::InterleaveLower(d, ac_high, be_high), d, to + 2 * width);
  hn::StoreU(hn::InterleaveUpper(d, ac_high, be_high), d, to + 3 * width);
}

// Copies columns of a transposed b into rows, one for each k, `width` elements apart.
void Pack(const float* b, std::int64_t stride, std::int64_t count, std::int64_t k, float* to, std::int64_t width) {
  const std::int64_t columns = count / kLanes * kLanes;  // that are packed in vectors
  const std::int64_t depth = k / 4 * 4;
  for (std::int64_t j = 0; j < columns; j += kLanes) {
    for (std::int64_t x = 0; x < depth; x += 4) PackBlock(b + j * stride + x, stride, to + x * width + j, width);
  }
  for (std::int64_t j = 0; j < count; ++j) {
    for (std::int64_t x = j < columns ? depth : 0; x < k; ++x) to[x * width + j] = b[j * stride + x];
  }
}

template <bool kIsTransposed>
void RowsOf(std::int64_t m, std::int64_t k, const ProductOperand<float>& a, const Columns& b, const Result& c) {
  const auto run = [&](auto vectors) {
    const bool is_whole = b.count == vectors * kLanes;
    (is_whole ? &Rows<vectors, true, kIsTransposed> : &Rows<vectors, false, kIsTransposed>)(m, k, a.data, a.stride, b,
                                                                                            c);
  };
  switch ((b.count + kLanes - 1) / kLanes) {
    case 1: return run(std::integral_constant<std::int64_t, 1>());
    case 2: return run(std::integral_constant<std::int64_t, 2>());
    case 3: return run(std::integral_constant<std::int64_t, 3>());
    default: return run(std::integral_constant<std::int64_t, kTileVectors>());
  }
}

void Multiply(const GemmSizes& s, float alpha, const ProductOperand<float>& a, const ProductOperand<float>& b,
              float beta, float* c, std::int64_t c_stride) {
  HWY_ALIGN float panel[kPanel];
  for (std::int64_t col = 0; col < s.n; col += kTileCols) {
    Columns columns = {b.data + col, b.stride, std::min(kTileCols, s.n - col)};
    if (b.is_transposed) {
      const std::int64_t width = (columns.count + kLanes - 1) / kLanes * kLanes;
      Pack(b.data + col * b.stride, b.stride, columns.count, s.k, panel, width);
      columns.data = panel;
      columns.stride = width;
    }
    const Result result = {alpha, beta, c + col, c_stride, alpha == 1 && beta == 0};
    a.is_transposed ? RowsOf<true>(s.m, s.k, a, columns, result) : RowsOf<false>(s.m, s.k, a, columns, result);
  }
}

#endif

SmallProduct Kernel() {
#if HWY_TARGET <= HWY_AVX3
  return &Multiply;
#else
  return nullptr;
#endif
}

}  // namespace tessera::ops::detail::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::ops::detail {
namespace {

HWY_EXPORT(Kernel);

SmallProduct kernel() {
  static const SmallProduct kKernel = HWY_DYNAMIC_DISPATCH(Kernel)();
  return kKernel;
}

// Bounds measured on an AMD EPYC with AVX-512 (Zen 4). Packing a transposed b must pay for itself in
// rows.
constexpr std::int64_t kMaxWork = std::int64_t{1} << 19;  // multiplications
constexpr std::int64_t kMinCols = 8;
constexpr std::int64_t kMinRowsIfPacked = 16;

}  // namespace

bool is_small_product(const GemmSizes& s, bool is_b_transposed) {
  if (s.n < kMinCols || s.n * s.k > kMaxRight || s.m * s.n * s.k > kMaxWork) return false;
  if (is_b_transposed && (s.m < kMinRowsIfPacked || s.k > kMaxPackedDepth)) return false;
  return kernel() != nullptr;
}

void multiply_small(const GemmSizes& sizes, float alpha, const ProductOperand<float>& a, const ProductOperand<float>& b,
                    float beta, float* c, std::int64_t c_stride) {
  kernel()(sizes, alpha, a, b, beta, c, c_stride);
}

}  // namespace tessera::ops::detail
#endif
