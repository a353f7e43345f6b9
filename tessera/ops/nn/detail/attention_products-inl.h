// Products of attention in register tiles, and the exponential, for attention_kernels.cpp. Included once per vector
// width. A tile is kRows rows of one or two vectors; its left operand is read one number at a time, its right operand
// in vectors.
#if defined(TESSERA_OPS_NN_ATTENTION_PRODUCTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_OPS_NN_ATTENTION_PRODUCTS_INL_H_
#undef TESSERA_OPS_NN_ATTENTION_PRODUCTS_INL_H_
#else
#define TESSERA_OPS_NN_ATTENTION_PRODUCTS_INL_H_
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>
#include "tessera/ops/nn/detail/attention_kernels.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::ops::detail::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <class T>
using Tag = hn::CappedTag<T, 64 / sizeof(T)>;
template <class T>
using Vec = hn::Vec<Tag<T>>;

template <class T>
inline constexpr std::int64_t kLanes = static_cast<std::int64_t>(hn::MaxLanes(Tag<T>()));
inline constexpr std::int64_t kPanelVectors = 4;
template <class T>
inline constexpr std::int64_t kPanel = kPanelVectors* kLanes<T>;
// Two vectors per row: 16 sums in the 32 registers of AVX-512, or 8 in 16. A tile of queries is a fraction of one
// vector.
inline constexpr std::int64_t kMaxRows = HWY_TARGET <= HWY_AVX3 ? 8 : 4;
template <class T>
inline constexpr std::int64_t kRows = std::min(kMaxRows, kLanes<T>);

// Exponentials in f32 are to the base 2.
template <class T>
inline constexpr double kScoreUnit = sizeof(T) == 4 ? 1.4426950408889634 : 1.0;

// The lambda must be inlined: otherwise the registers that it indexes are in memory.
#undef TESSERA_UNROLLED
#define TESSERA_UNROLLED HWY_ATTR __attribute__((always_inline))

// Calls f(0), f(1) ... f(kCount - 1) with constants, so that each call indexes registers.
template <class F, std::size_t... kIndexes>
HWY_INLINE void UnrolledOver(const F& f, std::index_sequence<kIndexes...>) {
  (f(std::integral_constant<std::int64_t, static_cast<std::int64_t>(kIndexes)>()), ...);
}
template <std::int64_t kCount, class F>
HWY_INLINE void Unrolled(const F& f) {
  UnrolledOver(f, std::make_index_sequence<static_cast<std::size_t>(kCount)>());
}

// The left operand of a tile: number x of row i, by pointers to its rows. Rows beyond the end of a block repeat its
// last row.
template <class T>
struct RowPointers {
  HWY_INLINE RowPointers(AttentionRows<const T> of, std::int64_t first, std::int64_t count) {
    Unrolled<kRows<T>>([&](auto i) TESSERA_UNROLLED { at[i] = of.data + std::min(first + i, count - 1) * of.stride; });
  }
  HWY_INLINE T operator()(std::int64_t i, std::int64_t x) const { return at[i][x]; }
  const T* at[kRows<T>];
};
// The left operand of a tile with fixed strides.
template <class T, std::int64_t kRowStep, std::int64_t kStep>
struct Fixed {
  HWY_INLINE T operator()(std::int64_t i, std::int64_t x) const { return at[i * kRowStep + x * kStep]; }
  const T* at;
};

template <std::int64_t kCount, class V>
HWY_INLINE void Clear(V* c) {
  Unrolled<kCount>([&](auto i) TESSERA_UNROLLED { c[i] = hn::Zero(hn::DFromV<V>()); });
}

// Computes c[i, v] += sum over x < depth of left(i, x) * right[x, v].
template <int kVectors, class Left, class T, class V>
HWY_INLINE void MultiplyAdd(std::int64_t depth, const Left& left, const T* right, std::int64_t stride, V* c) {
  const Tag<T> d;
  for (std::int64_t x = 0; x < depth; ++x, right += stride) {
    V r[kVectors];
    Unrolled<kVectors>([&](auto v) TESSERA_UNROLLED { r[v] = hn::LoadU(d, right + v * kLanes<T>); });
    Unrolled<kRows<T>>([&](auto i) TESSERA_UNROLLED {
      const auto l = hn::Set(d, left(i, x));
      Unrolled<kVectors>([&](auto v)
                             TESSERA_UNROLLED { c[i * kVectors + v] = hn::MulAdd(l, r[v], c[i * kVectors + v]); });
    });
  }
}

// Computes one tile of AddProduct.
template <int kVectors, class Left, class T>
HWY_INLINE void AddTile(std::int64_t depth, const Left& left, AttentionRows<const T> right, bool is_added, T* to,
                        std::int64_t width) {
  const Tag<T> d;
  Vec<T> c[kRows<T> * kVectors];
  if (is_added) {
    Unrolled<kRows<T> * kVectors>([&](auto at) TESSERA_UNROLLED {
      c[at] = hn::LoadU(d, to + at / kVectors * width + at % kVectors * kLanes<T>);
    });
  } else {
    Clear<kRows<T> * kVectors>(c);
  }
  MultiplyAdd<kVectors>(depth, left, right.data, right.stride, c);
  Unrolled<kRows<T> * kVectors>(
      [&](auto at) TESSERA_UNROLLED { hn::StoreU(c[at], d, to + at / kVectors * width + at % kVectors * kLanes<T>); });
}

// Computes to[i, :] (+)= sum over x < depth of left(i, x) * right[x, :] for the rows of a tile. `width` is a multiple
// of lanes.
template <class Left, class T>
HWY_INLINE void AddProduct(std::int64_t depth, const Left& left, AttentionRows<const T> right, std::int64_t width,
                           bool is_added, T* to) {
  std::int64_t c = 0;
  for (; c + 2 * kLanes<T> <= width; c += 2 * kLanes<T>) {
    AddTile<2>(depth, left, AttentionRows<const T>{right.data + c, right.stride}, is_added, to + c, width);
  }
  if (c < width) AddTile<1>(depth, left, AttentionRows<const T>{right.data + c, right.stride}, is_added, to + c, width);
}

// Computes 2^x as 2^n 2^r with integer n and abs(r) <= 1/2; a polynomial computes 2^r. The error is at most 1 ulp;
// results below the least normal number are 0.
template <class D>
HWY_INLINE hn::Vec<D> Exp2F32(D d, hn::Vec<D> x) {
  const hn::RebindToSigned<D> di;
  // Adding and subtracting 1.5 * 2^23 yields the nearest integer; the low bits of the sum hold it.
  const auto magic = hn::Set(d, 12582912.0F);
  const auto biased = hn::Add(x, magic);
  const auto r = hn::Sub(x, hn::Sub(biased, magic));
  auto q = hn::MulAdd(hn::Set(d, 0.00015453163F), r, hn::Set(d, 0.0013390863F));
  q = hn::MulAdd(q, r, hn::Set(d, 0.009618083F));
  q = hn::MulAdd(q, r, hn::Set(d, 0.05550357F));
  q = hn::MulAdd(q, r, hn::Set(d, 0.2402265F));
  q = hn::MulAdd(q, r, hn::Set(d, 0.6931472F));
  q = hn::MulAdd(q, r, hn::Set(d, 1.0F));
  const auto bits = hn::Add(hn::BitCast(di, q), hn::ShiftLeft<23>(hn::BitCast(di, biased)));
  // A nan does not compare below the bound and remains nan.
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -125.5F)), hn::BitCast(d, bits));
}

// Returns the exponential of x / score_unit.
template <class D>
HWY_INLINE hn::Vec<D> ExpOfUnits(D d, hn::Vec<D> x) {
  if constexpr (sizeof(hn::TFromD<D>) == 4) {
    return Exp2F32(d, x);
  } else {
    return hn::Exp(d, x);
  }
}

#if HWY_TARGET != HWY_SCALAR
// Loads blocks of 16 bytes, `step` apart, into one vector.
template <class D, class T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> LoadBlocks(D d, const T* from, std::int64_t step) {
  if constexpr (hn::MaxLanes(D()) * sizeof(T) == 16) {
    (void)step;
    return hn::LoadU(d, from);
  } else {
    const hn::Half<D> half;
    constexpr auto kBlocks = static_cast<std::int64_t>(hn::MaxLanes(hn::Half<D>()) * sizeof(T) / 16);
    return hn::Combine(d, LoadBlocks(half, from + kBlocks * step, step), LoadBlocks(half, from, step));
  }
}

// Transposes and scales a tile: the columns of a block and the rows of a vector.
template <class T>
HWY_INLINE void TransposeColumns(AttentionRows<const T> from, T by, T* to) {
  const Tag<T> d;
  constexpr auto kBlock = static_cast<std::int64_t>(16 / sizeof(T));
  const auto factor = hn::Set(d, by);
  const auto row = [&](std::int64_t i) HWY_ATTR {
    return hn::Mul(factor, LoadBlocks(d, from.data + i * from.stride, kBlock * from.stride));
  };
  const auto a = row(0);
  const auto b = row(1);
  if constexpr (kBlock == 2) {
    hn::StoreU(hn::InterleaveLower(d, a, b), d, to);
    hn::StoreU(hn::InterleaveUpper(d, a, b), d, to + kPanel<T>);
  } else {
    const auto c = row(2);
    const auto e = row(3);
    const auto ac_low = hn::InterleaveLower(d, a, c);
    const auto ac_high = hn::InterleaveUpper(d, a, c);
    const auto be_low = hn::InterleaveLower(d, b, e);
    const auto be_high = hn::InterleaveUpper(d, b, e);
    hn::StoreU(hn::InterleaveLower(d, ac_low, be_low), d, to);
    hn::StoreU(hn::InterleaveUpper(d, ac_low, be_low), d, to + kPanel<T>);
    hn::StoreU(hn::InterleaveLower(d, ac_high, be_high), d, to + 2 * kPanel<T>);
    hn::StoreU(hn::InterleaveUpper(d, ac_high, be_high), d, to + 3 * kPanel<T>);
  }
}
#endif

template <class T>
void PackColumns(AttentionRows<const T> rows, std::int64_t count, std::int64_t width, T by, T* columns) {
  std::int64_t whole_rows = 0;  // rows and columns that are transposed in vectors
  std::int64_t whole_width = 0;
#if HWY_TARGET != HWY_SCALAR
  constexpr auto kBlock = static_cast<std::int64_t>(16 / sizeof(T));
  whole_rows = count / kLanes<T> * kLanes<T>;
  whole_width = width / kBlock * kBlock;
  for (std::int64_t i = 0; i < whole_rows; i += kLanes<T>) {
    for (std::int64_t c = 0; c < whole_width; c += kBlock) {
      TransposeColumns(AttentionRows<const T>{rows.data + i * rows.stride + c, rows.stride}, by,
                       columns + c * kPanel<T> + i);
    }
  }
#endif
  for (std::int64_t c = 0; c < width; ++c) {
    T* const to = columns + c * kPanel<T>;
    for (std::int64_t i = c < whole_width ? whole_rows : 0; i < count; ++i) to[i] = by * rows.data[i * rows.stride + c];
    std::fill(to + count, to + kPanel<T>, T(0));
  }
}

}  // namespace tessera::ops::detail::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
