#include "tessera/ops/shape/detail/rearrangements.h"

#include <algorithm>

#include "tessera/ops/shape/arrange.h"
#include "tessera/ops/shape/shape.h"

namespace tessera::ops::detail {
namespace {

using tensor::Call;
using tensor::MovedRun;
using tensor::Rearrangement;

// Every element keeps its index.
std::vector<std::vector<MovedRun>> in_place(const Shape& shape) {
  std::vector<std::vector<MovedRun>> dims;
  for (const std::int64_t size : shape) dims.push_back({{.length = size}});
  return dims;
}

Rearrangement of_one(const Call& call) {
  Rearrangement out;
  out.inputs = {in_place(call.inputs[0].shape())};
  return out;
}

std::size_t dim_of(const Call& call, std::int64_t dim) {
  return static_cast<std::size_t>(tensor::normalized_dim(call, dim, call.inputs[0].ndim()));
}

}  // namespace

Rearrangement cat_rearrangement(const Call& call) {
  const std::size_t dim = dim_of(call, call.as<CatAttributes>().dim);
  Rearrangement out;
  std::int64_t start = 0;
  for (const Tensor& input : call.inputs) {
    out.inputs.push_back(in_place(input.shape()));
    out.inputs.back()[dim][0].to = start;
    start += input.shape()[dim];
  }
  return out;
}

Rearrangement flip_rearrangement(const Call& call) {
  Rearrangement out = of_one(call);
  out.is_reversed.assign(out.inputs[0].size(), false);
  for (const std::int64_t dim : call.as<FlipAttributes>().dims) out.is_reversed[dim_of(call, dim)] = true;
  return out;
}

Rearrangement roll_rearrangement(const Call& call) {
  const auto& a = call.as<RollAttributes>();
  Rearrangement out = of_one(call);
  for (std::size_t i = 0; i < a.dims.size(); ++i) {
    const std::size_t dim = dim_of(call, a.dims[i]);
    const std::int64_t size = call.inputs[0].shape()[dim];
    if (size == 0) continue;
    const std::int64_t shift = (a.shifts[i] % size + size) % size;
    if (shift == 0) continue;
    out.inputs[0][dim] = {{.from = 0, .to = shift, .length = size - shift},
                          {.from = size - shift, .to = 0, .length = shift}};
  }
  return out;
}

Rearrangement pad_rearrangement(const Call& call) {
  const auto& a = call.as<PadAttributes>();
  Rearrangement out = of_one(call);
  for (std::size_t d = 0; d < a.before.size(); ++d) out.inputs[0][d][0].to = a.before[d];
  out.fill = a.value;
  return out;
}

Rearrangement unslice_rearrangement(const Call& call) {
  const auto& a = call.as<UnsliceAttributes>();
  Rearrangement out = of_one(call);
  MovedRun& run = out.inputs[0][dim_of(call, a.dim)][0];
  run.to = a.start;
  run.to_step = a.step;
  return out;
}

Rearrangement slice_rearrangement(const Call& call) {
  const auto& a = call.as<SliceAttributes>();
  const std::size_t dim = dim_of(call, a.dim);
  const std::int64_t size = call.inputs[0].shape()[dim];
  const auto clamped = [size](std::int64_t at) { return std::clamp<std::int64_t>(at < 0 ? at + size : at, 0, size); };
  const std::int64_t start = clamped(a.start);
  const std::int64_t extent = std::max<std::int64_t>(0, clamped(a.end) - start);
  Rearrangement out = of_one(call);
  out.inputs[0][dim] = {{.from = start, .length = (extent + a.step - 1) / a.step, .from_step = a.step}};
  return out;
}

}  // namespace tessera::ops::detail
