// Small f64 operators for the autograd tests, each a few lines of plain loops: with and
// without gradients, saving inputs, saving the result, a view, two results, results without
// gradients. Registered in programs that include this header.
#pragma once

#include <algorithm>
#include <vector>

#include "tessera/autograd/autograd.h"
#include "tessera/autograd/testing/test_kernels.h"
#include "tessera/tensor/call.h"

namespace tessera::autograd::testing {

struct SpreadAttributes {
  Shape shape;
  TESSERA_ATTRIBUTES(shape)
};

Tensor mul(const Tensor& a, const Tensor& b);
Tensor neg(const Tensor& x);
Tensor sum(const Tensor& x);
Tensor spread(const Tensor& x, const Shape& shape);
Tensor mm(const Tensor& a, const Tensor& b);
Tensor transpose(const Tensor& x);

inline void add_gradient(GradientCall& call) {
  for (const int i : {0, 1}) call.set(i, call.grad());
}
inline void mul_gradient(GradientCall& call) {
  if (call.needs(0)) call.set(0, mul(call.grad(), call.input(1)));
  if (call.needs(1)) call.set(1, mul(call.grad(), call.input(0)));
}
inline void neg_gradient(GradientCall& call) { call.set(0, neg(call.grad())); }
inline void exp_gradient(GradientCall& call) { call.set(0, mul(call.grad(), call.output())); }

inline const Operator kAdd = register_op({.name = "test.add",
                                          .inputs = "a, b",
                                          .infer = infer_like_first,
                                          .host = binary_kernel<plus>,
                                          .gradient = add_gradient,
                                          .traits = {.is_pointwise = true}});
inline const Operator kMul = register_op({.name = "test.mul",
                                          .inputs = "a, b",
                                          .infer = infer_like_first,
                                          .host = binary_kernel<times>,
                                          .gradient = mul_gradient,
                                          .saves = "a, b",
                                          .traits = {.is_pointwise = true}});
inline const Operator kNeg = register_op({.name = "test.neg",
                                          .inputs = "x",
                                          .infer = infer_like_first,
                                          .host = unary_kernel<minus>,
                                          .gradient = neg_gradient,
                                          .traits = {.is_pointwise = true}});
inline const Operator kExp = register_op({.name = "test.exp",
                                          .inputs = "x",
                                          .infer = infer_like_first,
                                          .host = unary_kernel<exponential>,
                                          .gradient = exp_gradient,
                                          .saves = "out",
                                          .traits = {.is_pointwise = true}});
/// exp without a gradient.
inline const Operator kOpaque =
    register_op({.name = "test.opaque", .inputs = "x", .infer = infer_like_first, .host = unary_kernel<exponential>});

/// 1 for positive elements, otherwise 0, as i64.
inline const Operator kIsPositive = register_op({.name = "test.is_positive",
                                                 .inputs = "x",
                                                 .infer =
                                                     [](const Call& call, std::span<OutputInfo> out) {
                                                       out[0] = {call.inputs[0].shape(), DType::kI64};
                                                     },
                                                 .host =
                                                     [](const KernelCall& call) {
                                                       const TestElements x(call.inputs[0]);
                                                       auto* out = call.outputs[0].data_as<std::int64_t>();
                                                       enqueue(call, [=] {
                                                         for (std::int64_t i = 0; i < x.count; ++i)
                                                           out[i] = x[i] > 0 ? 1 : 0;
                                                       });
                                                     }});

inline const Operator kSum =
    register_op({.name = "test.sum",
                 .inputs = "x",
                 .infer =
                     [](const Call&, std::span<OutputInfo> out) {
                       out[0] = {Shape(), DType::kF64};
                     },
                 .host =
                     [](const KernelCall& call) {
                       const TestElements x(call.inputs[0]);
                       double* out = call.outputs[0].data_as<double>();
                       enqueue(call, [=] {
                         *out = 0;
                         for (std::int64_t i = 0; i < x.count; ++i) *out += x[i];
                       });
                     },
                 .gradient = [](GradientCall& call) { call.set(0, spread(call.grad(), call.input_shape(0))); }});
inline const Operator kSpread = register_op({.name = "test.spread",
                                             .inputs = "x",
                                             .infer =
                                                 [](const Call& call, std::span<OutputInfo> out) {
                                                   out[0] = {call.as<SpreadAttributes>().shape, DType::kF64};
                                                 },
                                             .host =
                                                 [](const KernelCall& call) {
                                                   const double* x = call.inputs[0].data_as<double>();
                                                   const TestElements out(call.outputs[0]);
                                                   enqueue(call, [=] {
                                                     for (std::int64_t i = 0; i < out.count; ++i) out[i] = *x;
                                                   });
                                                 },
                                             .gradient = [](GradientCall& call) { call.set(0, sum(call.grad())); }});

/// Two results: x and -x.
inline const Operator kBoth = register_op({.name = "test.both",
                                           .inputs = "x",
                                           .outputs = "same, negative",
                                           .infer = infer_like_first,
                                           .host =
                                               [](const KernelCall& call) {
                                                 const TestElements x(call.inputs[0]);
                                                 const TestElements same(call.outputs[0]);
                                                 const TestElements negative(call.outputs[1]);
                                                 enqueue(call, [=] {
                                                   for (std::int64_t i = 0; i < x.count; ++i) {
                                                     same[i] = x[i];
                                                     negative[i] = -x[i];
                                                   }
                                                 });
                                               },
                                           .gradient =
                                               [](GradientCall& call) {
                                                 Tensor total = call.grad(0);
                                                 if (call.grad(1)) {
                                                   const Tensor other = neg(call.grad(1));
                                                   total = total ? tensor::call(kAdd, {total, other}) : other;
                                                 }
                                                 call.set(0, total);
                                               }});

inline const Operator kTranspose =
    register_op({.name = "test.transpose",
                 .inputs = "x",
                 .infer =
                     [](const Call& call, std::span<OutputInfo> out) {
                       out[0] = {Shape({call.inputs[0].size(1), call.inputs[0].size(0)}), call.inputs[0].dtype()};
                     },
                 .view =
                     [](const Call& call) {
                       const Tensor& x = call.inputs[0];
                       return x.as_strided({x.size(1), x.size(0)}, {x.strides()[1], x.strides()[0]}, x.offset());
                     },
                 .gradient = [](GradientCall& call) { call.set(0, transpose(call.grad())); }});

inline const Operator kMm =
    register_op({.name = "test.mm",
                 .inputs = "a, b",
                 .infer =
                     [](const Call& call, std::span<OutputInfo> out) {
                       out[0] = {Shape({call.inputs[0].size(0), call.inputs[1].size(1)}), DType::kF64};
                     },
                 .host =
                     [](const KernelCall& call) {
                       const TestElements a(call.inputs[0]);
                       const TestElements b(call.inputs[1]);
                       const TestElements out(call.outputs[0]);
                       enqueue(call, [=] {
                         const std::int64_t n = a.shape[1];
                         const std::int64_t columns = b.shape[1];
                         for (std::int64_t i = 0; i < out.count; ++i) {
                           double total = 0;
                           for (std::int64_t k = 0; k < n; ++k)
                             total += a[i / columns * n + k] * b[k * columns + i % columns];
                           out[i] = total;
                         }
                       });
                     },
                 .gradient =
                     [](GradientCall& call) {
                       if (call.needs(0)) call.set(0, mm(call.grad(), transpose(call.input(1))));
                       if (call.needs(1)) call.set(1, mm(transpose(call.input(0)), call.grad()));
                     },
                 .saves = "a, b"});

inline Tensor add(const Tensor& a, const Tensor& b) { return tensor::call(kAdd, {a, b}); }
inline Tensor mul(const Tensor& a, const Tensor& b) { return tensor::call(kMul, {a, b}); }
inline Tensor neg(const Tensor& x) { return tensor::call(kNeg, {x}); }
inline Tensor exp(const Tensor& x) { return tensor::call(kExp, {x}); }
inline Tensor sum(const Tensor& x) { return tensor::call(kSum, {x}); }
inline Tensor spread(const Tensor& x, const Shape& shape) {
  return tensor::call(kSpread, {x}, SpreadAttributes{shape});
}
inline Tensor mm(const Tensor& a, const Tensor& b) { return tensor::call(kMm, {a, b}); }
inline Tensor transpose(const Tensor& x) { return tensor::call(kTranspose, {x}); }

/// Returns a tensor of these values.
inline Tensor tensor_of(const Shape& shape, const std::vector<double>& values,
                        const device::Device& device = device::Device::get("host")) {
  Tensor t = Tensor::allocate(shape, DType::kF64, device);
  device.synchronize();
  std::copy(values.begin(), values.end(), t.data_as<double>());
  return t;
}
/// Returns a leaf of these values that requires a gradient.
inline Tensor leaf_of(const Shape& shape, const std::vector<double>& values,
                      const device::Device& device = device::Device::get("host")) {
  Tensor t = tensor_of(shape, values, device);
  set_requires_grad(t, true);
  return t;
}
/// Waits for the elements and returns them; nothing for an empty handle.
inline std::vector<double> values_of(const Tensor& tensor) {
  if (!tensor) return {};
  tensor.device().synchronize();
  const TestElements elements(tensor);
  std::vector<double> values;
  for (std::int64_t i = 0; i < elements.count; ++i) values.push_back(elements[i]);
  return values;
}

}  // namespace tessera::autograd::testing
