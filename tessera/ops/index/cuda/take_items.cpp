// gather, index_select, embedding, one_hot and scatter on CUDA.
#include "tessera/ops/index/cuda/take_items.h"

#include <bit>
#include <cstring>
#include <vector>

#include "tessera/ops/cuda/move_items.h"
#include "tessera/ops/index/cuda/rejecting_op.h"
#include "tessera/ops/index/detail/lines.h"
#include "tessera/ops/index/index.h"
#include "tessera/ops/shape/detail/copy_elements.h"
#include "tessera/ops/shape/detail/strided_loop.h"

TESSERA_CUDA_IMAGE(take_items);

namespace tessera::ops::cuda {
namespace {

using tensor::KernelCall;

Image image(TESSERA_CUDA_BYTES(take_items));
const ImageKernel take_kernels[] = {{image, "take_items_1"},
                                    {image, "take_items_2"},
                                    {image, "take_items_4"},
                                    {image, "take_items_8"},
                                    {image, "take_items_16"}};
const ImageKernel put_kernels[] = {{image, "put_items_1"},
                                   {image, "put_items_2"},
                                   {image, "put_items_4"},
                                   {image, "put_items_8"},
                                   {image, "put_items_16"}};
const ImageKernel clear_kernel(image, "clear_winners");
const ImageKernel find_kernel(image, "find_winners");
const ImageKernel one_hot_kernel(image, "one_hot_items");
const RejectingOp gather_op("gather");
const RejectingOp select_op("index_select");
const RejectingOp embedding_op("embedding");
const RejectingOp one_hot_op("one_hot");
const RejectingOp scatter_op("scatter");

const ImageKernel& kernel_of(const ImageKernel (&kernels)[5], std::int64_t nbytes) {
  return kernels[std::countr_zero(static_cast<std::uint64_t>(nbytes))];
}

CheckedIndex checked(const KernelCall& call, const RejectingOp& op, const Tensor& index, std::int64_t size,
                     std::size_t dim) {
  return {index.data(), index.dtype(), size, static_cast<std::int64_t>(dim), op.of(call)};
}

// Takes items, several together if all parts of the copy permit it.
void launch_take(const KernelCall& call, TakenItems& of, const detail::StridedLoop<3>& loop) {
  if (call.outputs[0].numel() == 0) return;
  auto item = static_cast<std::int64_t>(itemsize(call.outputs[0].dtype()));
  of.to = call.outputs[0].data();
  of.from = call.inputs[0].data();
  of.walk = walk_of(loop);
  std::int64_t together = items_together(of.walk, item, {of.to, of.from});
  while (of.step % together != 0) together /= 2;
  of.walk = in_groups(of.walk, together, 2);
  of.step /= together;
  item *= together;
  launch(call, kernel_of(take_kernels, item), blocks_for(call, of.walk.numel, 4 * std::int64_t{kThreads}), kThreads,
         of);
}

void run_gather(const KernelCall& call) {
  const Tensor& x = call.inputs[0];
  const Tensor& index = call.inputs[1];
  const Tensor& out = call.outputs[0];
  const std::size_t dim = detail::line_dim(call, x, index, call.as<IndexAttributes>().dim);
  detail::StridedLoop<3> loop;
  for (std::size_t d = 0; d < index.shape().size(); ++d) {
    loop.add(index.shape()[d], {out.strides()[d], d == dim ? 0 : x.strides()[d], index.strides()[d]});
  }
  loop.collapse();
  TakenItems of;
  of.index = checked(call, gather_op, index, x.shape()[dim], dim);
  of.step = x.strides()[dim];
  launch_take(call, of, loop);
}

// In the result, the dimensions of the index replace `dim` of x.
void run_slices(const KernelCall& call, std::size_t dim, CheckedIndex index, const layout::IndexMap& map) {
  const Tensor& x = call.inputs[0];
  const Tensor& of_index = call.inputs[1];
  const Tensor& out = call.outputs[0];
  detail::StridedLoop<3> loop;
  std::size_t at = 0;
  for (std::size_t d = 0; d < x.shape().size(); ++d) {
    if (d != dim) {
      loop.add(x.shape()[d], {out.strides()[at++], x.strides()[d], 0});
      continue;
    }
    for (std::size_t i = 0; i < of_index.shape().size(); ++i) {
      loop.add(of_index.shape()[i], {out.strides()[at++], 0, of_index.strides()[i]});
    }
  }
  loop.collapse();
  TakenItems of;
  of.index = index;
  of.map = device_map(map, call.op.name().c_str());
  of.step = x.strides()[dim];
  launch_take(call, of, loop);
}

void run_index_select(const KernelCall& call) {
  const auto& a = call.as<IndexSliceAttributes>();
  const Tensor& x = call.inputs[0];
  const auto dim = static_cast<std::size_t>(tensor::normalized_dim(call, a.dim, x.ndim()));
  const std::int64_t size = a.size < 0 ? x.shape()[dim] : a.size;
  run_slices(call, dim, checked(call, select_op, call.inputs[1], size, dim), a.map);
}

void run_embedding(const KernelCall& call) {
  const auto& a = call.as<EmbeddingAttributes>();
  const std::int64_t rows = a.rows < 0 ? call.inputs[0].size(0) : a.rows;
  run_slices(call, 0, checked(call, embedding_op, call.inputs[1], rows, 0), a.row_map);
}

void run_one_hot(const KernelCall& call) {
  const auto& a = call.as<OneHotAttributes>();
  const Tensor& index = call.inputs[0];
  const Tensor& out = call.outputs[0];
  if (out.numel() == 0) return;
  const std::size_t ndim = index.shape().size();
  detail::StridedLoop<3> loop;
  for (std::size_t d = 0; d < ndim; ++d) {
    loop.add(index.shape()[d], {out.strides()[d], index.strides()[d], 0});
  }
  loop.add(out.shape()[ndim], {out.strides()[ndim], 0, 1});
  loop.collapse();
  OneHot of;
  of.to = out.data_as<std::int64_t>();
  of.index = checked(call, one_hot_op, index, a.classes, ndim);
  of.map = device_map(a.class_map, "one_hot");
  of.walk = walk_of(loop);
  launch(call, one_hot_kernel, blocks_for(call, of.walk.numel, kThreads), kThreads, of);
}

// Determines which item wins each place, for long lines. Returns the memory of the winners.
memory::Buffer find_winners(const KernelCall& call, PutItems& of) {
  TESSERA_CHECK_AS(NotSupported, of.walk.is_small && of.numel <= INT64_MAX / 4,
                   "scatter: index must have fewer than 2^31 elements on cuda, got ", of.walk.numel, "; split it");
  memory::Buffer winners = scratch(call, static_cast<std::size_t>(of.numel) * sizeof(std::uint32_t));
  of.winners = reinterpret_cast<std::uint32_t*>(winners.data());
  const device::Access accesses[] = {device::writes(winners.data(), winners.nbytes())};
  const auto launch_each = [&](const ImageKernel& kernel, std::int64_t items) {
    launch(call, kernel, {.grid = {blocks_for(call, items, kThreads), 1, 1}, .block = {kThreads, 1, 1}},
           device::KernelArgs(of), accesses);
  };
  launch_each(clear_kernel, of.numel);
  launch_each(find_kernel, of.walk.numel);
  return winners;
}

// The line is the innermost dimension of the walk.
Walk put_walk(const Tensor& out, const Tensor& index, const Tensor& source, std::size_t dim,
              std::int64_t& winner_step) {
  Walk walk = empty_walk();
  std::vector<std::int64_t> places(out.shape().size());  // strides of a contiguous tensor like `out`
  std::int64_t place = 1;
  for (std::size_t d = out.shape().size(); d-- > 0; place *= out.shape()[d]) places[d] = place;
  winner_step = places[dim];
  const auto add = [&](std::size_t d) {
    const bool is_line = d == dim;
    const std::int64_t along[4] = {is_line ? 0 : out.strides()[d], source ? source.strides()[d] : 0, index.strides()[d],
                                   is_line ? 0 : places[d]};
    walk.add(index.shape()[d], along, 4);
  };
  add(dim);
  for (std::size_t d = out.shape().size(); d-- > 0;) {
    if (d != dim && index.shape()[d] != 1) add(d);
  }
  return walk;
}

void run_scatter(const KernelCall& call) {
  const auto& a = call.as<ScatterAttributes>();
  const Tensor& x = call.inputs[0];
  const Tensor& index = call.inputs[1];
  const Tensor& source = call.inputs[2];
  const Tensor& out = call.outputs[0];
  const std::size_t dim = detail::line_dim(call, x, index, a.dim);
  if (out.data() != x.data()) copy_items(call, out, x);
  if (index.numel() == 0) return;
  PutItems of;
  of.to = out.data();
  of.from = source ? source.data() : nullptr;
  of.index = checked(call, scatter_op, index, x.shape()[dim], dim);
  of.step = out.strides()[dim];
  of.length = index.shape()[dim];
  of.walk = put_walk(out, index, source, dim, of.winner_step);
  of.numel = out.numel();
  std::memcpy(of.value, detail::element_of(a.value, x.dtype()).data(), sizeof of.value);
  memory::Buffer winners;
  if (source && of.length > kMaxSearchedLine && of.numel > 0) winners = find_winners(call, of);
  const device::Access read[] = {device::reads(of.winners, winners ? winners.nbytes() : 0)};
  launch(call, kernel_of(put_kernels, static_cast<std::int64_t>(itemsize(x.dtype()))),
         {.grid = {blocks_for(call, of.walk.numel, kThreads), 1, 1}, .block = {kThreads, 1, 1}}, device::KernelArgs(of),
         Accesses(read, winners ? 1 : 0));
}

const tensor::KernelRegistration kGather("gather", "cuda", run_gather);
const tensor::KernelRegistration kIndexSelect("index_select", "cuda", run_index_select);
const tensor::KernelRegistration kEmbedding("embedding", "cuda", run_embedding);
const tensor::KernelRegistration kOneHot("one_hot", "cuda", run_one_hot);
const tensor::KernelRegistration kScatter("scatter", "cuda", run_scatter);

}  // namespace
}  // namespace tessera::ops::cuda
