// tril and triu on CUDA.
#include "tessera/ops/shape/cuda/triangle.h"

#include <bit>

#include "tessera/ops/cuda/kernels.h"
#include "tessera/ops/shape/arrange.h"

TESSERA_CUDA_IMAGE(triangle);

namespace tessera::ops::cuda {
namespace {

using tensor::KernelCall;

Image image(TESSERA_CUDA_BYTES(triangle));
const ImageKernel item_kernels[] = {
    {image, "triangle_1"}, {image, "triangle_2"}, {image, "triangle_4"}, {image, "triangle_8"}, {image, "triangle_16"}};
const ImageKernel group_kernels[] = {{image, "triangle_groups_1"},
                                     {image, "triangle_groups_2"},
                                     {image, "triangle_groups_4"},
                                     {image, "triangle_groups_8"},
                                     {image, "triangle_groups_16"}};

void run(const KernelCall& call, bool is_lower) {
  const auto& a = call.as<TriangleAttributes>();
  const Tensor& x = call.inputs[0];
  const Tensor& out = call.outputs[0];
  if (out.numel() == 0) return;
  TriangleCopy of;
  of.to = out.data();
  of.from = x.data();
  of.last = a.diagonal - (is_lower ? 0 : 1);
  of.is_lower = is_lower;
  const std::string& name = call.op.name();
  of.rows = device_map(a.rows, name.c_str());
  of.columns = device_map(a.columns, name.c_str());
  of.walk = empty_walk();
  const std::size_t ndim = x.shape().size();
  for (std::size_t d = ndim; d-- > 0;) {
    const std::int64_t along[4] = {out.strides()[d], x.strides()[d], d + 2 == ndim ? 1 : 0, 0};
    of.walk.add(x.shape()[d], along, 4);
  }
  const auto item = static_cast<std::int64_t>(itemsize(x.dtype()));
  const std::int64_t together = items_together(of.walk, item, {of.to, of.from});
  const bool has_groups = together * item == 16;
  if (has_groups) of.walk = in_groups(of.walk, together, 2);
  // Columns are numbered after the grouping, which requires other operands to be constant along rows.
  of.walk.steps[0][3] = has_groups ? together : 1;
  const auto& kernels = has_groups ? group_kernels : item_kernels;
  launch(call, kernels[std::countr_zero(static_cast<std::uint64_t>(item))], blocks_for(call, of.walk.numel, kThreads),
         kThreads, of);
}

const tensor::KernelRegistration kTril("tril", "cuda", [](const KernelCall& call) { run(call, true); });
const tensor::KernelRegistration kTriu("triu", "cuda", [](const KernelCall& call) { run(call, false); });

}  // namespace
}  // namespace tessera::ops::cuda
