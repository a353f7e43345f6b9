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

bool is_mask(const PointwiseKernels& kernels, std::size_t input) {
  return input == 0 && (kernels.types & detail::kFirstIsMask) != 0;
}

// Launches a kernel for contiguous operands, whose addresses are already set, and returns true if one has the dtypes.
bool launch_dense(const tensor::KernelCall& call, const PointwiseKernels& kernels, DenseCall dense,
                  std::size_t inputs) {
  const DType out = call.outputs[0].dtype();
  const auto has_dtypes = [&](const DenseKernel& kernel) {
    if (kernel.to != out) return false;
    for (std::size_t i = 0; i < inputs; ++i) {
      const PointwiseOperand& operand = dense.inputs[i];
      if (!operand.is_constant && !is_mask(kernels, i) && operand.dtype != kernel.from) return false;
    }
    return true;
  };
  const auto found = std::ranges::find_if(kernels.dense, has_dtypes);
  if (found == kernels.dense.end()) return false;
  dense.has_vectors = is_aligned(dense.out, out, found->width);
  for (std::size_t i = 0; i < inputs; ++i) {
    const PointwiseOperand& operand = dense.inputs[i];
    dense.has_vectors &= operand.is_constant || is_aligned(operand.data, operand.dtype, found->width);
  }
  const int nbytes = found->width * static_cast<int>(itemsize(found->from));
  const std::int64_t tile = std::int64_t{kThreads} * found->width * dense_unroll(static_cast<int>(inputs), nbytes);
  launch(call, found->kernel, blocks_for(call, dense.numel, tile), kThreads, dense);
  return true;
}

bool can_walk_rows(const Loop& loop, const PointwiseKernels& kernels, const WalkCall& walk) {
  if (kernels.rows == nullptr || !has_vectors(loop, kVector)) return false;
  const DType computed = detail::dtype_of(kernels.compute);
  const auto has_vectors_of = [&](const void* data, DType dtype) {
    return (dtype == DType::kBool || is_read_in_place(dtype, computed)) && is_aligned(data, dtype, kVector);
  };
  if (!has_vectors_of(walk.out, walk.out_dtype)) return false;
  for (std::int32_t i = 0; i < walk.count; ++i) {
    const PointwiseOperand& operand = walk.inputs[i];
    if (!operand.is_splat && !has_vectors_of(operand.data, operand.dtype)) return false;
  }
  return true;
}

void launch_walk(const tensor::KernelCall& call, const PointwiseKernels& kernels, const Loop& loop,
                 std::span<const TileInput> inputs) {
  WalkCall walk{};
  walk.out = call.outputs[0].data();
  walk.out_dtype = call.outputs[0].dtype();
  walk.count = static_cast<std::int32_t>(inputs.size());
  walk.op = kernels.op;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    walk.inputs[i] = operand_of(inputs[i]);
    walk.inputs[i].is_splat = loop.step(i + 1) == 0 || inputs[i].tensor == nullptr;
  }
  const bool by_rows = can_walk_rows(loop, kernels, walk);
  walk.walk = walk_of(loop, by_rows ? kVector : 1);
  const bool is_unrolled = by_rows && kernels.compute == Compute::kF32;
  const std::int64_t tile = std::int64_t{kThreads} * (is_unrolled ? walk_unroll(walk.count) : 1);
  launch(call, by_rows ? *kernels.rows : kernels.any, blocks_for(call, walk.walk.numel, tile), kThreads, walk);
}

}  // namespace

FamilyKernels::FamilyKernels(Image& image, const std::string& name)
    : any{{image, name + "_any_f32"},
          {image, name + "_any_f64"},
          {image, name + "_any_i64"},
          {image, name + "_any_c64"}},
      rows{{image, name + "_rows_f64"}, {image, name + "_rows_i64"}, {image, name + "_rows_c64"}} {}

FormulaKernels::FormulaKernels(Image& image, const std::string& name, int op, unsigned types,
                               const FamilyKernels& family)
    : dense_{{DType::kF32,
              (types & detail::kToBool) != 0 ? DType::kBool : DType::kF32,
              dense_vector(4),
              {image, name + "_f32"}},
             {DType::kBF16,
              (types & detail::kToBool) != 0 ? DType::kBool : DType::kBF16,
              dense_vector(2),
              {image, name + "_bf16"}}},
      rows_(image, name + "_rows"),
      family_(family),
      types_(types),
      op_(op) {}

PointwiseKernels FormulaKernels::in(Compute compute) const {
  const bool is_f32 = compute == Compute::kF32;
  const auto index = static_cast<std::size_t>(compute);
  return {.compute = compute,
          .dense = is_f32 ? std::span<const DenseKernel>(dense_) : std::span<const DenseKernel>(),
          .rows = is_f32 ? &rows_ : &family_.rows[index - 1],
          .any = family_.any[index],
          .types = types_,
          .op = op_};
}

void launch_pointwise(const tensor::KernelCall& call, const PointwiseKernels& kernels,
                      std::span<const TileInput> inputs) {
  const Tensor& out = call.outputs[0];
  if (out.numel() == 0) return;
  DenseCall dense{.out = out.data(), .numel = out.numel(), .inputs = {}, .has_vectors = false};
  for (std::size_t i = 0; i < inputs.size(); ++i) dense.inputs[i] = operand_of(inputs[i]);
  const bool is_dense =
      out.is_contiguous() && std::ranges::all_of(inputs, [&](const TileInput& input) {
        return input.tensor == nullptr || (input.tensor->is_contiguous() && input.tensor->shape() == out.shape());
      });
  if (is_dense && launch_dense(call, kernels, dense, inputs.size())) return;

  const Tensor* tensors[kMaxInputs + 1] = {&out};
  for (std::size_t i = 0; i < inputs.size(); ++i) tensors[i + 1] = inputs[i].tensor;
  const Loop loop(std::span(tensors, inputs.size() + 1));
  bool is_one_run = !is_dense && loop.ndim() <= 1 && loop.step(0) == 1;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    is_one_run = is_one_run && (loop.step(i + 1) == 1 || loop.is_constant(i + 1));
  }
  if (is_one_run) {
    dense.out = const_cast<void*>(moved(dense.out, out.dtype(), loop.first(0)));
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      PointwiseOperand& operand = dense.inputs[i];
      operand.is_constant = loop.is_constant(i + 1);
      if (operand.data != nullptr) operand.data = moved(operand.data, operand.dtype, loop.first(i + 1));
    }
    if (launch_dense(call, kernels, dense, inputs.size())) return;
  }
  launch_walk(call, kernels, loop, inputs);
}

}  // namespace tessera::ops::cuda
