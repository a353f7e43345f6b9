#include "tessera/ops/pointwise/cuda/launch_pointwise.h"

#include <algorithm>
#include <cstring>

#include "tessera/ops/detail/loops.h"
#include "tessera/ops/pointwise/cuda/pointwise_call.h"
#include "tessera/ops/pointwise/detail/types.h"

namespace tessera::ops::cuda {
namespace {

using detail::Compute;
using detail::Loop;
using detail::TileInput;

constexpr std::size_t kMaxInputs = 3;

PointwiseOperand operand_of(const TileInput& input) {
  PointwiseOperand operand{};
  if (input.tensor == nullptr) {
    std::memcpy(&operand.number, input.number, sizeof operand.number);
    operand.is_constant = true;
  } else {
    operand.data = input.tensor->data();
    operand.dtype = input.tensor->dtype();
  }
  return operand;
}

const void* moved(const void* data, DType dtype, std::int64_t elements) {
  return static_cast<const std::byte*>(data) + elements * static_cast<std::int64_t>(itemsize(dtype));
}

// `call.inputs` and `call.out` are already set to the addresses of the first elements of the walk.
void launch_dense(const tensor::KernelCall& call, const TypedKernels& kernels, DenseCall dense, std::size_t inputs) {
  std::size_t largest = itemsize(dense.out_dtype);
  for (std::size_t i = 0; i < inputs; ++i) {
    if (!dense.inputs[i].is_constant) largest = std::max(largest, itemsize(dense.inputs[i].dtype));
  }
  const bool is_wide = kernels.wide.has_value() && largest <= 2;
  const int width = is_wide ? kWide : kVector;
  dense.has_vectors = is_read_in_place(dense.out_dtype, kernels.dtype) && is_aligned(dense.out, dense.out_dtype, width);
  for (std::size_t i = 0; i < inputs; ++i) {
    const PointwiseOperand& operand = dense.inputs[i];
    if (operand.is_constant) continue;
    dense.has_vectors = dense.has_vectors && is_read_in_place(operand.dtype, kernels.dtype) &&
                        is_aligned(operand.data, operand.dtype, width);
  }
  const std::int64_t tile = std::int64_t{kThreads} * width * kUnroll;
  launch(call, is_wide ? *kernels.wide : kernels.dense, blocks_for(call, dense.numel, tile), kThreads, dense);
}

bool can_walk_rows(const Loop& loop, const TypedKernels& kernels, const StridedCall& strided, std::size_t inputs) {
  if (!kernels.rows || !has_vectors(loop, kVector)) return false;
  if (!is_read_in_place(strided.out_dtype, kernels.dtype)) return false;
  if (!is_aligned(strided.out, strided.out_dtype, kVector)) return false;
  for (std::size_t i = 0; i < inputs; ++i) {
    const PointwiseOperand& operand = strided.inputs[i];
    if (loop.step(i + 1) == 0) continue;
    if (!is_read_in_place(operand.dtype, kernels.dtype)) return false;
    if (!is_aligned(operand.data, operand.dtype, kVector)) return false;
  }
  return true;
}

void launch_strided(const tensor::KernelCall& call, const TypedKernels& kernels, const Loop& loop,
                    std::span<const TileInput> inputs) {
  StridedCall strided{};
  strided.out = call.outputs[0].data();
  strided.out_dtype = call.outputs[0].dtype();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    strided.inputs[i] = operand_of(inputs[i]);
    strided.inputs[i].is_splat = loop.step(i + 1) == 0;
  }
  const bool by_rows = can_walk_rows(loop, kernels, strided, inputs.size());
  strided.walk = walk_of(loop, by_rows ? kVector : 1);
  launch(call, by_rows ? *kernels.rows : kernels.strided, blocks_for(call, strided.walk.numel, kThreads), kThreads,
         strided);
}

}  // namespace

TypedKernels::TypedKernels(Image& image, const std::string& name, DType computed)
    : dense(image, name + "_dense"), strided(image, name + "_strided"), dtype(computed) {
  if (computed != DType::kF32) return;
  wide.emplace(image, name + "_wide");
  rows.emplace(image, name + "_rows");
}

PointwiseKernels::PointwiseKernels(Image& image, const std::string& name, unsigned types) {
  const auto add = [&](Compute compute, const char* suffix, unsigned needed) {
    if ((types & needed) == 0) return;
    by_compute_[static_cast<std::size_t>(compute)] =
        std::make_unique<TypedKernels>(image, name + suffix, detail::dtype_of(compute));
  };
  add(Compute::kF32, "_f32", detail::kFloats);
  add(Compute::kF64, "_f64", detail::kFloats);
  add(Compute::kI64, "_i64", detail::kIntegers | detail::kBools);
  add(Compute::kC64, "_c64", detail::kComplex);
}

void launch_pointwise(const tensor::KernelCall& call, const TypedKernels& kernels, std::span<const TileInput> inputs) {
  const Tensor& out = call.outputs[0];
  TESSERA_CHECK(inputs.size() <= kMaxInputs, call.op.name(), ": a CUDA kernel must have at most ", kMaxInputs,
                " inputs, got ", inputs.size());
  if (out.numel() == 0) return;
  DenseCall dense{
      .out = out.data(), .numel = out.numel(), .inputs = {}, .out_dtype = out.dtype(), .has_vectors = false};
  for (std::size_t i = 0; i < inputs.size(); ++i) dense.inputs[i] = operand_of(inputs[i]);
  const bool is_dense =
      out.is_contiguous() && std::ranges::all_of(inputs, [&](const TileInput& input) {
        return input.tensor == nullptr || (input.tensor->is_contiguous() && input.tensor->shape() == out.shape());
      });
  if (is_dense) return launch_dense(call, kernels, dense, inputs.size());

  const Tensor* tensors[kMaxInputs + 1] = {&out};
  for (std::size_t i = 0; i < inputs.size(); ++i) tensors[i + 1] = inputs[i].tensor;
  const Loop loop(std::span(tensors, inputs.size() + 1));
  bool is_one_run = loop.ndim() <= 1 && loop.step(0) == 1;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    is_one_run = is_one_run && (loop.step(i + 1) == 1 || loop.is_constant(i + 1));
  }
  if (!is_one_run) return launch_strided(call, kernels, loop, inputs);
  dense.out = const_cast<void*>(moved(dense.out, dense.out_dtype, loop.first(0)));
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    PointwiseOperand& operand = dense.inputs[i];
    operand.is_constant = loop.is_constant(i + 1);
    if (operand.data != nullptr) operand.data = moved(operand.data, operand.dtype, loop.first(i + 1));
  }
  launch_dense(call, kernels, dense, inputs.size());
}

}  // namespace tessera::ops::cuda
