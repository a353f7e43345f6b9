// Real and imaginary parts and pairs are views.
#include "tessera/ops/pointwise/complex.h"

#include <complex>
#include <vector>

#include "tessera/ops/pointwise/convert.h"
#include "tessera/ops/pointwise/detail/row.h"
#include "tessera/ops/pointwise/pointwise.h"
#include "tessera/tensor/call.h"

namespace tessera::ops {
namespace {

using tensor::Call;
using tensor::OutputInfo;

void check_complex(const Call& call) {
  TESSERA_CHECK_CALL(call, call.inputs[0].dtype() == DType::kC64, "x must be c64, got ", call.inputs[0].dtype());
}

// Returns the strides of x in real elements, twice those in complex elements, followed by `more`.
Strides real_strides(const Tensor& x, std::initializer_list<std::int64_t> more = {}) {
  std::vector<std::int64_t> strides;
  for (const std::int64_t step : x.strides()) strides.push_back(2 * step);
  strides.insert(strides.end(), more);
  return Strides(strides);
}

template <int kPart>
Tensor part_view(const Call& call) {
  check_complex(call);
  const Tensor& x = call.inputs[0];
  return x.reinterpreted(DType::kF32, x.shape(), real_strides(x), 2 * x.offset() + kPart);
}
void infer_part(const Call& call, std::span<OutputInfo> outputs) {
  check_complex(call);
  outputs[0] = {call.inputs[0].shape(), DType::kF32};
}
layout::FactorRule rule_of_part(const Call& call) {
  const Shape shapes[] = {call.inputs[0].shape()};
  return layout::pointwise_rule(call.op.name(), shapes, detail::kLinear);
}

const tensor::Operator kReal =
    tensor::register_op({.name = "real",
                         .inputs = "x",
                         .infer = infer_part,
                         .view = part_view<0>,
                         .gradient = [](tensor::GradientCall& call) { call.set(0, cast(call.grad(), DType::kC64)); },
                         .rule = rule_of_part});
const tensor::Operator kImag =
    tensor::register_op({.name = "imag",
                         .inputs = "x",
                         .infer = infer_part,
                         .view = part_view<1>,
                         .gradient =
                             [](tensor::GradientCall& call) {
                               call.set(0, mul(cast(call.grad(), DType::kC64), Scalar(std::complex<double>(0, 1))));
                             },
                         .rule = rule_of_part});

Shape with_pair(const Shape& shape) {
  std::vector<std::int64_t> dims(shape.begin(), shape.end());
  dims.push_back(2);
  return Shape(dims);
}
Shape without_pair(const Shape& shape) { return Shape(shape.values().first(shape.size() - 1)); }

// The dimension of the pair cannot be sharded.
layout::FactorRule pair_rule(const Call& call, const Shape& shape, bool to_real) {
  const Shape shapes[] = {shape};
  layout::FactorRule rule = layout::pointwise_rule(call.op.name(), shapes, detail::kLinear);
  rule.factors.push_back({.name = "pair", .kind = layout::FactorKind::kReplicate, .size = 2});
  layout::DimFactors pair;
  pair.push_back(static_cast<std::int32_t>(rule.factors.size() - 1));
  (to_real ? rule.outputs : rule.inputs)[0].push_back(pair);
  return rule;
}

void infer_as_real(const Call& call, std::span<OutputInfo> outputs) {
  check_complex(call);
  outputs[0] = {with_pair(call.inputs[0].shape()), DType::kF32};
}
Tensor as_real_view(const Call& call) {
  check_complex(call);
  const Tensor& x = call.inputs[0];
  return x.reinterpreted(DType::kF32, with_pair(x.shape()), real_strides(x, {1}), 2 * x.offset());
}
const tensor::Operator kViewAsReal = tensor::register_op(
    {.name = "view_as_real",
     .inputs = "x",
     .infer = infer_as_real,
     .view = as_real_view,
     .gradient = [](tensor::GradientCall& call) { call.set(0, view_as_complex(contiguous(call.grad()))); },
     .rule = [](const Call& call) { return pair_rule(call, call.inputs[0].shape(), true); }});

void infer_as_complex(const Call& call, std::span<OutputInfo> outputs) {
  const Tensor& x = call.inputs[0];
  TESSERA_CHECK_CALL(call, x.dtype() == DType::kF32, "x must be f32, got ", x.dtype());
  TESSERA_CHECK_CALL(call, x.ndim() > 0 && x.size(-1) == 2,
                     "last dimension must have size 2, the real and imaginary part, got ", x.shape());
  outputs[0] = {without_pair(x.shape()), DType::kC64};
}
Tensor as_complex_view(const Call& call) {
  OutputInfo info;
  infer_as_complex(call, std::span(&info, 1));
  const Tensor& x = call.inputs[0];
  const std::size_t last = x.shape().size() - 1;
  bool is_paired = x.shape().is_empty() || (x.strides()[last] == 1 && x.offset() % 2 == 0);
  std::vector<std::int64_t> strides;
  for (std::size_t d = 0; d < last; ++d) {
    is_paired &= x.shape().is_empty() || x.shape()[d] == 1 || x.strides()[d] % 2 == 0;
    strides.push_back(x.strides()[d] / 2);
  }
  TESSERA_CHECK_CALL(call, is_paired, "real and imaginary parts must be adjacent, got strides ", x.strides(),
                     " and offset ", x.offset(), "; make it contiguous first");
  return x.reinterpreted(DType::kC64, info.shape, Strides(strides), x.offset() / 2);
}
const tensor::Operator kViewAsComplex = tensor::register_op(
    {.name = "view_as_complex",
     .inputs = "x",
     .infer = infer_as_complex,
     .view = as_complex_view,
     .gradient = [](tensor::GradientCall& call) { call.set(0, view_as_real(call.grad())); },
     .rule = [](const Call& call) { return pair_rule(call, without_pair(call.inputs[0].shape()), false); }});

}  // namespace

Tensor real(const Tensor& x) { return is_complex(x.dtype()) ? tensor::call(kReal, {x}) : x; }
Tensor imag(const Tensor& x) { return tensor::call(kImag, {x}); }
Tensor view_as_real(const Tensor& x) { return tensor::call(kViewAsReal, {x}); }
Tensor view_as_complex(const Tensor& x) { return tensor::call(kViewAsComplex, {x}); }

}  // namespace tessera::ops
