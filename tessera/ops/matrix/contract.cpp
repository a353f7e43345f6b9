// The operators of products: mm, bmm, linear without bias, and the general contract. Gradients are products, which
// contract_add adds to the sum of an operand's gradients where it is stored.
#include <array>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "tessera/base/rank.h"
#include "tessera/layout/propagate.h"
#include "tessera/ops/detail/enqueue.h"
#include "tessera/ops/matrix/detail/contraction.h"
#include "tessera/ops/matrix/detail/einsum_terms.h"
#include "tessera/ops/matrix/matrix.h"
#include "tessera/ops/pointwise/complex.h"
#include "tessera/ops/shape/shape.h"
#include "tessera/tensor/call.h"
#include "tessera/tensor/device_context.h"

namespace tessera::ops {
namespace {

using detail::ContractionLabels;
using tensor::Call;
using tensor::GradientCall;
using tensor::KernelCall;

// "abcz" for x [a, b, c, k]: letters for the leading dimensions.
std::string leading_labels(const Call& call, int count) {
  TESSERA_CHECK_CALL(call, count <= 20, "x must have at most 20 leading dimensions, got ", count);
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
                     " must have ", least == most ? "" : "at least ", least, " dimensions, got ", x.ndim(),
                     "; matmul accepts any number");
}

void check_dtypes(const Call& call) {
  const DType a = call.inputs[0].dtype();
  const DType b = call.inputs[1].dtype();
  TESSERA_CHECK_CALL(call, a == b, "operands must have the same dtype, got ", a, " and ", b, "; cast one of them");
  TESSERA_CHECK_CALL(call, detail::is_matrix_dtype(a),
                     "dtype must be f32, f64, bf16, f16, c64 or an integer dtype, got ", a, "; cast the operands");
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
  TESSERA_CHECK_CALL(call, a[1] == b[0], "columns of the left operand must equal rows of the right operand, got ", a[1],
                     " and ", b[0]);
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

// The result is not one of the inputs: under a sharded sum, it would be added once for each shard.
void infer_contract_add(const Call& call, std::span<tensor::OutputInfo> outputs) {
  TESSERA_CHECK_CALL(call, call.outputs.size() == 1 && call.outputs[0], "requires an output tensor to add to");
  infer<contract_labels>(call, outputs);
  const bool is_half = outputs[0].dtype == DType::kBF16 || outputs[0].dtype == DType::kF16;
  if (is_half && call.outputs[0].dtype() == DType::kF32) outputs[0].dtype = DType::kF32;
}

void contract_add_kernel(const KernelCall& call) {
  if (call.outputs[0].numel() == 0) return;
  detail::Gemm gemm = detail::plan_contraction(contract_labels(call), call.inputs[0], call.inputs[1], call.outputs[0]);
  gemm.is_added = true;
  detail::enqueue(call, [gemm = std::move(gemm)] { detail::run_gemm(gemm); });
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

// Returns the factor of a gradient: the other operand, conjugated if it is complex.
Tensor factor(GradientCall& call, int input) {
  const Tensor& x = call.input(input);
  return is_complex(x.dtype()) ? conj(x) : x;
}

std::string text_of(const ContractionLabels& labels) { return labels.a + "," + labels.b + "->" + labels.c; }

bool has_add_kernel(const Tensor& sum);

// A product of sharded tensors that may be added to a sum.
struct AddedProduct {
  layout::Layout sum, a, b;
  Shape sum_shape, a_shape, b_shape;
  std::int64_t item = 0;
  std::string labels;
  friend bool operator==(const AddedProduct&, const AddedProduct&) = default;

  [[nodiscard]] std::size_t hash() const {
    std::size_t hash = std::hash<std::string>()(labels);
    for (const layout::Layout& each : {sum, a, b}) hash = hash * 31 + std::hash<layout::Layout>()(each);
    for (const Shape& each : {sum_shape, a_shape, b_shape}) hash = hash * 31 + std::hash<Shape>()(each);
    return hash;
  }
};

// Caches which products have the layouts of their sums. Each step looks up the same products, and propagation takes
// about a fifth of the time of their gradients. A part of the rank; thread-safe.
class KnownProducts {
 public:
  static KnownProducts& current() {
    return current_rank()->part<KnownProducts>([] { return std::make_shared<KnownProducts>(); });
  }
  template <class Ask>
  bool ask(const AddedProduct& product, const Ask& find_out) {
    auto& known = known_[product.hash() % known_.size()];
    const std::lock_guard lock(mutex_);
    if (!known || known->first != product) known.emplace(product, find_out());
    return known->second;
  }

 private:
  std::mutex mutex_;
  std::array<std::optional<std::pair<AddedProduct, bool>>, 128> known_;
};

// Returns true if a product has the layout of a sum, so that their shards can be added.
bool is_laid_like(const Tensor& sum, const Tensor& a, const Tensor& b, const ContractionLabels& labels) {
  if (a.has_layout() != sum.has_layout() || b.has_layout() != sum.has_layout()) return false;
  if (!sum.has_layout()) return true;
  if (!(a.layout().mesh() == sum.layout().mesh()) || !(b.layout().mesh() == sum.layout().mesh())) return false;
  const auto item = static_cast<std::int64_t>(itemsize(sum.dtype()));
  const AddedProduct product{.sum = sum.layout(),
                             .a = a.layout(),
                             .b = b.layout(),
                             .sum_shape = sum.shape(),
                             .a_shape = a.shape(),
                             .b_shape = b.shape(),
                             .item = item,
                             .labels = text_of(labels)};
  return KnownProducts::current().ask(product, [&] {
    const layout::Operand operands[] = {{a.shape(), a.layout(), item}, {b.shape(), b.layout(), item}};
    const layout::Propagation found =
        layout::propagate(detail::contraction_rule("contract", labels), operands, std::span(&sum.shape(), 1));
    return found.is_match() && found.outputs[0] == sum.layout();
  });
}

// Adds a product to the sum of an input's gradients where it is stored. Not in half types, which run_gemm would convert
// first instead of multiplying them as they are stored.
bool is_added(GradientCall& call, int input, const Tensor& a, const Tensor& b, const ContractionLabels& labels) {
  const DType dtype = call.input_dtype(input);
  if (dtype != DType::kF32 && dtype != DType::kF64 && dtype != DType::kC64) return false;
  return call.add_to_sum(input, [&](const Tensor& sum) {
    if (!has_add_kernel(sum) || !is_laid_like(sum, a, b, labels)) return false;
    contract_add_(sum, a, b, text_of(labels));
    return true;
  });
}

// In da = dc b each label of a stands in c or b, and so on: products are closed under differentiation.
ContractionLabels left_labels(const ContractionLabels& of) { return {of.c, of.b, of.a}; }
ContractionLabels right_labels(const ContractionLabels& of) { return {of.a, of.c, of.b}; }

// `left(grad, b)` and `right(a, grad)` compute the products.
template <class Left, class Right>
void product_gradient(GradientCall& call, const ContractionLabels& labels, const Left& left, const Right& right) {
  if (call.needs(0)) {
    const Tensor b = factor(call, 1);
    if (!is_added(call, 0, call.grad(), b, left_labels(labels))) call.set(0, left(call.grad(), b));
  }
  if (call.needs(1)) {
    const Tensor a = factor(call, 0);
    if (!is_added(call, 1, a, call.grad(), right_labels(labels))) call.set(1, right(a, call.grad()));
  }
}

void product_gradient(GradientCall& call, const ContractionLabels& labels) {
  product_gradient(
      call, labels,
      [&](const Tensor& grad, const Tensor& b) { return contract(grad, b, text_of(left_labels(labels))); },
      [&](const Tensor& a, const Tensor& grad) { return contract(a, grad, text_of(right_labels(labels))); });
}

// By the operator itself and transposed views, so that training requires no other kernel of a device.
void mm_gradient(GradientCall& call) {
  product_gradient(
      call, {"ik", "kj", "ij"}, [](const Tensor& grad, const Tensor& b) { return mm(grad, transpose(b, 0, 1)); },
      [](const Tensor& a, const Tensor& grad) { return mm(transpose(a, 0, 1), grad); });
}
void bmm_gradient(GradientCall& call) {
  product_gradient(
      call, {"nik", "nkj", "nij"}, [](const Tensor& grad, const Tensor& b) { return bmm(grad, transpose(b, 1, 2)); },
      [](const Tensor& a, const Tensor& grad) { return bmm(transpose(a, 1, 2), grad); });
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
                                                  .cost = cost<mm_labels>,
                                                  .traits = {.is_product = true}});
const tensor::Operator kBmm = tensor::register_op({.name = "bmm",
                                                   .inputs = "a, b",
                                                   .infer = infer_bmm,
                                                   .host = kernel<bmm_labels>,
                                                   .gradient = bmm_gradient,
                                                   .saves = "a, b",
                                                   .rule = rule<bmm_labels>,
                                                   .cost = cost<bmm_labels>,
                                                   .traits = {.is_product = true}});
const tensor::Operator kLinear = tensor::register_op({.name = "linear",
                                                      .inputs = "x, weight",
                                                      .infer = infer_linear,
                                                      .host = kernel<linear_labels>,
                                                      .gradient = linear_gradient,
                                                      .saves = "x, weight",
                                                      .rule = rule<linear_labels>,
                                                      .cost = cost<linear_labels>,
                                                      .traits = {.is_product = true}});
const tensor::Operator kContract = tensor::register_op({.name = "contract",
                                                        .inputs = "a, b",
                                                        .infer = infer<contract_labels>,
                                                        .host = kernel<contract_labels>,
                                                        .gradient = contract_gradient,
                                                        .saves = "a, b",
                                                        .rule = rule<contract_labels>,
                                                        .cost = cost<contract_labels>,
                                                        .traits = {.is_product = true}});
const tensor::Operator kContractAdd = tensor::register_op({.name = "contract_add",
                                                           .inputs = "a, b",
                                                           .infer = infer_contract_add,
                                                           .host = contract_add_kernel,
                                                           .rule = rule<contract_labels>,
                                                           .cost = cost<contract_labels>,
                                                           .traits = {.is_product = true}});

bool has_add_kernel(const Tensor& sum) {
  const Tensor local = sum.local();  // empty on a rank outside the mesh
  if (!local) return false;
  const tensor::DeviceContext& where = *tensor::current_device(local.device()).context;
  return !where.has_values || kContractAdd->kernels[where.kind] != nullptr;
}

}  // namespace

Tensor mm(const Tensor& a, const Tensor& b) { return tensor::call(kMm, {a, b}); }
Tensor mm(const Tensor& a, const Tensor& b, const ResultOptions& options) {
  return tensor::call_out(kMm, options.out, {a, b});
}
Tensor bmm(const Tensor& a, const Tensor& b) { return tensor::call(kBmm, {a, b}); }
Tensor bmm(const Tensor& a, const Tensor& b, const ResultOptions& options) {
  return tensor::call_out(kBmm, options.out, {a, b});
}
Tensor contract(const Tensor& a, const Tensor& b, std::string_view labels) {
  return tensor::call(kContract, {a, b}, ContractAttributes{std::string(labels)});
}
void contract_add_(const Tensor& sum, const Tensor& a, const Tensor& b, std::string_view labels) {
  tensor::call_out(kContractAdd, sum, {a, b}, ContractAttributes{std::string(labels)});
}

Tensor detail::linear_without_bias(const Tensor& x, const Tensor& weight) { return tensor::call(kLinear, {x, weight}); }

}  // namespace tessera::ops
