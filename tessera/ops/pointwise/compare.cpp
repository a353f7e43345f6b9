// Comparisons and predicates: the operators of compare_rows.h. Kernels return 1 and 0, which are stored as bool.
#include "tessera/ops/pointwise/compare.h"

#include <complex>

#include "tessera/ops/pointwise/detail/compare_rows.h"
#include "tessera/ops/pointwise/detail/formulas.h"
#include "tessera/ops/pointwise/detail/table.h"
#include "tessera/ops/pointwise/pointwise.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tessera/ops/pointwise/compare.cpp"
#include <hwy/foreach_target.h>
// The headers below are included once per target, after foreach_target.h.
#include <hwy/highway.h>
#include "tessera/ops/detail/tile_kernels-inl.h"
#include "tessera/ops/pointwise/detail/formulas-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::ops::HWY_NAMESPACE {

TESSERA_ORDER_ROWS(TESSERA_FORMULA_2)
TESSERA_LOGIC_ROWS(TESSERA_FORMULA_2)
TESSERA_PREDICATE_ROWS(TESSERA_FORMULA_1)

const TileKernels* compare_kernels() {
#define TESSERA_ENTRY(name, ...) kernels_of<name##_formula>(),
  static constexpr TileKernels kKernels[] = {TESSERA_ORDER_ROWS(TESSERA_ENTRY) TESSERA_LOGIC_ROWS(TESSERA_ENTRY)
                                                 TESSERA_PREDICATE_ROWS(TESSERA_ENTRY)};
#undef TESSERA_ENTRY
  return kKernels;
}

}  // namespace tessera::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::ops {
namespace {

HWY_EXPORT(compare_kernels);

#define TESSERA_INDEX(name, ...) k_##name,
enum Index {
  TESSERA_ORDER_ROWS(TESSERA_INDEX) TESSERA_LOGIC_ROWS(TESSERA_INDEX) TESSERA_PREDICATE_ROWS(TESSERA_INDEX)
};
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
      .numbers = Numbers::place};                                                                                   \
  const tensor::Operator row_name = register_row<row_name##_row>();
#define TESSERA_OPERATOR_2(row_name, kinds, ...) TESSERA_ROW(row_name, "a, b", kinds, row_name, kNone)
#define TESSERA_OPERATOR_1(row_name, kinds, ...) TESSERA_ROW(row_name, "x", kinds, row_name, kNone)
#define TESSERA_NUMBER_OPERATOR(row_name, kinds, ...) TESSERA_ROW(row_name##_scalar, "x", kinds, row_name, kLast)
TESSERA_ORDER_ROWS(TESSERA_OPERATOR_2)
TESSERA_ORDER_ROWS(TESSERA_NUMBER_OPERATOR)
TESSERA_LOGIC_ROWS(TESSERA_OPERATOR_2)
TESSERA_PREDICATE_ROWS(TESSERA_OPERATOR_1)
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
TESSERA_PREDICATE_ROWS(TESSERA_FORM_1)

}  // namespace tessera::ops
#endif  // HWY_ONCE
