#include "tessera/ops/nn/detail/row_kernels.h"

#include <cmath>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tessera/ops/nn/detail/row_kernels.cpp"  // NOLINT
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
#include "tessera/ops/detail/exp-inl.h"
#include "tessera/ops/detail/vector_tails-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::ops::detail::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// A row, `i` elements in: a complete vector, or `count` elements at the end.
template <class T>
struct Source {
  const T* at;
  T fill = 0;
  HWY_INLINE Vec<T> operator()(std::int64_t i) const { return hn::LoadU(Tag<T>(), at + i); }
  HWY_INLINE Vec<T> operator()(std::int64_t i, std::int64_t count) const { return LoadTail(at + i, count, fill); }
};
// Loads from a row, or gives `fill` if there is no row.
template <class T>
struct OptionalSource {
  const T* at;
  T fill;
  HWY_INLINE Vec<T> operator()(std::int64_t i) const {
    return at == nullptr ? hn::Set(Tag<T>(), fill) : hn::LoadU(Tag<T>(), at + i);
  }
  HWY_INLINE Vec<T> operator()(std::int64_t i, std::int64_t count) const {
    return at == nullptr ? hn::Set(Tag<T>(), fill) : LoadTail(at + i, count, fill);
  }
};

// Computes to = f(vectors of the sources) over the row.
template <class T, class F, class... S>
HWY_INLINE void Map(T* to, std::int64_t n, const F& f, const S&... sources) {
  const Tag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    const auto first = f(sources(i)...);
    const auto second = f(sources(i + lanes)...);
    hn::StoreU(first, d, to + i);
    hn::StoreU(second, d, to + i + lanes);
  }
  for (; i + lanes <= n; i += lanes) hn::StoreU(f(sources(i)...), d, to + i);
  if (i < n) StoreTail<T>(f(sources(i, n - i)...), to + i, n - i);
}

// Reduces the row by f(accumulator, vectors) in four accumulators that start as `start`. Lanes after the end have the
// fill value of the sources, which must not change the result.
template <class T, class F, class Join, class... S>
HWY_INLINE Vec<T> Fold(std::int64_t n, T start, const F& f, const Join& join, const S&... sources) {
  const Tag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  auto a = hn::Set(d, start);
  auto b = a;
  auto c = a;
  auto e = a;
  std::int64_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    a = f(a, sources(i)...);
    b = f(b, sources(i + lanes)...);
    c = f(c, sources(i + 2 * lanes)...);
    e = f(e, sources(i + 3 * lanes)...);
  }
  for (; i + lanes <= n; i += lanes) a = f(a, sources(i)...);
  if (i < n) b = f(b, sources(i, n - i)...);
  return join(join(a, b), join(c, e));
}

template <class T>
struct AddOf {
  HWY_INLINE Vec<T> operator()(Vec<T> a, Vec<T> b) const { return hn::Add(a, b); }
};
template <class T>
struct MaxOf {
  HWY_INLINE Vec<T> operator()(Vec<T> a, Vec<T> b) const { return hn::Max(a, b); }
};
template <class T>
struct MulAddOf {
  HWY_INLINE Vec<T> operator()(Vec<T> sum, Vec<T> x, Vec<T> y) const { return hn::MulAdd(x, y, sum); }
};

template <class T>
T Max(const T* x, std::int64_t n) {
  constexpr T kMin = -std::numeric_limits<T>::infinity();
  const auto most = Fold<T>(n, kMin, MaxOf<T>(), MaxOf<T>(), Source<T>{x, kMin});
  return hn::GetLane(hn::MaxOfLanes(Tag<T>(), most));
}

// Adds exp(x - shift) to the sum and stores it if there is a destination.
template <class T>
T ExpSum(const T* x, T shift, T* y, std::int64_t n) {
  const Tag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto by = hn::Set(d, shift);
  auto a = hn::Zero(d);
  auto b = a;
  std::int64_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    const auto first = ops::HWY_NAMESPACE::exp_of_not_positive(d, hn::Sub(hn::LoadU(d, x + i), by));
    const auto second = ops::HWY_NAMESPACE::exp_of_not_positive(d, hn::Sub(hn::LoadU(d, x + i + lanes), by));
    hn::StoreU(first, d, y + i);
    hn::StoreU(second, d, y + i + lanes);
    a = hn::Add(a, first);
    b = hn::Add(b, second);
  }
  for (; i + lanes <= n; i += lanes) {
    const auto value = ops::HWY_NAMESPACE::exp_of_not_positive(d, hn::Sub(hn::LoadU(d, x + i), by));
    hn::StoreU(value, d, y + i);
    a = hn::Add(a, value);
  }
  if (i < n) {
    const auto value = ops::HWY_NAMESPACE::exp_of_not_positive(
        d, hn::Sub(LoadTail<T>(x + i, n - i, -std::numeric_limits<T>::infinity()), by));
    StoreTail<T>(value, y + i, n - i);
    b = hn::Add(b, value);
  }
  return SumOf<T>(hn::Add(a, b));
}

template <class T>
struct AddExp {
  Vec<T> shift;
  HWY_INLINE Vec<T> operator()(Vec<T> sum, Vec<T> x) const {
    return hn::Add(sum, ops::HWY_NAMESPACE::exp_of_not_positive(Tag<T>(), hn::Sub(x, shift)));
  }
};
template <class T>
T SumExp(const T* x, T shift, std::int64_t n) {
  const auto sums = Fold<T>(n, T(0), AddExp<T>{hn::Set(Tag<T>(), shift)}, AddOf<T>(),
                            Source<T>{x, -std::numeric_limits<T>::infinity()});
  return SumOf<T>(sums);
}

template <class T>
struct Times {
  Vec<T> by;
  HWY_INLINE Vec<T> operator()(Vec<T> x) const { return hn::Mul(x, by); }
};
template <class T>
void Scale(const T* x, T by, T* y, std::int64_t n) {
  Map<T>(y, n, Times<T>{hn::Set(Tag<T>(), by)}, Source<T>{x});
}
template <class T>
struct Plus {
  Vec<T> by;
  HWY_INLINE Vec<T> operator()(Vec<T> x) const { return hn::Add(x, by); }
};
template <class T>
void Shift(const T* x, T by, T* y, std::int64_t n) {
  Map<T>(y, n, Plus<T>{hn::Set(Tag<T>(), by)}, Source<T>{x});
}

template <class T>
T Sum(const T* x, std::int64_t n) {
  return SumOf<T>(Fold<T>(n, T(0), AddOf<T>(), AddOf<T>(), Source<T>{x}));
}
template <class T>
T Dot(const T* x, const T* y, std::int64_t n) {
  return SumOf<T>(Fold<T>(n, T(0), MulAddOf<T>(), AddOf<T>(), Source<T>{x}, Source<T>{y}));
}

template <class T>
struct AddScaledOf {
  Vec<T> by;
  HWY_INLINE Vec<T> operator()(Vec<T> y, Vec<T> x) const { return hn::MulAdd(x, by, y); }
};
template <class T>
void AddScaled(const T* x, T by, T* y, std::int64_t n) {
  Map<T>(y, n, AddScaledOf<T>{hn::Set(Tag<T>(), by)}, Source<T>{y}, Source<T>{x});
}

template <class T>
struct SoftmaxGradientOf {
  Vec<T> dot;
  HWY_INLINE Vec<T> operator()(Vec<T> grad, Vec<T> y) const { return hn::Mul(y, hn::Sub(grad, dot)); }
};
template <class T>
void SoftmaxGradient(const T* grad, const T* y, T* dx, std::int64_t n) {
  Map<T>(dx, n, SoftmaxGradientOf<T>{hn::Set(Tag<T>(), Dot<T>(grad, y, n))}, Source<T>{grad}, Source<T>{y});
}
template <class T>
void SoftmaxGradientStreamed(const T* grad, const T* y, T* dx, std::int64_t n) {
  const Tag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const std::int64_t whole = n / lanes * lanes;
  if (reinterpret_cast<std::uintptr_t>(dx) % (hn::Lanes(d) * sizeof(T)) != 0) return SoftmaxGradient<T>(grad, y, dx, n);
  const SoftmaxGradientOf<T> f{hn::Set(d, Dot<T>(grad, y, n))};
  for (std::int64_t i = 0; i < whole; i += lanes) {
    hn::Stream(f(hn::LoadU(d, grad + i), hn::LoadU(d, y + i)), d, dx + i);
  }
  Map<T>(dx + whole, n - whole, f, Source<T>{grad + whole}, Source<T>{y + whole});
}

template <class T>
void AttentionGradient(const T* p, const T* dp, T delta, T* ds, std::int64_t n) {
  Map<T>(ds, n, SoftmaxGradientOf<T>{hn::Set(Tag<T>(), delta)}, Source<T>{dp}, Source<T>{p});
}

template <class T>
struct LogSoftmaxGradientOf {
  Vec<T> sum;
  HWY_INLINE Vec<T> operator()(Vec<T> grad, Vec<T> y) const {
    return hn::NegMulAdd(ops::HWY_NAMESPACE::exp_of_not_positive(Tag<T>(), y), sum, grad);
  }
};
template <class T>
void LogSoftmaxGradient(const T* grad, const T* y, T* dx, std::int64_t n) {
  Map<T>(dx, n, LogSoftmaxGradientOf<T>{hn::Set(Tag<T>(), Sum<T>(grad, n))}, Source<T>{grad}, Source<T>{y});
}

template <class T>
struct CrossEntropyGradientOf {
  Vec<T> shift;
  Vec<T> by;
  Vec<T> every;
  HWY_INLINE Vec<T> operator()(Vec<T> x) const {
    return hn::MulSub(by, ops::HWY_NAMESPACE::exp_of_not_positive(Tag<T>(), hn::Sub(x, shift)), every);
  }
};
template <class T>
void CrossEntropyGradient(const T* x, T shift, T by, T every, T* dx, std::int64_t n) {
  const Tag<T> d;
  Map<T>(dx, n, CrossEntropyGradientOf<T>{hn::Set(d, shift), hn::Set(d, by), hn::Set(d, every)}, Source<T>{x});
}

template <class T>
struct NormOf {
  Vec<T> rstd;
  Vec<T> minus_mean_rstd;
  HWY_INLINE Vec<T> operator()(Vec<T> x, Vec<T> weight, Vec<T> bias) const {
    return hn::MulAdd(hn::MulAdd(x, rstd, minus_mean_rstd), weight, bias);
  }
};
template <class T>
struct SquaredDistance {
  Vec<T> mean;
  HWY_INLINE Vec<T> operator()(Vec<T> sum, Vec<T> x) const {
    const auto distance = hn::Sub(x, mean);
    return hn::MulAdd(distance, distance, sum);
  }
};
// Two passes, because a sum of squares loses the variance of values far from zero.
template <class T>
NormStatistics<T> LayerNorm(const T* x, const NormParameters<T>& with, double eps, T* y, std::int64_t n) {
  const Tag<T> d;
  const T mean = Sum<T>(x, n) / static_cast<T>(n);
  const auto sums = Fold<T>(n, T(0), SquaredDistance<T>{hn::Set(d, mean)}, AddOf<T>(), Source<T>{x, mean});
  const T rstd = T(1) / std::sqrt(SumOf<T>(sums) / static_cast<T>(n) + static_cast<T>(eps));
  Map<T>(y, n, NormOf<T>{hn::Set(d, rstd), hn::Set(d, -mean * rstd)}, Source<T>{x},
         OptionalSource<T>{with.weight, T(1)}, OptionalSource<T>{with.bias, T(0)});
  return {mean, rstd};
}

// dx = rstd * (g - mean(g) - xhat * mean(g xhat)), where g = grad * weight.
template <class T>
void LayerNormGradient(const NormGradientRow<T>& row, const T* weight, const NormStatistics<T>& statistics,
                       std::int64_t n) {
  const Tag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto rstd = hn::Set(d, statistics.rstd);
  const auto shift = hn::Set(d, -statistics.mean * statistics.rstd);
  const OptionalSource<T> weights{weight, T(1)};
  const Source<T> grads{row.grad};
  const Source<T> xs{row.x};
  auto sum = hn::Zero(d);
  auto dot = hn::Zero(d);
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto grad = grads(i);
    const auto hat = hn::MulAdd(xs(i), rstd, shift);
    const auto g = hn::Mul(grad, weights(i));
    sum = hn::Add(sum, g);
    dot = hn::MulAdd(g, hat, dot);
    hn::StoreU(hn::MulAdd(grad, hat, hn::LoadU(d, row.dweight + i)), d, row.dweight + i);
    hn::StoreU(hn::Add(grad, hn::LoadU(d, row.dbias + i)), d, row.dbias + i);
  }
  if (i < n) {
    const std::int64_t rest = n - i;
    const auto grad = grads(i, rest);
    const auto hat = hn::MulAdd(xs(i, rest), rstd, shift);
    const auto g = hn::Mul(grad, weights(i, rest));
    sum = hn::Add(sum, g);
    dot = hn::MulAdd(g, hat, dot);
    StoreTail<T>(hn::MulAdd(grad, hat, LoadTail<T>(row.dweight + i, rest, 0)), row.dweight + i, rest);
    StoreTail<T>(hn::Add(grad, LoadTail<T>(row.dbias + i, rest, 0)), row.dbias + i, rest);
  }
  const auto mean_g = hn::Set(d, SumOf<T>(sum) / static_cast<T>(n));
  const auto mean_dot = hn::Set(d, SumOf<T>(dot) / static_cast<T>(n));
  const auto f = [&](Vec<T> grad, Vec<T> x, Vec<T> w) HWY_ATTR {
    const auto hat = hn::MulAdd(x, rstd, shift);
    return hn::Mul(rstd, hn::NegMulAdd(hat, mean_dot, hn::Sub(hn::Mul(grad, w), mean_g)));
  };
  Map<T>(row.dx, n, f, grads, xs, weights);
}

template <class T>
T RmsNorm(const T* x, const T* weight, double eps, T* y, std::int64_t n) {
  const Tag<T> d;
  const T rstd = T(1) / std::sqrt(Dot<T>(x, x, n) / static_cast<T>(n) + static_cast<T>(eps));
  const auto by = hn::Set(d, rstd);
  const auto f = [&](Vec<T> value, Vec<T> w) HWY_ATTR { return hn::Mul(hn::Mul(value, by), w); };
  Map<T>(y, n, f, Source<T>{x}, OptionalSource<T>{weight, T(1)});
  return rstd;
}

// dx = rstd * (g - xhat * mean(g xhat)), where g = grad * weight and xhat = x * rstd.
template <class T>
void RmsNormGradient(const NormGradientRow<T>& row, const T* weight, T rstd_value, std::int64_t n) {
  const Tag<T> d;
  const auto rstd = hn::Set(d, rstd_value);
  const OptionalSource<T> weights{weight, T(1)};
  const Source<T> grads{row.grad};
  const Source<T> xs{row.x};
  const auto add = [&](Vec<T> sum, Vec<T> grad, Vec<T> x, Vec<T> w)
                       HWY_ATTR { return hn::MulAdd(hn::Mul(grad, w), hn::Mul(x, rstd), sum); };
  const T dot = SumOf<T>(Fold<T>(n, T(0), add, AddOf<T>(), grads, xs, weights));
  const auto share = [&](Vec<T> sum, Vec<T> grad, Vec<T> x)
                         HWY_ATTR { return hn::MulAdd(grad, hn::Mul(x, rstd), sum); };
  Map<T>(row.dweight, n, share, Source<T>{row.dweight}, grads, xs);
  const auto mean_dot = hn::Set(d, dot / static_cast<T>(n));
  const auto f = [&](Vec<T> grad, Vec<T> x, Vec<T> w)
                     HWY_ATTR { return hn::Mul(rstd, hn::NegMulAdd(hn::Mul(x, rstd), mean_dot, hn::Mul(grad, w))); };
  Map<T>(row.dx, n, f, grads, xs, weights);
}

template <class T, bool kIsInverse>
HWY_INLINE void Turn(Vec<T>& a, Vec<T>& b, Vec<T> cosine, Vec<T> sine) {
  const auto first = hn::Mul(a, cosine);
  const auto second = hn::Mul(b, cosine);
  const auto old = a;
  a = kIsInverse ? hn::MulAdd(b, sine, first) : hn::NegMulAdd(b, sine, first);
  b = kIsInverse ? hn::NegMulAdd(old, sine, second) : hn::MulAdd(old, sine, second);
}

template <class T, bool kIsInterleaved, bool kIsInverse>
HWY_INLINE void RotateRow(const T* x, const T* cosines, T* out, std::int64_t pairs) {
  const Tag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const T* sines = cosines + pairs;
  Vec<T> a;
  Vec<T> b;
  std::int64_t i = 0;
  for (; i + lanes <= pairs; i += lanes) {
    if constexpr (kIsInterleaved) {
      hn::LoadInterleaved2(d, x + 2 * i, a, b);
    } else {
      a = hn::LoadU(d, x + i);
      b = hn::LoadU(d, x + pairs + i);
    }
    Turn<T, kIsInverse>(a, b, hn::LoadU(d, cosines + i), hn::LoadU(d, sines + i));
    if constexpr (kIsInterleaved) {
      hn::StoreInterleaved2(a, b, d, out + 2 * i);
    } else {
      hn::StoreU(a, d, out + i);
      hn::StoreU(b, d, out + pairs + i);
    }
  }
  if (i == pairs) return;
  const std::int64_t rest = pairs - i;
  constexpr std::int64_t kStep = kIsInterleaved ? 2 : 1;
  const std::int64_t apart = kIsInterleaved ? 1 : pairs;
  HWY_ALIGN T padded[2][hn::MaxLanes(d)] = {};
  for (std::int64_t j = 0; j < rest; ++j) {
    padded[0][j] = x[(i + j) * kStep];
    padded[1][j] = x[(i + j) * kStep + apart];
  }
  a = hn::Load(d, padded[0]);
  b = hn::Load(d, padded[1]);
  Turn<T, kIsInverse>(a, b, LoadTail<T>(cosines + i, rest, 0), LoadTail<T>(sines + i, rest, 0));
  hn::Store(a, d, padded[0]);
  hn::Store(b, d, padded[1]);
  for (std::int64_t j = 0; j < rest; ++j) {
    out[(i + j) * kStep] = padded[0][j];
    out[(i + j) * kStep + apart] = padded[1][j];
  }
}

template <class T, bool kIsInterleaved, bool kIsInverse>
void RotateRows(const RotatedRows<T>& rows) {
  const auto rest = static_cast<std::size_t>(rows.length - 2 * rows.pairs) * sizeof(T);
  for (std::int64_t i = 0; i < rows.count; ++i) {
    const T* x = rows.x + i * rows.x_step;
    T* out = rows.out + i * rows.out_step;
    RotateRow<T, kIsInterleaved, kIsInverse>(x, rows.angles + i * rows.angle_step, out, rows.pairs);
    if (rest > 0) std::memcpy(out + 2 * rows.pairs, x + 2 * rows.pairs, rest);
  }
}
template <class T>
void Rotate(const RotatedRows<T>& rows) {
  if (rows.is_interleaved) {
    rows.is_inverse ? RotateRows<T, true, true>(rows) : RotateRows<T, true, false>(rows);
  } else {
    rows.is_inverse ? RotateRows<T, false, true>(rows) : RotateRows<T, false, false>(rows);
  }
}

template <class T>
const RowKernels<T>* Kernels() {
  static constexpr RowKernels<T> kAll = {
      &Max<T>,
      &ExpSum<T>,
      &SumExp<T>,
      &Scale<T>,
      &Shift<T>,
      &Sum<T>,
      &Dot<T>,
      &AddScaled<T>,
      &SoftmaxGradient<T>,
      &SoftmaxGradientStreamed<T>,
      &LogSoftmaxGradient<T>,
      &CrossEntropyGradient<T>,
      &AttentionGradient<T>,
      &LayerNorm<T>,
      &LayerNormGradient<T>,
      &RmsNorm<T>,
      &RmsNormGradient<T>,
      &Rotate<T>,
  };
  return &kAll;
}
const RowKernels<float>* FloatKernels() { return Kernels<float>(); }
const RowKernels<double>* DoubleKernels() { return Kernels<double>(); }
const char* TargetOfKernels() { return hwy::TargetName(HWY_TARGET); }

}  // namespace tessera::ops::detail::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::ops::detail {

HWY_EXPORT(FloatKernels);
HWY_EXPORT(DoubleKernels);
HWY_EXPORT(TargetOfKernels);

const char* row_kernels_target() { return HWY_DYNAMIC_DISPATCH(TargetOfKernels)(); }

template <>
const RowKernels<float>& row_kernels<float>() {
  static const RowKernels<float>* const all = HWY_DYNAMIC_DISPATCH(FloatKernels)();
  return *all;
}
template <>
const RowKernels<double>& row_kernels<double>() {
  static const RowKernels<double>* const all = HWY_DYNAMIC_DISPATCH(DoubleKernels)();
  return *all;
}

}  // namespace tessera::ops::detail
#endif
