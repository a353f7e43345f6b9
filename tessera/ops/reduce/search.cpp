// argmax and argmin: each line of elements along a dimension is searched from the front. If the dimension is sharded,
// the ranks first agree on the best value, then on the least global index that has it.
#include <cmath>

#include "tessera/ops/detail/dtype_checks.h"
#include "tessera/ops/detail/enqueue.h"
#include "tessera/ops/detail/rows_per_piece.h"
#include "tessera/ops/index/index.h"
#include "tessera/ops/parallel.h"
#include "tessera/ops/pointwise/compare.h"
#include "tessera/ops/pointwise/convert.h"
#include "tessera/ops/reduce/detail/reduce_dims.h"
#include "tessera/ops/reduce/reduce.h"
#include "tessera/ops/shape/detail/rule_parts.h"
#include "tessera/ops/shape/shape.h"
#include "tessera/tensor/cooperation.h"

namespace tessera::ops {
namespace {

using tensor::Call;
using tensor::IntList;
using tensor::KernelCall;
using tensor::OutputInfo;

void infer_search(const Call& call, std::span<OutputInfo> outputs) {
  const auto& a = call.as<ArgAttributes>();
  const Tensor& x = call.inputs[0];
  detail::check_computable(call, x);
  TESSERA_CHECK_CALL(call, !is_complex(x.dtype()), "dtype must be real, got ", x.dtype(),
                     "; take abs() or real() first");
  const int dim = tensor::normalized_dim(call, a.dim, x.ndim());
  const bool is_whole = a.map == layout::IndexMap();
  TESSERA_CHECK_CALL(call, !is_whole || x.ndim() == 0 || x.size(dim) > 0, "dimension ", dim,
                     " must have at least 1 element, got ", x.shape());
  TESSERA_CHECK_CALL(call, is_whole || (x.ndim() > 0 && x.size(dim) == a.map.size()),
                     "map must have the size of dimension ", dim, ", got ", a.map.size());
  outputs[0] = {detail::reduced_shape(x.shape(), detail::reduced_dims(call, IntList{dim}), a.keepdim), DType::kI64};
}

struct Search {
  detail::StridedLoop<2> lines;  // result, input
  std::int64_t length = 1;
  std::int64_t step = 0;
  const std::byte* from = nullptr;
  std::int64_t* to = nullptr;
  DType in = DType::kF32;
  bool is_max = true;
  layout::IndexMap map;  // global indices of the elements of a shard
  bool has_map = false;

  template <class T>
  std::int64_t line(const std::byte* at) const {
    constexpr std::int64_t kChunk = 512;
    T tile[kChunk];
    T best{};
    std::int64_t found = -1;
    for (std::int64_t start = 0; start < length; start += kChunk) {
      const std::int64_t n = std::min(kChunk, length - start);
      detail::load(tile, at + start * step * static_cast<std::int64_t>(itemsize(in)), in, step, n);
      for (std::int64_t i = 0; i < n; ++i) {
        if constexpr (std::is_floating_point_v<T>) {
          if (std::isnan(tile[i])) return start + i;
        }
        if (found >= 0 && !(is_max ? tile[i] > best : tile[i] < best)) continue;
        best = tile[i];
        found = start + i;
      }
    }
    return found;
  }

  template <class T>
  void run() const {
    detail::parallel_for(lines.numel(), detail::rows_per_piece(length), [&](std::int64_t begin, std::int64_t end) {
      lines.for_runs(begin, end, [&](const auto& at, std::int64_t n) {
        for (std::int64_t i = 0; i < n; ++i) {
          const std::int64_t offset = at[1] + i * lines.step(1);
          const std::int64_t found = line<T>(from + offset * static_cast<std::int64_t>(itemsize(in)));
          to[at[0] + i * lines.step(0)] = !has_map ? found : found < 0 ? map.offset : map.global(found);
        }
      });
    });
  }

  void operator()() const {
    if (lines.numel() == 0) return;
    switch (detail::compute_of(in)) {
      case detail::Compute::kF64: return run<double>();
      case detail::Compute::kI64: return run<std::int64_t>();
      default: return run<float>();
    }
  }
};

void run_search(const KernelCall& call, bool is_max) {
  const Tensor& x = call.inputs[0];
  const Tensor& out = call.outputs[0];
  const auto dim = static_cast<std::size_t>(tensor::normalized_dim(call, call.as<ArgAttributes>().dim, x.ndim()));
  Search search;
  std::size_t next = 0;
  for (std::size_t d = 0; d < x.shape().size(); ++d) {
    if (d == dim) {
      search.length = x.shape()[d];
      search.step = x.strides()[d];
      next += call.as<ArgAttributes>().keepdim ? 1 : 0;
    } else {
      search.lines.add(x.shape()[d], {out.strides()[next++], x.strides()[d]});
    }
  }
  search.lines.collapse();
  search.from = x.data();
  search.to = out.data_as<std::int64_t>();
  search.in = x.dtype();
  search.is_max = is_max;
  search.map = call.as<ArgAttributes>().map;
  search.has_map = search.map != layout::IndexMap();
  detail::enqueue(call, std::move(search));
}

void argmax_kernel(const KernelCall& call) { run_search(call, true); }
void argmin_kernel(const KernelCall& call) { run_search(call, false); }

layout::FactorRule rule_of_search(const Call& call) {
  const auto& a = call.as<ArgAttributes>();
  return detail::reduce_rule(call, IntList{a.dim}, a.keepdim, layout::FactorKind::kCooperate, Reduction::kSum, {});
}

// Results are global indices, so that the least index wins among the ranks that have the best value.

using tensor::CooperativeCall;
using Tensors = std::vector<Tensor>;

template <bool kIsMax>
Tensors part_best(const CooperativeCall& call) {
  const auto& a = call.local.as<ArgAttributes>();
  const Tensor& x = call.local.inputs[0];
  const IntList dims = {a.dim};
  const Tensor best = kIsMax ? amax(x, dims, a.keepdim) : amin(x, dims, a.keepdim);
  return {x.dtype() == DType::kBool ? cast(best, DType::kI64) : best};
}

Tensors part_place(const CooperativeCall& call) {
  ArgAttributes a = call.local.as<ArgAttributes>();
  const auto dim = static_cast<std::size_t>(tensor::normalized_dim(call.local, a.dim, call.local.inputs[0].ndim()));
  a.map = call.inputs[0].index[dim];
  const Tensor place = tensor::call(call.local.op, {call.local.inputs[0]}, a);
  Tensor is_worse = ne(call.own[0], call.reduced[0]);
  // A nan is the best value: the ranks that have one are not worse.
  if (is_floating(call.own[0].dtype())) is_worse = logical_and(is_worse, logical_not(isnan(call.own[0])));
  return {masked_fill(place, is_worse, call.global.inputs[0].shape()[dim])};
}

Tensors finish_search(const CooperativeCall& call) { return {call.reduced[1]}; }

const tensor::Cooperation kArgmaxTogether = {{{part_best<true>, {Reduction::kMax}}, {part_place, {Reduction::kMin}}},
                                             finish_search};
const tensor::Cooperation kArgminTogether = {{{part_best<false>, {Reduction::kMin}}, {part_place, {Reduction::kMin}}},
                                             finish_search};

const tensor::Operator kArgmax = tensor::register_op({.name = "argmax",
                                                      .inputs = "x",
                                                      .infer = infer_search,
                                                      .host = argmax_kernel,
                                                      .rule = rule_of_search,
                                                      .cost = detail::reduce_cost,
                                                      .cooperation = &kArgmaxTogether});
const tensor::Operator kArgmin = tensor::register_op({.name = "argmin",
                                                      .inputs = "x",
                                                      .infer = infer_search,
                                                      .host = argmin_kernel,
                                                      .rule = rule_of_search,
                                                      .cost = detail::reduce_cost,
                                                      .cooperation = &kArgminTogether});

}  // namespace

Tensor argmax(const Tensor& x, std::int64_t dim, bool keepdim) {
  return tensor::call(kArgmax, {x}, ArgAttributes{dim, keepdim});
}
Tensor argmax(const Tensor& x) { return argmax(reshape(x, {-1}), 0); }
Tensor argmin(const Tensor& x, std::int64_t dim, bool keepdim) {
  return tensor::call(kArgmin, {x}, ArgAttributes{dim, keepdim});
}
Tensor argmin(const Tensor& x) { return argmin(reshape(x, {-1}), 0); }

}  // namespace tessera::ops
