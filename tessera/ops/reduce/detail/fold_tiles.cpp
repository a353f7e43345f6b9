#include "tessera/ops/reduce/detail/fold_tiles.h"

#include <algorithm>
#include <cmath>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tessera/ops/reduce/detail/fold_tiles.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h, which includes this file once per target.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace tessera::ops::detail::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

struct Add {
  template <class V>
  V operator()(V a, V b) const {
    return hn::Add(a, b);
  }
};
// If the accumulator is nan, no comparison is true and it remains nan; a nan value replaces it.
struct Max {
  template <class V>
  V operator()(V a, V b) const {
    return hn::IfThenElse(hn::Or(hn::Gt(b, a), hn::IsNaN(b)), b, a);
  }
};
struct Min {
  template <class V>
  V operator()(V a, V b) const {
    return hn::IfThenElse(hn::Or(hn::Lt(b, a), hn::IsNaN(b)), b, a);
  }
};

// Reduces eight vectors to one, in pairs.
template <class D, class T, class Op>
HWY_INLINE hn::Vec<D> fold_eight(D d, const T* HWY_RESTRICT x, std::int64_t width, Op op) {
  const auto a =
      op(op(hn::LoadU(d, x), hn::LoadU(d, x + width)), op(hn::LoadU(d, x + 2 * width), hn::LoadU(d, x + 3 * width)));
  const auto b = op(op(hn::LoadU(d, x + 4 * width), hn::LoadU(d, x + 5 * width)),
                    op(hn::LoadU(d, x + 6 * width), hn::LoadU(d, x + 7 * width)));
  return op(a, b);
}

// Reduces into lanes[] and returns their number. Pads a short end with `identity`.
template <class T, class Op>
std::size_t fold_lanes(const T* HWY_RESTRICT x, std::int64_t n, T identity, Op op, T* HWY_RESTRICT lanes) {
  const hn::ScalableTag<T> d;
  const auto width = static_cast<std::int64_t>(hn::Lanes(d));
  const std::int64_t eight = 8 * width;
  auto a0 = hn::Set(d, identity), a1 = a0, a2 = a0, a3 = a0;
  std::int64_t i = 0;
  for (; i + 4 * eight <= n; i += 4 * eight) {
    a0 = op(a0, fold_eight(d, x + i, width, op));
    a1 = op(a1, fold_eight(d, x + i + eight, width, op));
    a2 = op(a2, fold_eight(d, x + i + 2 * eight, width, op));
    a3 = op(a3, fold_eight(d, x + i + 3 * eight, width, op));
  }
  for (; i + eight <= n; i += eight) a0 = op(a0, fold_eight(d, x + i, width, op));
  for (; i + width <= n; i += width) a1 = op(a1, hn::LoadU(d, x + i));
  if (i < n) {
    HWY_ALIGN T rest[hn::MaxLanes(d)];
    std::fill_n(rest, static_cast<std::size_t>(width), identity);
    std::copy(x + i, x + n, rest);
    a2 = op(a2, hn::Load(d, rest));
  }
  hn::Store(op(op(a0, a1), op(a2, a3)), d, lanes);
  return static_cast<std::size_t>(width);
}

template <class T>
double sum_of(const T* x, std::int64_t n) {
  HWY_ALIGN T lanes[hn::MaxLanes(hn::ScalableTag<T>())];
  const std::size_t count = fold_lanes(x, n, T{0}, Add(), lanes);
  double sum = 0;
  for (std::size_t i = 0; i < count; ++i) sum += static_cast<double>(lanes[i]);
  return sum;
}

template <class T, class Op>
T extreme_of(const T* x, std::int64_t n, T identity, Op op) {
  HWY_ALIGN T lanes[hn::MaxLanes(hn::ScalableTag<T>())];
  const std::size_t count = fold_lanes(x, n, identity, op, lanes);
  T best = lanes[0];
  for (std::size_t i = 1; i < count; ++i) {
    const hn::CappedTag<T, 1> one;
    best = hn::GetLane(op(hn::Set(one, best), hn::Set(one, lanes[i])));
  }
  return best;
}

template <class T, class Op>
void fold_columns(T* HWY_RESTRICT acc, const T* HWY_RESTRICT x, std::int64_t n, Op op) {
  const hn::ScalableTag<T> d;
  const auto width = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  for (; i + width <= n; i += width) hn::StoreU(op(hn::LoadU(d, acc + i), hn::LoadU(d, x + i)), d, acc + i);
  const hn::CappedTag<T, 1> one;
  for (; i < n; ++i) hn::StoreU(op(hn::LoadU(one, acc + i), hn::LoadU(one, x + i)), one, acc + i);
}

double SumF32(const float* x, std::int64_t n) { return sum_of(x, n); }
double SumF64(const double* x, std::int64_t n) { return sum_of(x, n); }
float MaxF32(const float* x, std::int64_t n) {
  return extreme_of(x, n, -std::numeric_limits<float>::infinity(), Max());
}
double MaxF64(const double* x, std::int64_t n) {
  return extreme_of(x, n, -std::numeric_limits<double>::infinity(), Max());
}
float MinF32(const float* x, std::int64_t n) { return extreme_of(x, n, std::numeric_limits<float>::infinity(), Min()); }
double MinF64(const double* x, std::int64_t n) {
  return extreme_of(x, n, std::numeric_limits<double>::infinity(), Min());
}
void AddColumnsF32(float* acc, const float* x, std::int64_t n) { fold_columns(acc, x, n, Add()); }
void AddColumnsF64(double* acc, const double* x, std::int64_t n) { fold_columns(acc, x, n, Add()); }
void MaxColumnsF32(float* acc, const float* x, std::int64_t n) { fold_columns(acc, x, n, Max()); }
void MaxColumnsF64(double* acc, const double* x, std::int64_t n) { fold_columns(acc, x, n, Max()); }
void MinColumnsF32(float* acc, const float* x, std::int64_t n) { fold_columns(acc, x, n, Min()); }
void MinColumnsF64(double* acc, const double* x, std::int64_t n) { fold_columns(acc, x, n, Min()); }

}  // namespace
}  // namespace tessera::ops::detail::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::ops::detail {
namespace {

HWY_EXPORT(SumF32);
HWY_EXPORT(SumF64);
HWY_EXPORT(MaxF32);
HWY_EXPORT(MaxF64);
HWY_EXPORT(MinF32);
HWY_EXPORT(MinF64);
HWY_EXPORT(AddColumnsF32);
HWY_EXPORT(AddColumnsF64);
HWY_EXPORT(MaxColumnsF32);
HWY_EXPORT(MaxColumnsF64);
HWY_EXPORT(MinColumnsF32);
HWY_EXPORT(MinColumnsF64);

}  // namespace

double sum_run(const float* x, std::int64_t n) { return HWY_DYNAMIC_DISPATCH(SumF32)(x, n); }
double sum_run(const double* x, std::int64_t n) { return HWY_DYNAMIC_DISPATCH(SumF64)(x, n); }
float max_run(const float* x, std::int64_t n) { return HWY_DYNAMIC_DISPATCH(MaxF32)(x, n); }
double max_run(const double* x, std::int64_t n) { return HWY_DYNAMIC_DISPATCH(MaxF64)(x, n); }
float min_run(const float* x, std::int64_t n) { return HWY_DYNAMIC_DISPATCH(MinF32)(x, n); }
double min_run(const double* x, std::int64_t n) { return HWY_DYNAMIC_DISPATCH(MinF64)(x, n); }
void add_columns(float* acc, const float* x, std::int64_t n) { HWY_DYNAMIC_DISPATCH(AddColumnsF32)(acc, x, n); }
void add_columns(double* acc, const double* x, std::int64_t n) { HWY_DYNAMIC_DISPATCH(AddColumnsF64)(acc, x, n); }
void max_columns(float* acc, const float* x, std::int64_t n) { HWY_DYNAMIC_DISPATCH(MaxColumnsF32)(acc, x, n); }
void max_columns(double* acc, const double* x, std::int64_t n) { HWY_DYNAMIC_DISPATCH(MaxColumnsF64)(acc, x, n); }
void min_columns(float* acc, const float* x, std::int64_t n) { HWY_DYNAMIC_DISPATCH(MinColumnsF32)(acc, x, n); }
void min_columns(double* acc, const double* x, std::int64_t n) { HWY_DYNAMIC_DISPATCH(MinColumnsF64)(acc, x, n); }

}  // namespace tessera::ops::detail
#endif
