#include "tessera/ops/nn/detail/paged_kernels.h"

#undef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tessera/ops/nn/detail/paged_kernels.cpp"  // NOLINT
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
#include "tessera/ops/detail/vector_tails-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::ops::detail::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// One product of a query with a key.
template <class T>
HWY_INLINE T Dot(const T* q, const T* key, std::int64_t width) {
  const Tag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  auto sum = hn::Zero(d);
  std::int64_t c = 0;
  for (; c + lanes <= width; c += lanes) sum = hn::MulAdd(hn::LoadU(d, q + c), hn::LoadU(d, key + c), sum);
  if (c < width) {
    const std::int64_t rest = width - c;
    sum = hn::MulAdd(LoadTail(q + c, rest), LoadTail(key + c, rest), sum);
  }
  return SumOf<T>(sum);
}

// Products of a query with four keys: their sums do not wait for each other.
template <class T>
HWY_INLINE void DotFour(const T* q, const PageRows<T>& keys, std::int64_t j, T* to) {
  const Tag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const T* at = keys.data + j * keys.stride;
  const std::int64_t step = keys.stride;
  auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
  std::int64_t c = 0;
  for (; c + lanes <= keys.width; c += lanes) {
    const auto x = hn::LoadU(d, q + c);
    s0 = hn::MulAdd(x, hn::LoadU(d, at + c), s0);
    s1 = hn::MulAdd(x, hn::LoadU(d, at + step + c), s1);
    s2 = hn::MulAdd(x, hn::LoadU(d, at + 2 * step + c), s2);
    s3 = hn::MulAdd(x, hn::LoadU(d, at + 3 * step + c), s3);
  }
  if (c < keys.width) {
    const std::int64_t rest = keys.width - c;
    const auto x = LoadTail(q + c, rest);
    s0 = hn::MulAdd(x, LoadTail(at + c, rest), s0);
    s1 = hn::MulAdd(x, LoadTail(at + step + c, rest), s1);
    s2 = hn::MulAdd(x, LoadTail(at + 2 * step + c, rest), s2);
    s3 = hn::MulAdd(x, LoadTail(at + 3 * step + c, rest), s3);
  }
  to[0] = SumOf<T>(s0);
  to[1] = SumOf<T>(s1);
  to[2] = SumOf<T>(s2);
  to[3] = SumOf<T>(s3);
}

template <class T>
void Scores(const T* q, std::int64_t queries, const PageRows<T>& keys, T* scores, std::int64_t score_stride) {
  for (std::int64_t i = 0; i < queries; ++i, q += keys.width, scores += score_stride) {
    std::int64_t j = 0;
    for (; j + 4 <= keys.count; j += 4) DotFour(q, keys, j, scores + j);
    for (; j < keys.count; ++j) scores[j] = Dot(q, keys.data + j * keys.stride, keys.width);
  }
}

template <class T>
void AddValues(const T* p, std::int64_t p_stride, std::int64_t queries, const PageRows<T>& values, T* out) {
  const Tag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t i = 0; i < queries; ++i, p += p_stride, out += values.width) {
    std::int64_t c = 0;
    for (; c + lanes <= values.width; c += lanes) {
      const T* at = values.data + c;
      auto even = hn::LoadU(d, out + c);
      auto odd = hn::Zero(d);
      std::int64_t j = 0;
      for (; j + 2 <= values.count; j += 2, at += 2 * values.stride) {
        even = hn::MulAdd(hn::Set(d, p[j]), hn::LoadU(d, at), even);
        odd = hn::MulAdd(hn::Set(d, p[j + 1]), hn::LoadU(d, at + values.stride), odd);
      }
      if (j < values.count) even = hn::MulAdd(hn::Set(d, p[j]), hn::LoadU(d, at), even);
      hn::StoreU(hn::Add(even, odd), d, out + c);
    }
    if (c == values.width) continue;
    const std::int64_t rest = values.width - c;
    auto sum = LoadTail(out + c, rest);
    for (std::int64_t j = 0; j < values.count; ++j) {
      sum = hn::MulAdd(hn::Set(d, p[j]), LoadTail(values.data + j * values.stride + c, rest), sum);
    }
    StoreTail<T>(sum, out + c, rest);
  }
}

template <class T>
const PagedKernels<T>* Kernels() {
  static constexpr PagedKernels<T> kAll = {&Scores<T>, &AddValues<T>};
  return &kAll;
}
const PagedKernels<float>* FloatPages() { return Kernels<float>(); }
const PagedKernels<double>* DoublePages() { return Kernels<double>(); }

}  // namespace tessera::ops::detail::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::ops::detail {

HWY_EXPORT(FloatPages);
HWY_EXPORT(DoublePages);

template <>
const PagedKernels<float>& paged_kernels<float>() {
  static const PagedKernels<float>* const all = HWY_DYNAMIC_DISPATCH(FloatPages)();
  return *all;
}
template <>
const PagedKernels<double>& paged_kernels<double>() {
  static const PagedKernels<double>* const all = HWY_DYNAMIC_DISPATCH(DoublePages)();
  return *all;
}

}  // namespace tessera::ops::detail
#endif
