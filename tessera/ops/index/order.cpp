// topk and sort. The indices of a line have a total order: by value, then by index. Results depend on nothing else.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "tessera/ops/create/create.h"
#include "tessera/ops/detail/dtype_checks.h"
#include "tessera/ops/detail/enqueue.h"
#include "tessera/ops/detail/rows_per_piece.h"
#include "tessera/ops/index/index.h"
#include "tessera/ops/parallel.h"
#include "tessera/ops/pointwise/pointwise.h"
#include "tessera/ops/reduce/detail/reduce_dims.h"
#include "tessera/ops/reduce/reduce.h"
#include "tessera/ops/shape/arrange.h"
#include "tessera/ops/shape/detail/byte_count.h"
#include "tessera/ops/shape/detail/rule_parts.h"
#include "tessera/ops/shape/shape.h"
#include "tessera/tensor/cooperation.h"

namespace tessera::ops {
namespace {

using layout::FactorKind;
using layout::FactorRule;
using tensor::Call;
using tensor::GradientCall;
using tensor::IntList;
using tensor::KernelCall;
using tensor::OutputInfo;

struct Order {
  detail::StridedLoop<3> lines;  // values, indices, input
  std::int64_t length = 1;       // length of a line
  std::int64_t count = 1;        // number of elements to return per line
  std::array<std::int64_t, 3> step{};
  std::byte* values = nullptr;
  std::int64_t* indices = nullptr;
  const std::byte* from = nullptr;
  DType dtype = DType::kF32;
  bool is_descending = false;

  // A nan is greater than all other values and equal to another nan.
  template <class T>
  static bool is_less(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) {
      if (std::isnan(a)) return false;
      if (std::isnan(b)) return true;
    }
    return a < b;
  }

  template <class T>
  void line(const std::array<std::int64_t, 3>& at, std::vector<T>& x, std::vector<std::int64_t>& places,
            std::vector<T>& sorted) const {
    const auto bytes = static_cast<std::int64_t>(itemsize(dtype));
    detail::load(x.data(), from + at[2] * bytes, dtype, step[2], length);
    std::iota(places.begin(), places.end(), 0);
    const auto comes_first = [&](std::int64_t i, std::int64_t j) {
      const T a = x[static_cast<std::size_t>(i)];
      const T b = x[static_cast<std::size_t>(j)];
      if (is_less(a, b)) return !is_descending;
      if (is_less(b, a)) return is_descending;
      return i < j;
    };
    if (count < length) {
      std::partial_sort(places.begin(), places.begin() + count, places.end(), comes_first);
    } else {
      std::sort(places.begin(), places.end(), comes_first);
    }
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t place = places[static_cast<std::size_t>(i)];
      sorted[static_cast<std::size_t>(i)] = x[static_cast<std::size_t>(place)];
      indices[at[1] + i * step[1]] = place;
    }
    detail::store(sorted.data(), values + at[0] * bytes, dtype, step[0], count);
  }

  template <class T>
  void run() const {
    detail::parallel_for(lines.numel(), detail::rows_per_piece(4 * length), [&](std::int64_t begin, std::int64_t end) {
      std::vector<T> x(static_cast<std::size_t>(length));
      std::vector<std::int64_t> places(x.size());
      std::vector<T> sorted(x.size());
      lines.for_runs(begin, end, [&](const auto& at, std::int64_t n) {
        for (std::int64_t i = 0; i < n; ++i) {
          line<T>({at[0] + i * lines.step(0), at[1] + i * lines.step(1), at[2] + i * lines.step(2)}, x, places, sorted);
        }
      });
    });
  }

  void operator()() const {
    if (lines.numel() == 0 || count == 0) return;
    switch (detail::compute_of(dtype)) {
      case detail::Compute::kF64: return run<double>();
      case detail::Compute::kI64: return run<std::int64_t>();
      default: return run<float>();
    }
  }
};

void enqueue_order(const KernelCall& call, std::int64_t of_dim, std::int64_t count, bool is_descending) {
  const Tensor& x = call.inputs[0];
  const Tensor& values = call.outputs[0];
  const Tensor& indices = call.outputs[1];
  const auto dim = static_cast<std::size_t>(tensor::normalized_dim(call, of_dim, x.ndim()));
  Order order;
  for (std::size_t d = 0; d < x.shape().size(); ++d) {
    const std::array<std::int64_t, 3> strides = {values.strides()[d], indices.strides()[d], x.strides()[d]};
    if (d == dim) {
      order.step = strides;
      order.length = x.shape()[d];
    } else {
      order.lines.add(x.shape()[d], strides);
    }
  }
  order.lines.collapse();
  order.count = count;
  order.values = values.data();
  order.indices = indices.data_as<std::int64_t>();
  order.from = x.data();
  order.dtype = x.dtype();
  order.is_descending = is_descending;
  detail::enqueue(call, std::move(order));
}

void check_order(const Call& call) {
  detail::check_computable(call, call.inputs[0]);
  TESSERA_CHECK_CALL(call, !is_complex(call.inputs[0].dtype()), "complex numbers cannot be ordered");
}

void infer_topk(const Call& call, std::span<OutputInfo> outputs) {
  const auto& a = call.as<TopkAttributes>();
  const Tensor& x = call.inputs[0];
  check_order(call);
  const int dim = tensor::normalized_dim(call, a.dim, x.ndim());
  const std::int64_t size = x.ndim() == 0 ? 1 : x.size(dim);
  TESSERA_CHECK_CALL(call, a.k >= (x.ndim() == 0 ? 1 : 0) && a.k <= size, "k must be in [", x.ndim() == 0 ? 1 : 0, ", ",
                     size, "] along dimension ", dim, ", got ", a.k);
  IntList sizes;
  for (int d = 0; d < x.ndim(); ++d) sizes.push_back(d == dim ? a.k : x.size(d));
  const Shape shape{std::span<const std::int64_t>(sizes)};
  outputs[0] = {shape, x.dtype()};
  outputs[1] = {shape, DType::kI64};
}

void topk_kernel(const KernelCall& call) {
  const auto& a = call.as<TopkAttributes>();
  enqueue_order(call, a.dim, a.k, a.is_largest);
}

void infer_sort(const Call& call, std::span<OutputInfo> outputs) {
  const Tensor& x = call.inputs[0];
  check_order(call);
  tensor::normalized_dim(call, call.as<SortAttributes>().dim, x.ndim());
  outputs[0] = {x.shape(), x.dtype()};
  outputs[1] = {x.shape(), DType::kI64};
}

void sort_kernel(const KernelCall& call) {
  const auto& a = call.as<SortAttributes>();
  const Tensor& x = call.inputs[0];
  const int dim = tensor::normalized_dim(call, a.dim, x.ndim());
  enqueue_order(call, a.dim, x.ndim() == 0 ? 1 : x.size(dim), a.is_descending);
}

// Writes the gradients of the values to their original indices.
void return_values(GradientCall& call, std::int64_t dim) {
  if (!call.needs(0) || !call.grad(0)) return;
  const Shape& shape = call.input_shape(0);
  if (shape.size() == 0) return call.set(0, call.grad(0));
  call.set(0, scatter_sum(call.grad(0), dim, call.output(1), shape.dim(static_cast<int>(dim))));
}
void topk_gradient(GradientCall& call) { return_values(call, call.as<TopkAttributes>().dim); }
void sort_gradient(GradientCall& call) { return_values(call, call.as<SortAttributes>().dim); }

// The dimension `of_dim` is replicated, or ranks cooperate along it; `size` elements remain.
FactorRule order_rule(const Call& call, std::int64_t of_dim, std::int64_t size, FactorKind kind) {
  const Tensor& x = call.inputs[0];
  const int dim = tensor::normalized_dim(call, of_dim, x.ndim());
  FactorRule rule = detail::empty_rule(call.op.name(), 1, 2);
  for (int d = 0; d < x.ndim(); ++d) {
    const bool is_line = d == dim;
    const std::int32_t in = detail::add_factor(rule, is_line ? kind : FactorKind::kPass);
    const std::int32_t out = is_line ? detail::add_factor(rule, FactorKind::kReplicate, size) : in;
    rule.inputs[0].push_back({in});
    for (auto& output : rule.outputs) output.push_back({out});
  }
  return rule;
}
FactorRule rule_of_topk(const Call& call) {
  const auto& a = call.as<TopkAttributes>();
  return order_rule(call, a.dim, a.k, FactorKind::kCooperate);
}
FactorRule rule_of_sort(const Call& call) {
  const Tensor& x = call.inputs[0];
  const std::int64_t dim = call.as<SortAttributes>().dim;
  return order_rule(call, dim, x.ndim() == 0 ? 1 : x.size(tensor::normalized_dim(call, dim, x.ndim())),
                    FactorKind::kReplicate);
}

// topk along a sharded dimension: each rank gathers the k best elements of all shards with their global indices and
// selects the best of them. Orders them by index first, so that equal elements have the order of a single device.

using tensor::CooperativeCall;
using Tensors = std::vector<Tensor>;

// Converts local indices to global indices.
Tensor in_whole(const Tensor& places, const layout::IndexMap& map) {
  if (map.is_contiguous()) return add(places, map.offset);
  Tensors runs;
  for (std::int64_t at = 0; at < map.size(); at += map.block) {
    const std::int64_t start = map.global(at);
    runs.push_back(arange(start, start + map.block, 1, {.dtype = DType::kI64, .device = places.device()}));
  }
  return reshape(index_select(cat(runs), 0, flatten(places)), places.shape().values());
}

// Returns the last value in the order, for shards with fewer than k elements. Its index puts it after its equals.
Tensor worst(const Tensor& x, std::int64_t dim, bool is_largest) {
  const Tensor none = narrow(x, dim, 0, 0);
  if (is_largest) return amax(none, {dim}, true);
  const Tensor most = amin(none, {dim}, true);
  return is_floating(x.dtype()) ? full_like(most, std::numeric_limits<double>::quiet_NaN()) : most;
}

Tensors part_topk(const CooperativeCall& call) {
  const auto& a = call.local.as<TopkAttributes>();
  const Tensor& x = call.local.inputs[0];
  const int dim = tensor::normalized_dim(call.local, a.dim, x.ndim());
  const std::int64_t count = std::min(a.k, x.size(dim));
  auto [values, places] = topk(x, count, dim, a.is_largest);
  places = in_whole(places, call.inputs[0].index[static_cast<std::size_t>(dim)]);
  if (count == a.k) return {values, places};
  IntList sizes;
  for (int d = 0; d < x.ndim(); ++d) sizes.push_back(d == dim ? a.k - count : x.size(d));
  const Shape rest{std::span<const std::int64_t>(sizes)};
  const Tensor behind = full(rest, call.global.inputs[0].size(dim), {.dtype = DType::kI64, .device = x.device()});
  const Tensor all_values[] = {values, expand(worst(x, dim, a.is_largest), sizes)};
  const Tensor all_places[] = {places, behind};
  return {cat(all_values, dim), cat(all_places, dim)};
}

// Rearranges [ranks, ..., k, ...] to [..., ranks x k, ...].
Tensor side_by_side(const Tensor& gathered, int dim) {
  IntList order;
  for (int d = 1; d < gathered.ndim(); ++d) {
    if (d == dim + 1) order.push_back(0);
    order.push_back(d);
  }
  return flatten(permute(gathered, order), dim, dim + 1);
}

Tensors finish_topk(const CooperativeCall& call) {
  const auto& a = call.local.as<TopkAttributes>();
  const int dim = tensor::normalized_dim(call.local, a.dim, call.local.inputs[0].ndim());
  const auto [places, order] = sort(side_by_side(call.reduced[1], dim), dim);
  const auto [values, at] = topk(gather(side_by_side(call.reduced[0], dim), dim, order), a.k, dim, a.is_largest);
  return {values, gather(places, dim, at)};
}

const tensor::Cooperation kTopkTogether = {{{part_topk, {}}}, finish_topk};

tensor::Cost order_cost(const Call& call) {
  const auto n = static_cast<double>(call.inputs[0].numel());
  return {.flops = n * std::log2(std::max(2.0, n)), .nbytes = 2 * detail::bytes_of(call.inputs[0]) + 8 * n};
}

const tensor::Operator kTopk = tensor::register_op({.name = "topk",
                                                    .inputs = "x",
                                                    .outputs = "values, indices",
                                                    .infer = infer_topk,
                                                    .host = topk_kernel,
                                                    .gradient = topk_gradient,
                                                    .saves = "indices",
                                                    .rule = rule_of_topk,
                                                    .cost = order_cost,
                                                    .cooperation = &kTopkTogether});
const tensor::Operator kSort = tensor::register_op({.name = "sort",
                                                    .inputs = "x",
                                                    .outputs = "values, indices",
                                                    .infer = infer_sort,
                                                    .host = sort_kernel,
                                                    .gradient = sort_gradient,
                                                    .saves = "indices",
                                                    .rule = rule_of_sort,
                                                    .cost = order_cost});

std::pair<Tensor, Tensor> call_pair(const tensor::Operator& op, const Tensor& x, const tensor::AttributesRef& a) {
  Tensor outputs[2];
  tensor::call_into({op, std::span(&x, 1), a, outputs});
  return {outputs[0], outputs[1]};
}

}  // namespace

std::pair<Tensor, Tensor> topk(const Tensor& x, std::int64_t k, std::int64_t dim, bool is_largest) {
  return call_pair(kTopk, x, TopkAttributes{k, dim, is_largest});
}
std::pair<Tensor, Tensor> sort(const Tensor& x, std::int64_t dim, bool is_descending) {
  return call_pair(kSort, x, SortAttributes{dim, is_descending});
}

}  // namespace tessera::ops
