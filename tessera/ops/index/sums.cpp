// index_add, index_sum, scatter_add and scatter_sum. Elements with the same index are added in the order of the index
// and rounded once.
//
// index_*: sorts the index by row (stable), and each row of the result adds its own slices, so that threads do not
// conflict. scatter_*: adds single elements, line by line.
#include <complex>
#include <vector>

#include "tessera/ops/detail/dtype_checks.h"
#include "tessera/ops/detail/enqueue.h"
#include "tessera/ops/detail/rows_per_piece.h"
#include "tessera/ops/index/detail/lines.h"
#include "tessera/ops/index/index.h"
#include "tessera/ops/parallel.h"
#include "tessera/ops/reduce/detail/reduce_dims.h"
#include "tessera/ops/shape/detail/copy_elements.h"

namespace tessera::ops {
namespace {

using layout::FactorKind;
using layout::FactorRule;
using layout::IndexMap;
using tensor::Call;
using tensor::GradientCall;
using tensor::IntList;
using tensor::KernelCall;
using tensor::OutputInfo;

constexpr layout::Algebra kLinear = {layout::Linearity::kJoint, layout::Monotony::kNone};

// Calls body with a value of the compute type of this dtype.
template <class F>
void with_compute(DType dtype, const F& body) {
  switch (detail::compute_of(dtype)) {
    case detail::Compute::kF32: return body(float{});
    case detail::Compute::kF64: return body(double{});
    case detail::Compute::kI64: return body(std::int64_t{});
    case detail::Compute::kC64: return body(std::complex<float>{});
  }
}

struct SliceSums {
  detail::StridedLoop<3> rest;    // result, x, source: all dimensions except those of the index
  detail::StridedLoop<2> places;  // index, source: the dimensions of the index
  detail::IndexReader index;
  std::int64_t rows = 0;  // rows of the result
  IndexMap map;           // global indices of the rows
  bool has_map = false;
  std::array<std::int64_t, 2> step{};  // stride of result and x along the indexed dimension
  std::array<const std::byte*, 3> data{};
  DType dtype = DType::kF32;

  // Sorts the offsets of the source slices by row: row r has slices[starts[r]] to slices[starts[r + 1]].
  void sort_places(std::vector<std::int64_t>& starts, std::vector<std::int64_t>& slices) const {
    const std::int64_t count = places.numel();
    std::vector<std::pair<std::int64_t, std::int64_t>> found;  // row, offset of the slice
    found.reserve(static_cast<std::size_t>(count));
    starts.assign(static_cast<std::size_t>(rows) + 2, 0);
    places.for_runs(0, count, [&](const auto& at, std::int64_t n) {
      for (std::int64_t i = 0; i < n; ++i) {
        const std::int64_t global = index.at(at[0] + i * places.step(0));
        const std::int64_t row = has_map ? map.local(global).value_or(rows) : global;
        found.emplace_back(row, at[1] + i * places.step(1));
        ++starts[static_cast<std::size_t>(row) + 1];
      }
    });
    for (std::size_t r = 1; r < starts.size(); ++r) starts[r] += starts[r - 1];
    std::vector<std::int64_t> next(starts.begin(), starts.end());
    slices.resize(static_cast<std::size_t>(count));
    for (const auto& [row, offset] : found) {
      slices[static_cast<std::size_t>(next[static_cast<std::size_t>(row)]++)] = offset;
    }
  }

  [[nodiscard]] std::byte* address(std::size_t of, std::int64_t offset) const {
    return const_cast<std::byte*>(data[of]) + offset * static_cast<std::int64_t>(itemsize(dtype));
  }

  // Adds one run of one row: x, then each of its slices.
  template <class T>
  void add_up(const std::array<std::int64_t, 3>& at, std::int64_t n, std::int64_t row,
              std::span<const std::int64_t> slices) const {
    constexpr std::int64_t kPart = 512;
    T sums[kPart];
    T some[kPart];
    for (std::int64_t start = 0; start < n; start += kPart) {
      const std::int64_t m = std::min(kPart, n - start);
      std::fill_n(sums, m, T(0));
      if (data[1] != nullptr) {
        detail::load(sums, address(1, at[1] + row * step[1] + start * rest.step(1)), dtype, rest.step(1), m);
      }
      for (const std::int64_t slice : slices) {
        detail::load(some, address(2, at[2] + slice + start * rest.step(2)), dtype, rest.step(2), m);
        for (std::int64_t i = 0; i < m; ++i) sums[i] += some[i];
      }
      detail::store(sums, address(0, at[0] + row * step[0] + start * rest.step(0)), dtype, rest.step(0), m);
    }
  }

  void operator()() const {
    std::vector<std::int64_t> starts;
    std::vector<std::int64_t> slices;
    sort_places(starts, slices);
    if (rest.numel() == 0) return;
    const std::int64_t lines = rest.rows();
    const std::int64_t inner = rest.inner();
    with_compute(dtype, [&](auto zero) {
      detail::parallel_for(rows * lines, detail::rows_per_piece(inner), [&](std::int64_t begin, std::int64_t end) {
        for (; begin < end; begin = std::min(end, (begin / lines + 1) * lines)) {
          const std::int64_t row = begin / lines;
          const std::span<const std::int64_t> all(slices);
          const auto mine = all.subspan(static_cast<std::size_t>(starts[static_cast<std::size_t>(row)]),
                                        static_cast<std::size_t>(starts[static_cast<std::size_t>(row) + 1] -
                                                                 starts[static_cast<std::size_t>(row)]));
          rest.for_rows(begin - row * lines, std::min(end - row * lines, lines),
                        [&](const auto& at) { add_up<decltype(zero)>(at, inner, row, mine); });
        }
      });
    });
  }
};

// In the source, the dimensions of the index replace `dim` of the result.
void enqueue_slice_sums(const KernelCall& call, const Tensor* x, const Tensor& index, const Tensor& source,
                        std::size_t dim, std::int64_t size, const IndexMap& map) {
  const Tensor& out = call.outputs[0];
  SliceSums kernel;
  for (std::size_t d = 0; d < out.shape().size(); ++d) {
    if (d == dim) continue;
    const std::size_t from = d < dim ? d : d + index.shape().size() - 1;
    kernel.rest.add(out.shape()[d], {out.strides()[d], x == nullptr ? 0 : x->strides()[d], source.strides()[from]});
  }
  for (std::size_t d = 0; d < index.shape().size(); ++d) {
    kernel.places.add(index.shape()[d], {index.strides()[d], source.strides()[dim + d]});
  }
  kernel.rest.collapse();
  kernel.places.collapse();
  kernel.step = {out.strides()[dim], x == nullptr ? 0 : x->strides()[dim]};
  kernel.index =
      detail::IndexReader(index, size, x == nullptr ? "index_sum" : "index_add", static_cast<std::int64_t>(dim));
  kernel.rows = out.shape()[dim];
  kernel.map = map;
  kernel.has_map = map != IndexMap();
  kernel.data = {out.data(), x == nullptr ? nullptr : x->data(), source.data()};
  kernel.dtype = out.dtype();
  detail::enqueue(call, std::move(kernel));
}

// index_add

std::size_t add_dim(const Call& call) {
  TESSERA_CHECK_CALL(call, call.inputs[0].ndim() > 0, "x must have at least 1 dimension, got 0");
  return static_cast<std::size_t>(
      tensor::normalized_dim(call, call.as<IndexSliceAttributes>().dim, call.inputs[0].ndim()));
}

void infer_index_add(const Call& call, std::span<OutputInfo> outputs) {
  const Tensor& x = call.inputs[0];
  const Tensor& source = call.inputs[2];
  const std::size_t dim = add_dim(call);
  bool is_alike = x.ndim() == source.ndim() && x.dtype() == source.dtype();
  for (std::size_t d = 0; is_alike && d < x.shape().size(); ++d) {
    is_alike = d == dim || x.shape()[d] == source.shape()[d];
  }
  TESSERA_CHECK_CALL(call, is_alike, "x and source must have the same dtype, and equal sizes except in dimension ", dim,
                     ", got ", describe(x), " and ", describe(source));
  const Tensor& index = call.inputs[1];
  detail::check_index(call, index);
  detail::check_computable(call, source);
  TESSERA_CHECK_CALL(call, index.ndim() == 1, "index must have 1 dimension, got ", index.ndim());
  TESSERA_CHECK_CALL(call, source.shape()[dim] == index.numel(), "index must have one element per slice of source (",
                     source.shape()[dim], "), got ", index.numel());
  const IndexMap& map = call.as<IndexSliceAttributes>().map;
  TESSERA_CHECK_CALL(call, map == IndexMap() || map.size() == x.shape()[dim], "map must have ", x.shape()[dim],
                     " slices, got ", map.size());
  outputs[0] = {x.shape(), x.dtype()};
}

void index_add_kernel(const KernelCall& call) {
  const std::size_t dim = add_dim(call);
  const auto& a = call.as<IndexSliceAttributes>();
  enqueue_slice_sums(call, &call.inputs[0], call.inputs[1], call.inputs[2], dim,
                     a.size < 0 ? call.inputs[0].shape()[dim] : a.size, a.map);
}

void index_add_gradient(GradientCall& call) {
  if (call.needs(0)) call.set(0, call.grad());
  if (call.needs(2)) call.set(2, index_select(call.grad(), call.as<IndexSliceAttributes>().dim, call.input(1)));
}

// Each rank adds to the slices that it holds.
FactorRule rule_of_index_add(const Call& call) {
  const std::size_t dim = add_dim(call);
  FactorRule rule = detail::empty_rule("index_add", 3, 1);
  rule.algebra[0] = rule.algebra[2] = kLinear;
  for (std::size_t d = 0; d < call.inputs[0].shape().size(); ++d) {
    const std::int32_t factor = detail::add_factor(rule, FactorKind::kPass);
    rule.inputs[0].push_back({factor});
    rule.outputs[0].push_back({factor});
    const std::int32_t places = d == dim ? detail::add_factor(rule, FactorKind::kReplicate) : factor;
    rule.inputs[2].push_back({places});
    if (d == dim) rule.inputs[1].push_back({places});
  }
  return rule;
}

tensor::Attributes localize_index_add(const tensor::LocalizeCall& call) {
  IndexSliceAttributes local = call.global.as<IndexSliceAttributes>();
  const std::size_t dim = add_dim(call.global);
  local.size = call.global.inputs[0].shape()[dim];
  local.map = call.inputs[0].index[dim];
  return tensor::Attributes(local);
}

// index_sum

std::size_t sum_dim(const Call& call) {
  TESSERA_CHECK_CALL(call, call.inputs[0].ndim() > 0, "source must have at least 1 dimension, got 0");
  return static_cast<std::size_t>(
      tensor::normalized_dim(call, call.as<IndexSumAttributes>().dim, call.inputs[0].ndim()));
}

Shape sum_shape(const Shape& source, std::size_t dim, std::int64_t size) {
  IntList sizes;
  for (std::size_t d = 0; d < source.size(); ++d) sizes.push_back(d == dim ? size : source[d]);
  return Shape(std::span<const std::int64_t>(sizes));
}

// Returns the dimension of the result that replaces those of the index in the source.
std::size_t index_sum_dim(const Call& call) {
  const Tensor& source = call.inputs[0];
  const Tensor& index = call.inputs[1];
  TESSERA_CHECK_CALL(call, source.ndim() >= index.ndim(), "source must have at least as many dimensions as index (",
                     index.ndim(), "), got ", source.ndim());
  const int ndim = source.ndim() - index.ndim() + 1;
  return static_cast<std::size_t>(tensor::normalized_dim(call, call.as<IndexSumAttributes>().dim, ndim));
}

void infer_index_sum(const Call& call, std::span<OutputInfo> outputs) {
  const auto& a = call.as<IndexSumAttributes>();
  const Tensor& source = call.inputs[0];
  const Shape& index = call.inputs[1].shape();
  const std::size_t dim = index_sum_dim(call);
  detail::check_index(call, call.inputs[1]);
  detail::check_computable(call, source);
  TESSERA_CHECK_CALL(call, a.size >= 0, "size must be at least 0, got ", a.size);
  IntList sizes;
  for (std::size_t d = 0; d < source.shape().size() - index.size() + 1; ++d) {
    if (d == dim) {
      sizes.push_back(a.map == IndexMap() ? a.size : a.map.size());
    } else {
      sizes.push_back(source.shape()[d < dim ? d : d + index.size() - 1]);
    }
  }
  for (std::size_t d = 0; d < index.size(); ++d) {
    TESSERA_CHECK_CALL(call, source.shape()[dim + d] == index[d], "source must have the size of index in dimension ",
                       dim + d, ", ", index[d], ", got ", source.shape()[dim + d]);
  }
  outputs[0] = {Shape(std::span<const std::int64_t>(sizes)), source.dtype()};
  TESSERA_CHECK_CALL(call, !call.inputs[2] || call.inputs[2].shape() == outputs[0].shape,
                     "like must have the shape of the result, ", outputs[0].shape, ", got ", call.inputs[2].shape());
}

void index_sum_kernel(const KernelCall& call) {
  const auto& a = call.as<IndexSumAttributes>();
  enqueue_slice_sums(call, nullptr, call.inputs[1], call.inputs[0], index_sum_dim(call), a.size, a.map);
}

void index_sum_gradient(GradientCall& call) {
  if (call.needs(0)) call.set(0, index_select(call.grad(), call.as<IndexSumAttributes>().dim, call.input(1)));
}

// Each rank sums the rows that it holds, from its local slices.
FactorRule rule_of_index_sum(const Call& call) {
  const auto& a = call.as<IndexSumAttributes>();
  const std::size_t dim = index_sum_dim(call);
  const std::size_t index_dims = call.inputs[1].shape().size();
  const bool has_like = static_cast<bool>(call.inputs[2]);
  FactorRule rule = detail::empty_rule("index_sum", has_like ? 3 : 2, 1);
  rule.algebra[0] = kLinear;
  const auto add_row = [&] {
    const FactorKind kind = a.size > 0 ? FactorKind::kPass : FactorKind::kReplicate;
    rule.outputs[0].push_back({detail::add_factor(rule, kind, a.size)});
    for (std::size_t i = 0; i < index_dims; ++i) {
      const std::int32_t places = detail::add_factor(rule, FactorKind::kReduce);
      rule.inputs[0].push_back({places});
      rule.inputs[1].push_back({places});
    }
  };
  for (std::size_t d = 0; d < call.inputs[0].shape().size() - index_dims + 1; ++d) {
    if (d == dim) {
      add_row();
    } else {
      detail::pass_dim(rule);
    }
  }
  if (has_like) rule.inputs[2] = rule.outputs[0];
  return rule;
}

tensor::Attributes localize_index_sum(const tensor::LocalizeCall& call) {
  IndexSumAttributes local = call.global.as<IndexSumAttributes>();
  local.map = call.outputs[0].index[index_sum_dim(call.global)];
  return tensor::Attributes(local);
}

// scatter_add and scatter_sum

struct LineSums {
  detail::ElementsCopy start;  // copies x to the result; scatter_sum writes zeros instead
  bool has_x = false;
  detail::Lines<3> lines;  // result, index, source
  detail::IndexReader index;
  std::array<const std::byte*, 3> data{};
  DType dtype = DType::kF32;

  template <class T>
  void line(const std::array<std::int64_t, 3>& at, std::vector<T>& sums) const {
    constexpr std::int64_t kPart = 512;
    const auto bytes = static_cast<std::int64_t>(itemsize(dtype));
    std::byte* to = const_cast<std::byte*>(data[0]) + at[0] * bytes;
    detail::load(sums.data(), to, dtype, lines.step[0], index.size);
    T some[kPart];
    for (std::int64_t start_at = 0; start_at < lines.length; start_at += kPart) {
      const std::int64_t n = std::min(kPart, lines.length - start_at);
      detail::load(some, data[2] + (at[2] + start_at * lines.step[2]) * bytes, dtype, lines.step[2], n);
      for (std::int64_t i = 0; i < n; ++i) {
        sums[static_cast<std::size_t>(index.at(at[1] + (start_at + i) * lines.step[1]))] += some[i];
      }
    }
    detail::store(sums.data(), to, dtype, lines.step[0], index.size);
  }

  void operator()() const {
    static constexpr std::byte kZero[16] = {};
    if (has_x) {
      start.run();
    } else {
      start.fill(kZero);
    }
    if (lines.length == 0) return;
    with_compute(dtype, [&](auto zero) {
      const std::int64_t grain = detail::rows_per_piece(lines.length + index.size);
      detail::parallel_for(lines.loop.numel(), grain, [&](std::int64_t begin, std::int64_t end) {
        std::vector<decltype(zero)> sums(static_cast<std::size_t>(index.size));
        lines.for_each(begin, end, [&](const auto& at) { line(at, sums); });
      });
    });
  }
};

void enqueue_line_sums(const KernelCall& call, const Tensor* x, const Tensor& index, const Tensor& source,
                       std::size_t dim) {
  const Tensor& out = call.outputs[0];
  LineSums kernel{detail::whole_copy(out, x == nullptr ? out : *x),
                  x != nullptr,
                  detail::Lines<3>(index.shape(), dim, {&out, &index, &source}),
                  detail::IndexReader(index, out.shape()[dim], x == nullptr ? "scatter_sum" : "scatter_add",
                                      static_cast<std::int64_t>(dim)),
                  {out.data(), index.data(), source.data()},
                  out.dtype()};
  detail::enqueue(call, std::move(kernel));
}

std::size_t scatter_add_dim(const Call& call) {
  return detail::line_dim(call, call.inputs[0], call.inputs[1], call.as<IndexAttributes>().dim);
}

void infer_scatter_add(const Call& call, std::span<OutputInfo> outputs) {
  const Tensor& x = call.inputs[0];
  const Tensor& source = call.inputs[2];
  scatter_add_dim(call);
  detail::check_computable(call, x);
  TESSERA_CHECK_CALL(call, source.shape() == call.inputs[1].shape() && source.dtype() == x.dtype(),
                     "source must have the shape of index and the dtype of x");
  outputs[0] = {x.shape(), x.dtype()};
}

void scatter_add_kernel(const KernelCall& call) {
  enqueue_line_sums(call, &call.inputs[0], call.inputs[1], call.inputs[2], scatter_add_dim(call));
}

void scatter_add_gradient(GradientCall& call) {
  if (call.needs(0)) call.set(0, call.grad());
  if (call.needs(2)) call.set(2, gather(call.grad(), call.as<IndexAttributes>().dim, call.input(1)));
}

FactorRule rule_of_scatter_add(const Call& call) {
  const std::size_t dim = scatter_add_dim(call);
  FactorRule rule = detail::empty_rule("scatter_add", 3, 1);
  rule.algebra[0] = rule.algebra[2] = kLinear;
  const Shape& x = call.inputs[0].shape();
  const detail::LineRule lines{x, call.inputs[1].shape(), dim, FactorKind::kReplicate, 0, FactorKind::kReplicate};
  lines.add(rule, {&rule.inputs[0], &rule.outputs[0]}, {&rule.inputs[1], &rule.inputs[2]});
  return rule;
}

void infer_scatter_sum(const Call& call, std::span<OutputInfo> outputs) {
  const auto& a = call.as<IndexSumAttributes>();
  const Tensor& source = call.inputs[0];
  const std::size_t dim = sum_dim(call);
  detail::check_index(call, call.inputs[1]);
  detail::check_computable(call, source);
  TESSERA_CHECK_CALL(call, a.size >= 0, "size must be at least 0, got ", a.size);
  TESSERA_CHECK_CALL(call, source.shape() == call.inputs[1].shape(), "source must have the shape of index");
  outputs[0] = {sum_shape(source.shape(), dim, a.size), source.dtype()};
}

void scatter_sum_kernel(const KernelCall& call) {
  enqueue_line_sums(call, nullptr, call.inputs[1], call.inputs[0], sum_dim(call));
}

void scatter_sum_gradient(GradientCall& call) {
  if (call.needs(0)) call.set(0, gather(call.grad(), call.as<IndexSumAttributes>().dim, call.input(1)));
}

FactorRule rule_of_scatter_sum(const Call& call) {
  const std::size_t dim = sum_dim(call);
  FactorRule rule = detail::empty_rule("scatter_sum", 2, 1);
  rule.algebra[0] = kLinear;
  const std::int64_t size = call.as<IndexSumAttributes>().size;
  const Shape& index = call.inputs[1].shape();
  const detail::LineRule lines{Shape(), index, dim, FactorKind::kReplicate, size, FactorKind::kReduce};
  lines.add(rule, {&rule.outputs[0]}, {&rule.inputs[0], &rule.inputs[1]});
  return rule;
}

template <std::size_t kSource>
tensor::Cost sums_cost(const Call& call) {
  tensor::Cost cost = detail::moved_cost(call);
  cost.flops = static_cast<double>(call.inputs[kSource].numel());
  return cost;
}

const tensor::Operator kIndexAdd = tensor::register_op({.name = "index_add",
                                                        .inputs = "x, index, source",
                                                        .infer = infer_index_add,
                                                        .host = index_add_kernel,
                                                        .gradient = index_add_gradient,
                                                        .saves = "index",
                                                        .rule = rule_of_index_add,
                                                        .localize = localize_index_add,
                                                        .cost = sums_cost<2>});
const tensor::Operator kIndexSum = tensor::register_op({.name = "index_sum",
                                                        .inputs = "source, index, like?",
                                                        .infer = infer_index_sum,
                                                        .host = index_sum_kernel,
                                                        .gradient = index_sum_gradient,
                                                        .saves = "index",
                                                        .rule = rule_of_index_sum,
                                                        .localize = localize_index_sum,
                                                        .cost = sums_cost<0>});
const tensor::Operator kScatterAdd = tensor::register_op({.name = "scatter_add",
                                                          .inputs = "x, index, source",
                                                          .infer = infer_scatter_add,
                                                          .host = scatter_add_kernel,
                                                          .gradient = scatter_add_gradient,
                                                          .saves = "index",
                                                          .rule = rule_of_scatter_add,
                                                          .cost = sums_cost<2>});
const tensor::Operator kScatterSum = tensor::register_op({.name = "scatter_sum",
                                                          .inputs = "source, index",
                                                          .infer = infer_scatter_sum,
                                                          .host = scatter_sum_kernel,
                                                          .gradient = scatter_sum_gradient,
                                                          .saves = "index",
                                                          .rule = rule_of_scatter_sum,
                                                          .cost = sums_cost<0>});

}  // namespace

Tensor index_add(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& source) {
  return tensor::call(kIndexAdd, {x, index, source}, IndexSliceAttributes{dim});
}
Tensor index_sum(const Tensor& source, std::int64_t dim, const Tensor& index, std::int64_t size) {
  return tensor::call(kIndexSum, {source, index, Tensor()}, IndexSumAttributes{dim, size, {}});
}
Tensor index_sum_like(const Tensor& source, std::int64_t dim, const Tensor& index, const Tensor& like) {
  return tensor::call(kIndexSum, {source, index, like},
                      IndexSumAttributes{dim, like.shape().dim(static_cast<int>(dim)), {}});
}
Tensor scatter_add(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& source) {
  return tensor::call(kScatterAdd, {x, index, source}, IndexAttributes{dim});
}
Tensor scatter_sum(const Tensor& source, std::int64_t dim, const Tensor& index, std::int64_t size) {
  return tensor::call(kScatterSum, {source, index}, IndexSumAttributes{dim, size, {}});
}

}  // namespace tessera::ops
