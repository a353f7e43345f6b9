// The operators behind every product: mm, bmm, linear without bias, and contract, the general one. Gradients are
// products again.
#include "tessera/ops/detail/enqueue.h"
#include "tessera/ops/matrix/detail/contraction.h"
#include "tessera/ops/matrix/detail/einsum_terms.h"
#include "tessera/ops/matrix/matrix.h"
#include "tessera/ops/pointwise/complex.h"
#include "tessera/ops/shape/shape.h"
#include "tessera/tensor/call.h"

namespace tessera::ops {
namespace {

using detail::ContractionLabels;
using tensor::Call;
using tensor::GradientCall;
using tensor::KernelCall;

// "abcz" for x [a, b, c, k]: letters for the leading dimensions.
std::string leading_labels(const Call& call, int count) {
  TESSERA_CHECK_CALL(call, count <= 20, "more than 20 leading dimensions");
  return std::string("abcdefghlmnopqrstuvw").substr(0, static_cast<std::size_t>(count));
}

ContractionLabels mm_labels(const Call&) { return {"ik", "kj", "ij"}; }
ContractionLabels bmm_labels(const Call&) { return {"nik", "nkj", "nij"}; }
ContractionLabels linear_labels(const Call& call) {
  const std::string leading = leading_labels(call, call.inputs[0].ndim() - 1);
  return {leading + "k", "jk", leading + "j"};
}
ContractionLabels contract_labels(const Call& call) {
  return detail::parse_contraction(call, call.as<ContractAttributes>().labels);
}

void check_dims(const Call& call, int input, int least, int most) {
  const Tensor& x = call.inputs[static_cast<std::size_t>(input)];
  TESSERA_CHECK_CALL(call, x.ndim() >= least && x.ndim() <= most, call.op->inputs[static_cast<std::size_t>(input)].name,
                     " has ", x.ndim(), " dimensions, ", least == most ? "not " : "but needs at least ", least,
                     "; matmul takes any");
}

void check_dtypes(const Call& call) {
  const DType a = call.inputs[0].dtype();
  const DType b = call.inputs[1].dtype();
  TESSERA_CHECK_CALL(call, a == b, "multiplies ", a, " with ", b, "; cast one of them");
  TESSERA_CHECK_CALL(call, detail::is_matrix_dtype(a), "does not compute in ", a,
                     "; cast to f32, f64, bf16, f16, c64 or an integer");
}

template <ContractionLabels (*kLabels)(const Call&)>
void infer(const Call& call, std::span<tensor::OutputInfo> outputs) {
  check_dtypes(call);
  outputs[0] = {detail::contraction_shape(call, kLabels(call), call.inputs[0].shape(), call.inputs[1].shape()),
                call.inputs[0].dtype()};
}

void infer_mm(const Call& call, std::span<tensor::OutputInfo> outputs) {
  check_dims(call, 0, 2, 2);
  check_dims(call, 1, 2, 2);
  check_dtypes(call);
  const Shape& a = call.inputs[0].shape();
  const Shape& b = call.inputs[1].shape();
  TESSERA_CHECK_CALL(call, a[1] == b[0], "the left has ", a[1], " columns, the right ", b[0], " rows");
  outputs[0] = {Shape({a[0], b[1]}), call.inputs[0].dtype()};
}

void infer_bmm(const Call& call, std::span<tensor::OutputInfo> outputs) {
  check_dims(call, 0, 3, 3);
  check_dims(call, 1, 3, 3);
  infer<bmm_labels>(call, outputs);
}

void infer_linear(const Call& call, std::span<tensor::OutputInfo> outputs) {
  check_dims(call, 0, 1, 21);
  check_dims(call, 1, 2, 2);
  infer<linear_labels>(call, outputs);
}

// The plan is large; a closure holds it on the heap.
template <ContractionLabels (*kLabels)(const Call&)>
void kernel(const KernelCall& call) {
  if (call.outputs[0].numel() == 0) return;
  detail::enqueue(call, [gemm = detail::plan_contraction(kLabels(call), call.inputs[0], call.inputs[1],
                                                         call.outputs[0])] { detail::run_gemm(gemm); });
}

void mm_kernel(const KernelCall& call) {
  const Tensor& a = call.inputs[0];
  const Tensor& b = call.inputs[1];
  const Tensor& c = call.outputs[0];
  if (c.numel() == 0) return;
  const auto operand = [](const Tensor& x) {
    return detail::GemmOperand{x.data(), x.strides()[0], x.strides()[1], x.dtype()};
  };
  const detail::GemmSizes sizes = {a.shape()[0], b.shape()[1], a.shape()[1]};
  if (const auto single = detail::single_gemm(sizes, operand(a), operand(b), operand(c))) {
    device::HostFunction now([&single] { single->run(); });  // owns nothing, as most calls run here
    if (call.stream().try_run(now, {.label = call.op.name()})) return;
    detail::enqueue(call, [single = *single] { single.run(); });
    return;
  }
  detail::Gemm gemm;
  gemm.sizes = sizes;
  gemm.a = operand(a);
  gemm.b = operand(b);
  gemm.c = operand(c);
  detail::enqueue(call, [gemm = std::move(gemm)] { detail::run_gemm(gemm); });
}

template <ContractionLabels (*kLabels)(const Call&)>
layout::FactorRule rule(const Call& call) {
  return detail::contraction_rule(call.op.name(), kLabels(call));
}

template <ContractionLabels (*kLabels)(const Call&)>
tensor::Cost cost(const Call& call) {
  const Shape& a = call.inputs[0].shape();
  const Shape& b = call.inputs[1].shape();
  const ContractionLabels labels = kLabels(call);
  return detail::contraction_cost(labels, a, b, detail::contraction_shape(call, labels, a, b), call.inputs[0].dtype());
}

// What a gradient is multiplied with: the other factor, conjugated where it is complex.
Tensor factor(GradientCall& call, int input) {
  const Tensor& x = call.input(input);
  return is_complex(x.dtype()) ? conj(x) : x;
}

// In da = dc b each label of a stands in c or b, and so on: products are closed under differentiation.
void product_gradient(GradientCall& call, const ContractionLabels& labels) {
  if (call.needs(0)) {
    call.set(0, contract(call.grad(), factor(call, 1), labels.c + "," + labels.b + "->" + labels.a));
  }
  if (call.needs(1)) {
    call.set(1, contract(factor(call, 0), call.grad(), labels.a + "," + labels.c + "->" + labels.b));
  }
}

// By themselves and transposed views, so that a device needs no more than they are to train.
void mm_gradient(GradientCall& call) {
  if (call.needs(0)) call.set(0, mm(call.grad(), transpose(factor(call, 1), 0, 1)));
  if (call.needs(1)) call.set(1, mm(transpose(factor(call, 0), 0, 1), call.grad()));
}
void bmm_gradient(GradientCall& call) {
  if (call.needs(0)) call.set(0, bmm(call.grad(), transpose(factor(call, 1), 1, 2)));
  if (call.needs(1)) call.set(1, bmm(transpose(factor(call, 0), 1, 2), call.grad()));
}
void linear_gradient(GradientCall& call) {
  const std::string leading = std::string("abcdefghlmnopqrstuvw").substr(0, call.input_shape(0).size() - 1);
  product_gradient(call, {leading + "k", "jk", leading + "j"});
}
void contract_gradient(GradientCall& call) {
  const std::string& labels = call.as<ContractAttributes>().labels;
  const std::size_t comma = labels.find(',');
  const std::size_t arrow = labels.find("->");
  product_gradient(call,
                   {labels.substr(0, comma), labels.substr(comma + 1, arrow - comma - 1), labels.substr(arrow + 2)});
}

const tensor::Operator kMm = tensor::register_op({.name = "mm",
                                                  .inputs = "a, b",
                                                  .infer = infer_mm,
                                                  .host = mm_kernel,
                                                  .gradient = mm_gradient,
                                                  .saves = "a, b",
                                                  .rule = rule<mm_labels>,
                                                  .cost = cost<mm_labels>});
const tensor::Operator kBmm = tensor::register_op({.name = "bmm",
                                                   .inputs = "a, b",
                                                   .infer = infer_bmm,
                                                   .host = kernel<bmm_labels>,
                                                   .gradient = bmm_gradient,
                                                   .saves = "a, b",
                                                   .rule = rule<bmm_labels>,
                                                   .cost = cost<bmm_labels>});
const tensor::Operator kLinear = tensor::register_op({.name = "linear",
                                                      .inputs = "x, weight",
                                                      .infer = infer_linear,
                                                      .host = kernel<linear_labels>,
                                                      .gradient = linear_gradient,
                                                      .saves = "x, weight",
                                                      .rule = rule<linear_labels>,
                                                      .cost = cost<linear_labels>});
const tensor::Operator kContract = tensor::register_op({.name = "contract",
                                                        .inputs = "a, b",
                                                        .infer = infer<contract_labels>,
                                                        .host = kernel<contract_labels>,
                                                        .gradient = contract_gradient,
                                                        .saves = "a, b",
                                                        .rule = rule<contract_labels>,
                                                        .cost = cost<contract_labels>});

}  // namespace

Tensor mm(const Tensor& a, const Tensor& b) { return tensor::call(kMm, {a, b}); }
void mm_out(const Tensor& out, const Tensor& a, const Tensor& b) { tensor::call_out(kMm, out, {a, b}); }
Tensor bmm(const Tensor& a, const Tensor& b) { return tensor::call(kBmm, {a, b}); }
void bmm_out(const Tensor& out, const Tensor& a, const Tensor& b) { tensor::call_out(kBmm, out, {a, b}); }
Tensor contract(const Tensor& a, const Tensor& b, std::string_view labels) {
  return tensor::call(kContract, {a, b}, ContractAttributes{std::string(labels)});
}

Tensor detail::linear_without_bias(const Tensor& x, const Tensor& weight) { return tensor::call(kLinear, {x, weight}); }

}  // namespace tessera::ops
