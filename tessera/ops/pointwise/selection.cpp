// Operators of three or more tensors, and operators that select: where, clamp, lerp, addcmul, addcdiv.
#include <complex>

#include "tessera/ops/pointwise/compare.h"
#include "tessera/ops/pointwise/detail/integers.h"
#include "tessera/ops/pointwise/detail/table.h"
#include "tessera/ops/pointwise/functions.h"
#include "tessera/ops/pointwise/pointwise.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tessera/ops/pointwise/selection.cpp"
#include <hwy/foreach_target.h>
// The headers below are included once per target, after foreach_target.h.
#include <hwy/highway.h>
#include "tessera/ops/detail/tile_kernels-inl.h"
#include "tessera/ops/detail/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::ops::HWY_NAMESPACE {
using namespace detail;  // NOLINT(google-build-using-namespace): arithmetic of integers

struct WhereKernel {
  template <class D, class V>
  static HWY_INLINE V vec(D d, V mask, V a, V b) {
    return hn::IfThenElse(hn::Ne(mask, hn::Zero(d)), a, b);
  }
  template <class T>
  static T one(T mask, T a, T b) {
    return mask != T(0) ? a : b;
  }
};
struct ClampKernel {
  template <class D, class V>
  static HWY_INLINE V vec(D, V x, V low, V high) {
    return hn::IfThenElse(hn::Gt(x, high), high, hn::IfThenElse(hn::Lt(x, low), low, x));
  }
  template <class T>
  static T one(T x, T low, T high) {
    return x > high ? high : x < low ? low : x;
  }
};
struct LerpKernel {
  template <class D, class V>
  static HWY_INLINE V vec(D, V a, V b, V weight) {
    return hn::MulAdd(weight, hn::Sub(b, a), a);
  }
  template <class T>
  static T one(T a, T b, T weight) {
    return a + weight * (b - a);
  }
};
struct AddcmulKernel {
  template <class D, class V>
  static HWY_INLINE V vec(D, V x, V a, V b, V value) {
    return hn::MulAdd(hn::Mul(value, a), b, x);
  }
  template <class T>
  static T one(T x, T a, T b, T value) {
    return wrap_add(x, wrap_mul(wrap_mul(value, a), b));
  }
};
struct AddcdivKernel {
  template <class D, class V>
  static HWY_INLINE V vec(D, V x, V a, V b, V value) {
    return hn::Add(x, hn::Div(hn::Mul(value, a), b));
  }
  template <class T>
  static T one(T x, T a, T b, T value) {
    return x + value * a / b;
  }
};

const TileKernels* selection_kernels() {
  static constexpr TileKernels kKernels[] = {
      kernels_of<WhereKernel, 3, kAll>(), kernels_of<ClampKernel, 3, kFloats | kIntegers>(),
      kernels_of<LerpKernel, 3, kFloats | kComplex>(), kernels_of<AddcmulKernel, 4, kFloats | kIntegers | kComplex>(),
      kernels_of<AddcdivKernel, 4, kFloats | kComplex>()};
  return kKernels;
}

}  // namespace tessera::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::ops {
namespace {

using namespace detail;  // NOLINT(google-build-using-namespace): the words of rows
HWY_EXPORT(selection_kernels);

template <int kIndex>
const TileKernels& kernels() {
  return HWY_DYNAMIC_DISPATCH(selection_kernels)()[kIndex];
}

void where_gradient(tensor::GradientCall& call) {
  if (call.needs(1)) give(call, 1, where(call.input(0), call.grad(), 0));
  if (call.inputs() > 2 && call.needs(2)) give(call, 2, where(call.input(0), 0, call.grad()));
}
void clamp_gradient(tensor::GradientCall& call) {
  const auto& range = call.as<ClampAttributes>();
  const Tensor& x = call.input(0);
  give(call, 0, where(logical_and(ge(x, range.low), le(x, range.high)), call.grad(), 0));
}
void lerp_gradient(tensor::GradientCall& call) {
  const Tensor& g = call.grad();
  const Tensor& weight = call.input(2);
  if (call.needs(0)) give(call, 0, mul(g, conj_of(sub(1, weight))));
  if (call.needs(1)) give(call, 1, mul(g, conj_of(weight)));
  if (call.needs(2)) give(call, 2, mul(g, conj_of(sub(call.input(1), call.input(0)))));
}
void lerp_scalar_gradient(tensor::GradientCall& call) {
  const Scalar weight = conj_number(call.as<ScalarAttributes>().value);
  const Scalar rest =
      weight.kind() == Scalar::Kind::kComplex ? Scalar(1.0 - weight.as_complex()) : Scalar(1 - weight.as_double());
  if (call.needs(0)) give(call, 0, mul(call.grad(), rest));
  if (call.needs(1)) give(call, 1, mul(call.grad(), weight));
}
void addcmul_gradient(tensor::GradientCall& call) {
  const Scalar value = conj_number(call.as<ScalarAttributes>().value);
  if (call.needs(0)) give(call, 0, call.grad());
  if (call.needs(1)) give(call, 1, mul(mul(call.grad(), conj_of(call.input(2))), value));
  if (call.needs(2)) give(call, 2, mul(mul(call.grad(), conj_of(call.input(1))), value));
}
void addcdiv_gradient(tensor::GradientCall& call) {
  const Scalar value = conj_number(call.as<ScalarAttributes>().value);
  Tensor held;
  const Tensor& a = call.input(1);
  const Tensor& b = conj_of(call.input(2), std::move(held));
  if (call.needs(0)) give(call, 0, call.grad());
  if (call.needs(1)) give(call, 1, mul(div(call.grad(), b), value));
  if (call.needs(2)) give(call, 2, neg(mul(div(mul(call.grad(), conj_of(a)), square(b)), value)));
}

constexpr PointwiseRow kWhereRow = {.name = "where",
                                    .inputs = "mask, a, b",
                                    .types = kAll,
                                    .kernels = kernels<0>,
                                    .algebra = {kOpaque, kLinearRising, kLinearRising},
                                    .gradient = where_gradient,
                                    .saves = "mask",
                                    .first_is_mask = true};
constexpr PointwiseRow kWhereScalarRow = {.name = "where_scalar",
                                          .function = "where",
                                          .inputs = "mask, a",
                                          .types = kAll,
                                          .kernels = kernels<0>,
                                          .algebra = {kOpaque, kRising},
                                          .gradient = where_gradient,
                                          .saves = "mask",
                                          .numbers = Numbers::kLast,
                                          .first_is_mask = true,
                                          .is_linear_with_0 = true};
constexpr PointwiseRow kClampRow = {.name = "clamp",
                                    .inputs = "x",
                                    .types = kFloats | kIntegers,
                                    .kernels = kernels<1>,
                                    .algebra = {kRising},
                                    .gradient = clamp_gradient,
                                    .saves = "x",
                                    .numbers = Numbers::kRange,
                                    .flops = 2};
constexpr PointwiseRow kLerpRow = {.name = "lerp",
                                   .inputs = "a, b, weight",
                                   .types = kFloats | kComplex,
                                   .kernels = kernels<2>,
                                   .gradient = lerp_gradient,
                                   .saves = "a, b, weight",
                                   .flops = 3};
constexpr PointwiseRow kLerpScalarRow = {.name = "lerp_scalar",
                                         .function = "lerp",
                                         .inputs = "a, b",
                                         .types = kFloats | kComplex,
                                         .kernels = kernels<2>,
                                         .algebra = {kLinear, kLinear},
                                         .gradient = lerp_scalar_gradient,
                                         .numbers = Numbers::kLast,
                                         .flops = 3};
constexpr PointwiseRow kAddcmulRow = {.name = "addcmul",
                                      .inputs = "x, a, b",
                                      .types = kFloats | kIntegers | kComplex,
                                      .kernels = kernels<3>,
                                      .gradient = addcmul_gradient,
                                      .saves = "a, b",
                                      .numbers = Numbers::kLast,
                                      .flops = 3};
constexpr PointwiseRow kAddcdivRow = {.name = "addcdiv",
                                      .inputs = "x, a, b",
                                      .types = kFloats | kComplex,
                                      .kernels = kernels<4>,
                                      .gradient = addcdiv_gradient,
                                      .saves = "a, b",
                                      .numbers = Numbers::kLast,
                                      .flops = 3};

const tensor::Operator kWhere = register_row<kWhereRow>();
const tensor::Operator kWhereScalar = register_row<kWhereScalarRow>();
const tensor::Operator kClamp = register_row<kClampRow>();
const tensor::Operator kLerp = register_row<kLerpRow>();
const tensor::Operator kLerpScalar = register_row<kLerpScalarRow>();
const tensor::Operator kAddcmul = register_row<kAddcmulRow>();
const tensor::Operator kAddcdiv = register_row<kAddcdivRow>();

// Returns an absent bound, of the kind of the other bound so that it does not raise the dtype.
Scalar no_bound(const Scalar& other, bool is_low) {
  if (other.kind() == Scalar::Kind::kFloating) {
    return is_low ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity();
  }
  return is_low ? std::numeric_limits<std::int64_t>::min() : std::numeric_limits<std::int64_t>::max();
}

}  // namespace

Tensor where(const Tensor& mask, const Tensor& a, const Tensor& b) { return tensor::call(kWhere, {mask, a, b}); }
Tensor where(const Tensor& mask, const Tensor& a, const Scalar& b) {
  return tensor::call(kWhereScalar, {mask, a}, ScalarAttributes{b});
}
Tensor where(const Tensor& mask, const Scalar& a, const Tensor& b) { return where(logical_not(mask), b, a); }

Tensor clamp(const Tensor& x, const Scalar& low, const Scalar& high) {
  return tensor::call(kClamp, {x}, ClampAttributes{low, high});
}
void clamp_(const Tensor& x, const Scalar& low, const Scalar& high) {
  tensor::call_out(kClamp, x, {x}, ClampAttributes{low, high});
}
Tensor clamp_min(const Tensor& x, const Scalar& low) { return clamp(x, low, no_bound(low, false)); }
Tensor clamp_max(const Tensor& x, const Scalar& high) { return clamp(x, no_bound(high, true), high); }

Tensor lerp(const Tensor& a, const Tensor& b, const Tensor& weight) { return tensor::call(kLerp, {a, b, weight}); }
Tensor lerp(const Tensor& a, const Tensor& b, const Scalar& weight) {
  return tensor::call(kLerpScalar, {a, b}, ScalarAttributes{weight});
}
void lerp_(const Tensor& a, const Tensor& b, const Scalar& weight) {
  tensor::call_out(kLerpScalar, a, {a, b}, ScalarAttributes{weight});
}

Tensor addcmul(const Tensor& x, const Tensor& a, const Tensor& b, const Scalar& value) {
  return tensor::call(kAddcmul, {x, a, b}, ScalarAttributes{value});
}
void addcmul_(const Tensor& x, const Tensor& a, const Tensor& b, const Scalar& value) {
  tensor::call_out(kAddcmul, x, {x, a, b}, ScalarAttributes{value});
}
Tensor addcdiv(const Tensor& x, const Tensor& a, const Tensor& b, const Scalar& value) {
  return tensor::call(kAddcdiv, {x, a, b}, ScalarAttributes{value});
}
void addcdiv_(const Tensor& x, const Tensor& a, const Tensor& b, const Scalar& value) {
  tensor::call_out(kAddcdiv, x, {x, a, b}, ScalarAttributes{value});
}

}  // namespace tessera::ops
#endif  // HWY_ONCE
