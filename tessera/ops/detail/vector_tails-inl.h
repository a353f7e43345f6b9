// Loads and stores of the last elements of a row, fewer than a vector, and the sum of a vector. This file is included
// once per vector width.
#if defined(TESSERA_OPS_DETAIL_VECTOR_TAILS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_OPS_DETAIL_VECTOR_TAILS_INL_H_
#undef TESSERA_OPS_DETAIL_VECTOR_TAILS_INL_H_
#else
#define TESSERA_OPS_DETAIL_VECTOR_TAILS_INL_H_
#endif

#include <cstdint>
#include <cstring>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace tessera::ops::detail::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <class T>
using Tag = hn::ScalableTag<T>;
template <class T>
using Vec = hn::Vec<Tag<T>>;

// Loads `count` elements, fewer than a vector, followed by `fill`.
template <class T>
HWY_INLINE Vec<T> LoadTail(const T* from, std::int64_t count, T fill = 0) {
  const Tag<T> d;
  HWY_ALIGN T padded[hn::MaxLanes(d)];
  hn::Store(hn::Set(d, fill), d, padded);
  std::memcpy(padded, from, static_cast<std::size_t>(count) * sizeof(T));
  return hn::Load(d, padded);
}

// Stores the first `count` elements.
template <class T>
HWY_INLINE void StoreTail(Vec<T> from, T* to, std::int64_t count) {
  const Tag<T> d;
  HWY_ALIGN T padded[hn::MaxLanes(d)];
  hn::Store(from, d, padded);
  std::memcpy(to, padded, static_cast<std::size_t>(count) * sizeof(T));
}

template <class T>
HWY_INLINE T SumOf(Vec<T> x) {
  return hn::GetLane(hn::SumOfLanes(Tag<T>(), x));
}

}  // namespace tessera::ops::detail::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
