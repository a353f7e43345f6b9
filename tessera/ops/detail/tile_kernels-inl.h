// Tile kernels from formulas (pointwise/detail/formulas.h). This file is included once per Highway target. The
// remainder of a run also uses the vector code, in padded buffers, so that a value never depends on its position.
#include <complex>
#include <cstring>
#include <utility>

#include <hwy/highway.h>
#include "tessera/ops/pointwise/detail/row.h"

#if defined(TESSERA_OPS_DETAIL_TILE_KERNELS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_OPS_DETAIL_TILE_KERNELS_INL_H_
#undef TESSERA_OPS_DETAIL_TILE_KERNELS_INL_H_
#else
#define TESSERA_OPS_DETAIL_TILE_KERNELS_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace tessera::ops::HWY_NAMESPACE {

template <class Op, class T, std::size_t... kInputs>
HWY_INLINE void vector_tile(void* const* operands, std::int64_t n, std::index_sequence<kInputs...>) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::ScalableTag<T> d;
  constexpr auto kLanes = static_cast<std::int64_t>(hn::MaxLanes(hn::ScalableTag<T>()));
  T* out = static_cast<T*>(operands[0]);
  const T* in[] = {static_cast<const T*>(operands[kInputs + 1])...};
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) hn::StoreU(Op::vec(d, hn::LoadU(d, in[kInputs] + i)...), d, out + i);
  if (i == n) return;
  HWY_ALIGN T padded[sizeof...(kInputs) + 1][kLanes] = {};
  const std::size_t rest = static_cast<std::size_t>(n - i) * sizeof(T);
  (std::memcpy(padded[kInputs], in[kInputs] + i, rest), ...);
  hn::Store(Op::vec(d, hn::Load(d, padded[kInputs])...), d, padded[sizeof...(kInputs)]);
  std::memcpy(out + i, padded[sizeof...(kInputs)], rest);
}

template <class Op, class T, std::size_t... kInputs>
HWY_INLINE void plain_tile(void* const* operands, std::int64_t n, std::index_sequence<kInputs...>) {
  T* out = static_cast<T*>(operands[0]);
  const T* in[] = {static_cast<const T*>(operands[kInputs + 1])...};
  for (std::int64_t i = 0; i < n; ++i) out[i] = static_cast<T>(Op::one(in[kInputs][i]...));
}

template <class Op, class T, int kInputs>
void vector_kernel(void* const* operands, std::int64_t n) {
  vector_tile<Op, T>(operands, n, std::make_index_sequence<kInputs>());
}
template <class Op, class T, int kInputs>
void plain_kernel(void* const* operands, std::int64_t n) {
  plain_tile<Op, T>(operands, n, std::make_index_sequence<kInputs>());
}

/// Returns the kernels of Op for the compute types among Op::kTypes.
template <class Op>
constexpr detail::TileKernels kernels_of() {
  detail::TileKernels kernels;
  if constexpr ((Op::kTypes & detail::kFloats) != 0) {
    kernels.by_compute[0] = &vector_kernel<Op, float, Op::kInputs>;
    kernels.by_compute[1] = &vector_kernel<Op, double, Op::kInputs>;
  }
  if constexpr ((Op::kTypes & (detail::kIntegers | detail::kBools)) != 0) {
    kernels.by_compute[2] = &plain_kernel<Op, std::int64_t, Op::kInputs>;
  }
  if constexpr ((Op::kTypes & detail::kComplex) != 0) {
    kernels.by_compute[3] = &plain_kernel<Op, std::complex<float>, Op::kInputs>;
  }
  return kernels;
}

}  // namespace tessera::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // TESSERA_OPS_DETAIL_TILE_KERNELS_INL_H_
