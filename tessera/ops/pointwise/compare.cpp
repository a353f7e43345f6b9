// Comparisons and predicates. The columns of a row of two tensors are: name, types, the mask of vectors a and b, the
// predicate of elements a and b. Rows of one tensor have the same columns for x. Kernels return 1 and 0, which are
// stored as bool.
#include "tessera/ops/pointwise/compare.h"

#include <cmath>
#include <complex>

#include "tessera/ops/pointwise/detail/table.h"
#include "tessera/ops/pointwise/pointwise.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tessera/ops/pointwise/compare.cpp"
#include <hwy/foreach_target.h>
// The headers below are included once per target, after foreach_target.h.
#include <hwy/highway.h>
#include "tessera/ops/detail/tile_kernels-inl.h"
#include "tessera/ops/detail/vector_math-inl.h"

// clang-format off
#define TESSERA_ORDER_ROWS(ROW)                                       \
  ROW(eq, kAll, hn::Eq(a, b), a == b)                                 \
  ROW(ne, kAll, hn::Not(hn::Eq(a, b)), a != b)                            \
  ROW(lt, kFloats | kIntegers | kBools, hn::Lt(a, b), a < b)          \
  ROW(le, kFloats | kIntegers | kBools, hn::Le(a, b), a <= b)         \
  ROW(gt, kFloats | kIntegers | kBools, hn::Gt(a, b), a > b)          \
  ROW(ge, kFloats | kIntegers | kBools, hn::Ge(a, b), a >= b)
#define TESSERA_LOGIC_ROWS(ROW)                                                                        \
  ROW(logical_and, kAll, hn::And(is_true(d, a), is_true(d, b)), a != T(0) && b != T(0))                \
  ROW(logical_or, kAll, hn::Or(is_true(d, a), is_true(d, b)), a != T(0) || b != T(0))                  \
  ROW(logical_xor, kAll, hn::Xor(is_true(d, a), is_true(d, b)), (a != T(0)) != (b != T(0)))
#define TESSERA_ROWS_1(ROW)                                                                            \
  ROW(logical_not, kAll, hn::Eq(x, hn::Zero(d)), x == T(0))                                            \
  ROW(isnan, kAll, hn::Not(hn::Eq(x, x)), x != x)                                                     \
  ROW(isfinite, kAll, hn::Lt(hn::Abs(x), hn::Inf(d)), is_finite(x))
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace tessera::ops::HWY_NAMESPACE {
using namespace detail;  // NOLINT(google-build-using-namespace): the words of the table

template <class D, class V>
HWY_INLINE auto is_true(D d, V x) {
  return hn::Not(hn::Eq(x, hn::Zero(d)));  // also true for nan, for which Ne of this library is false
}
template <class T>
bool is_finite(T x) {
  if constexpr (std::is_integral_v<T>)
    return true;
  else
    return std::isfinite(x.real()) && std::isfinite(x.imag());
}
template <class D, class M>
HWY_INLINE hn::Vec<D> claim(D d, M mask) {
  return hn::IfThenElseZero(mask, number(d, 1));
}

#define TESSERA_KERNEL_2(name, types, mask, element) TESSERA_POINTWISE_KERNEL_2(name, claim(d, mask), element)
#define TESSERA_KERNEL_1(name, types, mask, element) TESSERA_POINTWISE_KERNEL_1(name, claim(d, mask), element)
TESSERA_ORDER_ROWS(TESSERA_KERNEL_2)
TESSERA_LOGIC_ROWS(TESSERA_KERNEL_2)
TESSERA_ROWS_1(TESSERA_KERNEL_1)
#undef TESSERA_KERNEL_1
#undef TESSERA_KERNEL_2

const TileKernels* compare_kernels() {
#define TESSERA_ENTRY_2(name, types, ...) kernels_of<name##_kernel, 2, (types)>(),
#define TESSERA_ENTRY_1(name, types, ...) kernels_of<name##_kernel, 1, (types)>(),
  static constexpr TileKernels kKernels[] = {TESSERA_ORDER_ROWS(TESSERA_ENTRY_2) TESSERA_LOGIC_ROWS(TESSERA_ENTRY_2)
                                                 TESSERA_ROWS_1(TESSERA_ENTRY_1)};
#undef TESSERA_ENTRY_1
#undef TESSERA_ENTRY_2
  return kKernels;
}

}  // namespace tessera::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::ops {
namespace {

HWY_EXPORT(compare_kernels);

#define TESSERA_INDEX(name, ...) k_##name,
enum Index { TESSERA_ORDER_ROWS(TESSERA_INDEX) TESSERA_LOGIC_ROWS(TESSERA_INDEX) TESSERA_ROWS_1(TESSERA_INDEX) };
#undef TESSERA_INDEX

namespace rows {
using namespace detail;  // NOLINT(google-build-using-namespace): the words of the table
#define TESSERA_ROW(row_name, names, kinds, kernel, place)                                                          \
  constexpr PointwiseRow row_name##_row = {                                                                         \
      .name = #row_name,                                                                                            \
      .function = #kernel,                                                                                          \
      .inputs = names,                                                                                              \
      .types = (kinds),                                                                                             \
      .kernels = []() -> const TileKernels& { return HWY_DYNAMIC_DISPATCH(compare_kernels)()[Index::k_##kernel]; }, \
      .result = Result::kBool,                                                                                      \
      .numbers = Numbers::place};                                                                                   \
  const tensor::Operator row_name = register_row<row_name##_row>();
#define TESSERA_OPERATOR_2(row_name, kinds, ...) TESSERA_ROW(row_name, "a, b", kinds, row_name, kNone)
#define TESSERA_OPERATOR_1(row_name, kinds, ...) TESSERA_ROW(row_name, "x", kinds, row_name, kNone)
#define TESSERA_NUMBER_OPERATOR(row_name, kinds, ...) TESSERA_ROW(row_name##_scalar, "x", kinds, row_name, kLast)
TESSERA_ORDER_ROWS(TESSERA_OPERATOR_2)
TESSERA_ORDER_ROWS(TESSERA_NUMBER_OPERATOR)
TESSERA_LOGIC_ROWS(TESSERA_OPERATOR_2)
TESSERA_ROWS_1(TESSERA_OPERATOR_1)
}  // namespace rows

}  // namespace

#define TESSERA_FORM_2(name, ...) \
  Tensor name(const Tensor& a, const Tensor& b) { return tensor::call(rows::name, {a, b}); }
#define TESSERA_NUMBER_FORM(name, ...) \
  Tensor name(const Tensor& a, const Scalar& b) { return tensor::call(rows::name##_scalar, {a}, ScalarAttributes{b}); }
#define TESSERA_FORM_1(name, ...) \
  Tensor name(const Tensor& x) { return tensor::call(rows::name, {x}); }
TESSERA_ORDER_ROWS(TESSERA_FORM_2)
TESSERA_ORDER_ROWS(TESSERA_NUMBER_FORM)
TESSERA_LOGIC_ROWS(TESSERA_FORM_2)
TESSERA_ROWS_1(TESSERA_FORM_1)

}  // namespace tessera::ops
#endif  // HWY_ONCE
