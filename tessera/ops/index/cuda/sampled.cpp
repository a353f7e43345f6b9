// sample_index on CUDA, with the results of the host.
#include "tessera/ops/index/cuda/sampled.h"

#include "tessera/ops/index/cuda/rejecting_op.h"
#include "tessera/ops/shape/detail/strided_loop.h"

TESSERA_CUDA_IMAGE(sampled);

namespace tessera::ops::cuda {
namespace {

Image image(TESSERA_CUDA_BYTES(sampled));
const ImageKernel sum_kernel(image, "sum_probabilities");
const ImageKernel find_kernel(image, "find_classes");
const RejectingOp sample_op("sample_index");

void run(const tensor::KernelCall& call) {
  const Tensor& p = call.inputs[0];
  const Tensor& u = call.inputs[1];
  const Tensor& out = call.outputs[0];
  if (out.numel() == 0) return;
  const std::size_t last = p.shape().size() - 1;
  detail::StridedLoop<3> lines;
  for (std::size_t d = 0; d < last; ++d) lines.add(p.shape()[d], {out.strides()[d], p.strides()[d], u.strides()[d]});
  lines.collapse();
  SampledLines of;
  of.to = out.data_as<std::int64_t>();
  of.probabilities = p.data();
  of.uniforms = u.data();
  of.p_dtype = p.dtype();
  of.u_dtype = u.dtype();
  of.classes = p.shape()[last];
  of.count = u.shape()[last];
  of.step[0] = out.strides()[last];
  of.step[1] = p.strides()[last];
  of.step[2] = u.strides()[last];
  of.rejection = sample_op.of(call);
  of.lines = walk_of(lines);
  const memory::Buffer sums = scratch(call, static_cast<std::size_t>(of.lines.numel * of.classes) * sizeof(double));
  of.sums = reinterpret_cast<double*>(sums.data());
  const device::Access accesses[] = {device::updates(sums.data(), sums.nbytes())};
  const auto launch_for = [&](const ImageKernel& kernel, std::int64_t items, std::int64_t per_block) {
    launch(call, kernel, {.grid = {blocks_for(call, items, per_block), 1, 1}, .block = {kThreads, 1, 1}},
           device::KernelArgs(of), accesses);
  };
  launch_for(sum_kernel, of.lines.numel, kThreads / 32);
  launch_for(find_kernel, of.lines.numel * of.count, kThreads);
}

const tensor::KernelRegistration kSampleIndex("sample_index", "cuda", run);

}  // namespace
}  // namespace tessera::ops::cuda
