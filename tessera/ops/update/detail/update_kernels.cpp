#include "tessera/ops/update/detail/update_kernels.h"

#include <algorithm>
#include <cstddef>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tessera/ops/update/detail/update_kernels.cpp"  // NOLINT
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace tessera::ops::detail::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <class T>
using Tag = hn::ScalableTag<T>;
template <class T>
using Vec = hn::Vec<Tag<T>>;

// Copies the rest of a chunk, fewer elements than a vector, into memory padded with zeros.
template <class T>
struct Padded {
  HWY_INLINE Padded(const T* from, std::int64_t count) {
    hn::Store(hn::Zero(Tag<T>()), Tag<T>(), values);
    if (from != nullptr) std::copy_n(from, count, values);
  }
  HWY_ALIGN T values[hn::MaxLanes(Tag<T>())];
};

template <class T>
struct AdamWVectors {
  HWY_INLINE explicit AdamWVectors(const AdamWStep<T>& step)
      : beta1(hn::Set(Tag<T>(), step.beta1)),
        beta2(hn::Set(Tag<T>(), step.beta2)),
        rest1(hn::Set(Tag<T>(), T(1) - step.beta1)),
        rest2(hn::Set(Tag<T>(), T(1) - step.beta2)),
        eps(hn::Set(Tag<T>(), step.eps)),
        keep(hn::Set(Tag<T>(), step.keep)),
        clip(hn::Set(Tag<T>(), step.clip)),
        rate(hn::Set(Tag<T>(), step.rate)),
        root_scale(hn::Set(Tag<T>(), step.root_scale)) {}

  HWY_INLINE void operator()(const AdamWRow<T>& row, std::int64_t i) const {
    const Tag<T> d;
    const auto grad = hn::Mul(hn::LoadU(d, row.grad + i), clip);
    const auto first = hn::MulAdd(rest1, grad, hn::Mul(beta1, hn::LoadU(d, row.first + i)));
    const auto second = hn::MulAdd(hn::Mul(rest2, grad), grad, hn::Mul(beta2, hn::LoadU(d, row.second + i)));
    const auto root = hn::MulAdd(hn::Sqrt(second), root_scale, eps);
    const auto param = hn::Mul(hn::LoadU(d, row.param + i), keep);
    hn::StoreU(first, d, row.new_first + i);
    hn::StoreU(second, d, row.new_second + i);
    hn::StoreU(hn::NegMulAdd(rate, hn::Div(first, root), param), d, row.new_param + i);
  }

  Vec<T> beta1, beta2, rest1, rest2, eps, keep, clip, rate, root_scale;
};

template <class T>
void AdamW(const AdamWRow<T>& row, const AdamWStep<T>& step, std::int64_t n) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(Tag<T>()));
  const AdamWVectors<T> vectors(step);
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) vectors(row, i);
  if (i == n) return;
  Padded<T> param(row.param + i, n - i);
  const Padded<T> grad(row.grad + i, n - i);
  Padded<T> first(row.first + i, n - i);
  Padded<T> second(row.second + i, n - i);
  vectors({param.values, grad.values, first.values, second.values, param.values, first.values, second.values}, 0);
  std::copy_n(param.values, n - i, row.new_param + i);
  std::copy_n(first.values, n - i, row.new_first + i);
  std::copy_n(second.values, n - i, row.new_second + i);
}

template <class T>
HWY_INLINE void SgdVector(const SgdRow<T>& row, const SgdStep<T>& step, std::int64_t i) {
  const Tag<T> d;
  const auto param = hn::LoadU(d, row.param + i);
  auto grad =
      hn::MulAdd(hn::Set(d, step.weight_decay), param, hn::Mul(hn::LoadU(d, row.grad + i), hn::Set(d, step.clip)));
  if (row.momentum != nullptr) {
    const auto share = hn::Set(d, step.momentum);
    const auto momentum = hn::MulAdd(share, hn::LoadU(d, row.momentum + i), grad);
    hn::StoreU(momentum, d, row.new_momentum + i);
    grad = step.is_nesterov ? hn::MulAdd(share, momentum, grad) : momentum;
  }
  hn::StoreU(hn::NegMulAdd(hn::Set(d, step.learning_rate), grad, param), d, row.new_param + i);
}

template <class T>
void Sgd(const SgdRow<T>& row, const SgdStep<T>& step, std::int64_t n) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(Tag<T>()));
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) SgdVector(row, step, i);
  if (i == n) return;
  const bool has_momentum = row.momentum != nullptr;
  Padded<T> param(row.param + i, n - i);
  const Padded<T> grad(row.grad + i, n - i);
  Padded<T> momentum(has_momentum ? row.momentum + i : nullptr, n - i);
  SgdVector<T>({param.values, grad.values, has_momentum ? momentum.values : nullptr, param.values, momentum.values},
               step, 0);
  std::copy_n(param.values, n - i, row.new_param + i);
  if (has_momentum) std::copy_n(momentum.values, n - i, row.new_momentum + i);
}

template <class T>
HWY_INLINE void LionVector(const LionRow<T>& row, const LionStep<T>& step, std::int64_t i) {
  const Tag<T> d;
  const auto zero = hn::Zero(d);
  const auto grad = hn::Mul(hn::LoadU(d, row.grad + i), hn::Set(d, step.clip));
  const auto mean = hn::LoadU(d, row.mean + i);
  const auto between = hn::MulAdd(hn::Set(d, T(1) - step.beta1), grad, hn::Mul(hn::Set(d, step.beta1), mean));
  // The sign: 0 for 0, and NaN for NaN, so that a bad gradient shows.
  const auto one = hn::CopySign(hn::Set(d, T(1)), between);
  const auto sign = hn::IfThenElse(hn::Or(hn::Lt(between, zero), hn::Gt(between, zero)), one, between);
  const auto param = hn::Mul(hn::LoadU(d, row.param + i), hn::Set(d, step.keep));
  hn::StoreU(hn::NegMulAdd(hn::Set(d, step.learning_rate), sign, param), d, row.new_param + i);
  hn::StoreU(hn::MulAdd(hn::Set(d, T(1) - step.beta2), grad, hn::Mul(hn::Set(d, step.beta2), mean)), d,
             row.new_mean + i);
}

template <class T>
void Lion(const LionRow<T>& row, const LionStep<T>& step, std::int64_t n) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(Tag<T>()));
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) LionVector(row, step, i);
  if (i == n) return;
  Padded<T> param(row.param + i, n - i);
  const Padded<T> grad(row.grad + i, n - i);
  Padded<T> mean(row.mean + i, n - i);
  LionVector<T>({param.values, grad.values, mean.values, param.values, mean.values}, step, 0);
  std::copy_n(param.values, n - i, row.new_param + i);
  std::copy_n(mean.values, n - i, row.new_mean + i);
}

template <class T>
void Add(const T* a, const T* b, T by, T* out, std::int64_t n) {
  const Tag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto factor = hn::Set(d, by);
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    hn::StoreU(hn::MulAdd(factor, hn::LoadU(d, b + i), hn::LoadU(d, a + i)), d, out + i);
  }
  if (i == n) return;
  const Padded<T> left(a + i, n - i);
  Padded<T> right(b + i, n - i);
  hn::Store(hn::MulAdd(factor, hn::Load(d, right.values), hn::Load(d, left.values)), d, right.values);
  std::copy_n(right.values, n - i, out + i);
}

template <class T>
void Mul(const T* a, T by, T* out, std::int64_t n) {
  const Tag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(hn::Mul(hn::LoadU(d, a + i), hn::Set(d, by)), d, out + i);
  for (; i < n; ++i) out[i] = a[i] * by;  // a single product rounds equally in and outside of vectors
}

template <class T>
const UpdateKernels<T>* Kernels() {
  static constexpr UpdateKernels<T> kAll = {&AdamW<T>, &Sgd<T>, &Lion<T>, &Add<T>, &Mul<T>};
  return &kAll;
}
const UpdateKernels<float>* FloatUpdates() { return Kernels<float>(); }
const UpdateKernels<double>* DoubleUpdates() { return Kernels<double>(); }

}  // namespace tessera::ops::detail::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::ops::detail {

HWY_EXPORT(FloatUpdates);
HWY_EXPORT(DoubleUpdates);

template <>
const UpdateKernels<float>& update_kernels<float>() {
  static const UpdateKernels<float>* const all = HWY_DYNAMIC_DISPATCH(FloatUpdates)();
  return *all;
}
template <>
const UpdateKernels<double>& update_kernels<double>() {
  static const UpdateKernels<double>* const all = HWY_DYNAMIC_DISPATCH(DoubleUpdates)();
  return *all;
}

}  // namespace tessera::ops::detail
#endif
