#include "tessera/ops/matrix/detail/bf16_panel.h"

#include "tessera/base/half_floats.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tessera/ops/matrix/detail/bf16_panel.cpp"  // NOLINT
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace tessera::ops::detail::HWY_NAMESPACE {

constexpr std::int64_t kDepth = 8;  // elements of bf16 in a block of 128 bits

#if HWY_TARGET <= HWY_AVX2  // and better
namespace hn = hwy::HWY_NAMESPACE;
using Pairs = hn::ScalableTag<std::uint32_t>;  // two neighbours along k each
constexpr auto kLanes = static_cast<std::int64_t>(hn::MaxLanes(Pairs()));

// Block b of the vector: kDepth elements of row 4 b.
template <class D>
HWY_INLINE hn::Vec<D> LoadBlocks(D d, const bf16* from, std::int64_t row) {
  if constexpr (hn::MaxLanes(d) <= 4) {
    const hn::Repartition<std::uint16_t, D> halves;
    return hn::BitCast(d, hn::LoadU(halves, reinterpret_cast<const std::uint16_t*>(from)));
  } else {
    const hn::Half<D> half;
    const auto upper = static_cast<std::int64_t>(hn::MaxLanes(half)) * row;
    return hn::Combine(d, LoadBlocks(half, from + upper, row), LoadBlocks(half, from, row));
  }
}

// kLanes rows by kDepth positions: a transposition of 4 x 4 pairs within each block of 128 bits.
HWY_INLINE void WidenBlock(const bf16* from, std::int64_t row, float* to, std::int64_t stride) {
  const Pairs d;
  const hn::Repartition<std::uint64_t, Pairs> wide;
  const hn::Repartition<float, Pairs> floats;
  const auto r0 = LoadBlocks(d, from, row);
  const auto r1 = LoadBlocks(d, from + row, row);
  const auto r2 = LoadBlocks(d, from + 2 * row, row);
  const auto r3 = LoadBlocks(d, from + 3 * row, row);
  const auto low01 = hn::BitCast(wide, hn::InterleaveLower(d, r0, r1));
  const auto low23 = hn::BitCast(wide, hn::InterleaveLower(d, r2, r3));
  const auto high01 = hn::BitCast(wide, hn::InterleaveUpper(d, r0, r1));
  const auto high23 = hn::BitCast(wide, hn::InterleaveUpper(d, r2, r3));
  const auto put = [&](std::int64_t x, auto pairs) HWY_ATTR {
    const auto bits = hn::BitCast(d, pairs);
    hn::StoreU(hn::BitCast(floats, hn::ShiftLeft<16>(bits)), floats, to + x * stride);
    hn::StoreU(hn::BitCast(floats, hn::And(bits, hn::Set(d, 0xffff0000U))), floats, to + (x + 1) * stride);
  };
  put(0, hn::InterleaveLower(wide, low01, low23));
  put(2, hn::InterleaveUpper(wide, low01, low23));
  put(4, hn::InterleaveLower(wide, high01, high23));
  put(6, hn::InterleaveUpper(wide, high01, high23));
}

#else
constexpr std::int64_t kLanes = 4;

void WidenBlock(const bf16* from, std::int64_t row, float* to, std::int64_t stride) {
  for (std::int64_t i = 0; i < kLanes; ++i) {
    for (std::int64_t x = 0; x < kDepth; ++x) to[x * stride + i] = from[i * row + x];
  }
}
#endif

// Rows that are contiguous along k.
void WidenTransposed(float* to, const bf16* from, std::int64_t row, std::int64_t rows, std::int64_t depth,
                     std::int64_t stride) {
  constexpr std::int64_t kStrip = 16 * kDepth;  // a few cache lines of each row
  const std::int64_t whole_rows = rows / kLanes * kLanes;
  const std::int64_t whole_depth = depth / kDepth * kDepth;
  for (std::int64_t strip = 0; strip < whole_depth; strip += kStrip) {
    for (std::int64_t i = 0; i < whole_rows; i += kLanes) {
      for (std::int64_t x = strip; x < strip + kStrip && x < whole_depth; x += kDepth) {
        WidenBlock(from + i * row + x, row, to + x * stride + i, stride);
      }
    }
  }
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t x = i < whole_rows ? whole_depth : 0; x < depth; ++x) to[x * stride + i] = from[i * row + x];
  }
}

}  // namespace tessera::ops::detail::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::ops::detail {

HWY_EXPORT(WidenTransposed);

std::int64_t panel_stride(std::int64_t rows) {
  constexpr std::int64_t kLine = 16;  // floats
  return (rows + kLine - 1) / kLine * kLine + kLine;
}

void widen_panel(float* to, const Bf16Lines& from, std::int64_t rows, std::int64_t depth) {
  const std::int64_t stride = panel_stride(rows);
  if (from.row == 1) {
    for (std::int64_t x = 0; x < depth; ++x) {
      tessera::detail::widen(to + x * stride, from.data + x * from.depth, rows);
    }
    return;
  }
  HWY_DYNAMIC_DISPATCH(WidenTransposed)(to, from.data, from.row, rows, depth, stride);
}

}  // namespace tessera::ops::detail
#endif
