// Functions of one tensor: the operators of function_rows.h.
#include "tessera/ops/pointwise/functions.h"

#include <complex>

#include "tessera/ops/pointwise/compare.h"
#include "tessera/ops/pointwise/complex.h"
#include "tessera/ops/pointwise/convert.h"
#include "tessera/ops/pointwise/detail/formulas.h"
#include "tessera/ops/pointwise/detail/function_rows.h"
#include "tessera/ops/pointwise/detail/table.h"
#include "tessera/ops/pointwise/pointwise.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tessera/ops/pointwise/functions.cpp"
#include <hwy/foreach_target.h>
// The headers below are included once per target, after foreach_target.h.
#include <hwy/highway.h>
#include "tessera/ops/detail/tile_kernels-inl.h"
#include "tessera/ops/pointwise/detail/formulas-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::ops::HWY_NAMESPACE {

TESSERA_FUNCTION_ROWS(TESSERA_FORMULA_1)
TESSERA_COMPLEX_ROWS(TESSERA_FORMULA_1)

const TileKernels* function_kernels() {
#define TESSERA_ENTRY(name, ...) kernels_of<name##_formula>(),
  static constexpr TileKernels kKernels[] = {TESSERA_FUNCTION_ROWS(TESSERA_ENTRY) TESSERA_COMPLEX_ROWS(TESSERA_ENTRY)};
#undef TESSERA_ENTRY
  return kKernels;
}

}  // namespace tessera::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::ops {
namespace {

HWY_EXPORT(function_kernels);

#define TESSERA_INDEX(name, ...) k_##name,
enum Index { TESSERA_FUNCTION_ROWS(TESSERA_INDEX) TESSERA_COMPLEX_ROWS(TESSERA_INDEX) };
#undef TESSERA_INDEX

Tensor abs_gradient(const Tensor& g, const Tensor& x) {
  if (!is_complex(x.dtype())) return mul(g, sign(x));
  const Tensor length = cast(abs(x), x.dtype());
  const Tensor direction = where(ne(x, 0), div(x, length), 0);
  return mul(cast(g, x.dtype()), direction);
}

#define TESSERA_GRADIENT(name, types, vector, element, algebra, flops, saves, gradient) \
  void name##_gradient_of(tensor::GradientCall& call) {                                 \
    [[maybe_unused]] const Tensor& g = call.grad();                                     \
    [[maybe_unused]] const auto x = [&]() -> const Tensor& { return call.input(0); };   \
    [[maybe_unused]] const auto y = [&]() -> const Tensor& { return call.output(); };   \
    if (Tensor gx = gradient) detail::give(call, 0, std::move(gx));                     \
  }
TESSERA_FUNCTION_ROWS(TESSERA_GRADIENT)
TESSERA_COMPLEX_ROWS(TESSERA_GRADIENT)
#undef TESSERA_GRADIENT

namespace rows {
using namespace detail;  // NOLINT(google-build-using-namespace): the words of the table
#define TESSERA_OPERATOR(row_name, kinds, vector, element, algebra_of_x, flops_each, saved, gradient_of_x)             \
  constexpr PointwiseRow row_name##_row = {                                                                            \
      .name = #row_name,                                                                                               \
      .inputs = "x",                                                                                                   \
      .types = (kinds),                                                                                                \
      .kernels = []() -> const TileKernels& { return HWY_DYNAMIC_DISPATCH(function_kernels)()[Index::k_##row_name]; }, \
      .algebra = {algebra_of_x},                                                                                       \
      .gradient = row_name##_gradient_of,                                                                              \
      .saves = saved,                                                                                                  \
      .flops = flops_each};                                                                                            \
  const tensor::Operator row_name = register_row<row_name##_row>();
TESSERA_FUNCTION_ROWS(TESSERA_OPERATOR)
TESSERA_COMPLEX_ROWS(TESSERA_OPERATOR)
#undef TESSERA_OPERATOR
}  // namespace rows

}  // namespace

#define TESSERA_FORMS(name, ...) TESSERA_POINTWISE_FORMS_1(name)
TESSERA_FUNCTION_ROWS(TESSERA_FORMS)
#undef TESSERA_FORMS

Tensor conj(const Tensor& x) { return is_complex(x.dtype()) ? tensor::call(rows::conj, {x}) : x; }

}  // namespace tessera::ops
#endif  // HWY_ONCE
