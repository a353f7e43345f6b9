// The operators of products on CUDA: mm, bmm, linear, contract and contract_add, by cuBLASLt; of integers by a plain
// kernel.
#include <vector>

#include "tessera/ops/cuda/kernels.h"
#include "tessera/ops/matrix/cuda/product_plan.h"
#include "tessera/ops/matrix/detail/contraction.h"
#include "tessera/ops/matrix/matrix.h"

TESSERA_CUDA_IMAGE(gemm_strided);

namespace tessera::ops::cuda {
namespace {

using detail::ContractionLabels;
using detail::Gemm;
using detail::GemmOperand;
using tensor::KernelCall;

Image image(TESSERA_CUDA_BYTES(gemm_strided));
const ImageKernel move_kernel(image, "gemm_move_strided");
const ImageKernel integers_kernel(image, "gemm_integers");

void launch_move(const KernelCall& call, const StridedMove& move) {
  launch(call, move_kernel, blocks_for(call, move.numel, kThreads), kThreads, move);
}

void run(const KernelCall& call, Gemm gemm) {
  std::vector<memory::Buffer> held;  // freed after everything is enqueued
  const ProductPlan plan = plan_product(call.op.name().c_str(), std::move(gemm), [&](std::size_t nbytes) {
    held.push_back(scratch(call, nbytes));
    return held.back().data();
  });
  for (const StridedMove& move : plan.before) launch_move(call, move);
  for (const LtProduct& product : plan.products) launch_lt_gemm(call, product);
  if (plan.integers) {
    launch(call, integers_kernel, blocks_for(call, plan.integers->numel, kThreads), kThreads, *plan.integers);
  }
  if (plan.after) launch_move(call, *plan.after);
}

GemmOperand operand(const Tensor& x, std::size_t row) {
  return {x.data(), x.strides()[row], x.strides()[row + 1], x.dtype()};
}

void mm_kernel(const KernelCall& call) {
  const Tensor& a = call.inputs[0];
  const Tensor& b = call.inputs[1];
  if (call.outputs[0].numel() == 0) return;
  Gemm gemm;
  gemm.sizes = {a.shape()[0], b.shape()[1], a.shape()[1]};
  gemm.a = operand(a, 0);
  gemm.b = operand(b, 0);
  gemm.c = operand(call.outputs[0], 0);
  run(call, std::move(gemm));
}

void bmm_kernel(const KernelCall& call) {
  const Tensor& a = call.inputs[0];
  const Tensor& b = call.inputs[1];
  const Tensor& c = call.outputs[0];
  if (c.numel() == 0) return;
  Gemm gemm;
  gemm.sizes = {a.shape()[1], b.shape()[2], a.shape()[2]};
  gemm.a = operand(a, 1);
  gemm.b = operand(b, 1);
  gemm.c = operand(c, 1);
  if (c.shape()[0] > 1) gemm.loops.push_back({c.shape()[0], a.strides()[0], b.strides()[0], c.strides()[0]});
  run(call, std::move(gemm));
}

void contract_with(const KernelCall& call, const ContractionLabels& labels) {
  if (call.outputs[0].numel() == 0) return;
  run(call, detail::plan_contraction(labels, call.inputs[0], call.inputs[1], call.outputs[0]));
}
void linear_kernel(const KernelCall& call) {
  const auto leading = static_cast<std::size_t>(call.inputs[0].ndim() - 1);
  const std::string letters = std::string("abcdefghlmnopqrstuvw").substr(0, leading);
  contract_with(call, {letters + "k", "jk", letters + "j"});
}
void contract_kernel(const KernelCall& call) {
  contract_with(call, detail::parse_contraction(call, call.as<ContractAttributes>().labels));
}

void contract_add_kernel(const KernelCall& call) {
  if (call.outputs[0].numel() == 0) return;
  Gemm gemm = detail::plan_contraction(detail::parse_contraction(call, call.as<ContractAttributes>().labels),
                                       call.inputs[0], call.inputs[1], call.outputs[0]);
  gemm.is_added = true;
  run(call, std::move(gemm));
}

const tensor::KernelRegistration kMm("mm", "cuda", mm_kernel);
const tensor::KernelRegistration kBmm("bmm", "cuda", bmm_kernel);
const tensor::KernelRegistration kLinear("linear", "cuda", linear_kernel);
const tensor::KernelRegistration kContract("contract", "cuda", contract_kernel);
const tensor::KernelRegistration kContractAdd("contract_add", "cuda", contract_add_kernel);

}  // namespace
}  // namespace tessera::ops::cuda
