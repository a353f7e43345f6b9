#include "tessera/ops/pointwise/detail/row.h"

#include <algorithm>
#include <vector>

#include "tessera/ops/detail/dtype_checks.h"
#include "tessera/ops/pointwise/pointwise.h"
#include "tessera/ops/pointwise/promote.h"

namespace tessera::ops::detail {
namespace {

// Returns the types of a row that can compute with a dtype. One of them is sufficient.
constexpr std::uint8_t types_of(DType dtype) {
  switch (dtype) {
    case DType::kF64:
    case DType::kF32:
    case DType::kF16:
    case DType::kBF16: return kFloats;
    case DType::kI64:
    case DType::kI32:
    case DType::kI16:
    case DType::kI8:
    case DType::kU8: return kIntegers | kIntegersAsFloats;
    case DType::kBool: return kBools | kIntegersAsFloats;
    case DType::kC64: return kComplex;
    default: return 0;
  }
}

[[noreturn]] void refuse_dtype(const tensor::Call& call, DType dtype) {
  TESSERA_CHECK_CALL(call, !is_storage_only(dtype), "dtype must be one that operators compute in, got ", dtype,
                     "; cast it first");
  TESSERA_THROW(InvalidArgument, call.op->function, ": dtype must be one that this operator supports, got ", dtype,
                "; cast the input; called as ", call.text());
}

bool are_shapes_alike(const tensor::Call& call) {
  const Shape& first = call.inputs[0].shape();
  return std::ranges::all_of(call.inputs.subspan(1), [&](const Tensor& tensor) { return tensor.shape() == first; });
}

// Returns the shape that all tensors broadcast to.
Shape broadcast_shape(const tensor::Call& call) {
  std::vector<std::int64_t> dims;
  for (const Tensor& input : call.inputs) {
    const Shape& shape = input.shape();
    if (shape.size() > dims.size()) dims.insert(dims.begin(), shape.size() - dims.size(), 1);
    for (std::size_t d = 0; d < shape.size(); ++d) {
      std::int64_t& dim = dims[dims.size() - shape.size() + d];
      TESSERA_CHECK_CALL(call, dim == shape[d] || dim == 1 || shape[d] == 1, "shapes must broadcast, got ", dim,
                         " and ", shape[d], " in dimension ", static_cast<std::int64_t>(d) - input.ndim());
      if (dim == 1) dim = shape[d];
    }
  }
  return Shape(dims);
}

}  // namespace

DType computed_dtype(const PointwiseRow& row, const tensor::Call& call) {
  const std::size_t first = (row.types & kFirstIsMask) != 0 ? 1 : 0;
  DType dtype = call.inputs[first].dtype();
  // Also rejected together with computable dtypes: u64 would be read as a signed integer.
  bool is_stored = is_storage_only(dtype);
  for (std::size_t i = first + 1; i < call.inputs.size(); ++i) {
    const DType next = call.inputs[i].dtype();
    if (next == dtype) continue;
    is_stored |= is_storage_only(next);
    if (is_stored) [[unlikely]]
      refuse_dtype(call, is_storage_only(next) ? next : dtype);
    dtype = promote(dtype, next);
  }
  if (is_stored) [[unlikely]]
    refuse_dtype(call, dtype);
  if (row.numbers == Numbers::kLast || row.numbers == Numbers::kFirst) {
    dtype = promote(dtype, call.as<ScalarAttributes>().value);
  } else if (row.numbers == Numbers::kRange) {
    const auto& range = call.as<ClampAttributes>();
    dtype = promote(promote(dtype, range.low), range.high);
  }
  if ((types_of(dtype) & row.types) == 0) [[unlikely]]
    refuse_dtype(call, dtype);
  if ((row.types & kIntegersAsFloats) != 0 && !is_floating(dtype) && !is_complex(dtype)) return DType::kF32;
  return dtype;
}

void infer_row(const PointwiseRow& row, const tensor::Call& call, std::span<tensor::OutputInfo> outputs) {
  const DType dtype = computed_dtype(row, call);
  TESSERA_CHECK_CALL(call, (row.types & kFirstIsMask) == 0 || call.inputs[0].dtype() == DType::kBool,
                     "mask must be bool, got ", call.inputs[0].dtype());
  if (are_shapes_alike(call)) {
    outputs[0].shape = call.inputs[0].shape();
  } else {
    outputs[0].shape = broadcast_shape(call);
  }
  outputs[0].dtype = (row.types & kToBool) != 0 ? DType::kBool : (row.types & kToReal) != 0 ? real_of(dtype) : dtype;
  for (std::size_t i = 1; i < outputs.size(); ++i) outputs[i] = outputs[0];
}

RowInputs::RowInputs(const PointwiseRow& row, const tensor::KernelCall& call) {
  // For most rows, the compute dtype is the inferred dtype of the result.
  compute = compute_of((row.types & (kToBool | kToReal)) == 0 ? call.outputs[0].dtype() : computed_dtype(row, call));
  if (row.numbers == Numbers::kFirst) values[count++] = TileInput::of(call.as<ScalarAttributes>().value, compute);
  for (const Tensor& tensor : call.inputs) values[count++] = TileInput::of(tensor);
  if (row.numbers == Numbers::kLast) values[count++] = TileInput::of(call.as<ScalarAttributes>().value, compute);
  if (row.numbers == Numbers::kRange) {
    const auto& range = call.as<ClampAttributes>();
    values[count++] = TileInput::of(range.low, compute);
    values[count++] = TileInput::of(range.high, compute);
  }
}

void run_row(const PointwiseRow& row, const tensor::KernelCall& call) {
  const RowInputs inputs(row, call);
  launch_tiles(call, inputs.compute, row.kernels().by_compute[static_cast<int>(inputs.compute)], inputs.span());
}

layout::FactorRule rule_of_row(const PointwiseRow& row, const tensor::Call& call) {
  std::vector<Shape> shapes;
  for (const Tensor& input : call.inputs) shapes.push_back(input.shape());
  layout::FactorRule rule = layout::pointwise_rule(std::string(row.name), shapes);
  for (std::size_t i = 1; i < call.op->outputs.size(); ++i) rule.outputs.emplace_back(rule.outputs[0]);
  const DType dtype = computed_dtype(row, call);
  // Sums of bools are not sums, and differences of unsigned integers wrap.
  if (dtype == DType::kBool) return rule;
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    layout::Algebra algebra = row.algebra[i];
    if (dtype == DType::kU8 || (row.types & kToBool) != 0) algebra.monotony = layout::Monotony::kNone;
    rule.algebra.push_back(algebra);
  }
  if (row.is_linear_with_0 && !call.as<ScalarAttributes>().value.as_bool()) {
    rule.algebra.back().linearity = layout::Linearity::kJoint;
  }
  if (std::ranges::all_of(rule.algebra, [](const layout::Algebra& a) { return a == kOpaque; })) rule.algebra.clear();
  return rule;
}

tensor::Cost cost_of_row(const PointwiseRow& row, const tensor::Call& call) {
  tensor::OutputInfo info;
  infer_row(row, call, std::span(&info, 1));
  tensor::Cost cost{.flops = row.flops * static_cast<double>(info.shape.numel()),
                    .nbytes = static_cast<double>(call.op->outputs.size() * nbytes(info.shape, info.dtype))};
  for (const Tensor& input : call.inputs) cost.nbytes += static_cast<double>(nbytes(input.shape(), input.dtype()));
  return cost;
}

}  // namespace tessera::ops::detail
