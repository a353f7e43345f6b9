// index_select, embedding and one_hot: copy slices at indices.
#include "tessera/layout/planner.h"
#include "tessera/ops/create/create.h"
#include "tessera/ops/detail/dtype_checks.h"
#include "tessera/ops/detail/enqueue.h"
#include "tessera/ops/detail/rows_per_piece.h"
#include "tessera/ops/index/detail/index_reader.h"
#include "tessera/ops/index/index.h"
#include "tessera/ops/parallel.h"
#include "tessera/ops/shape/detail/copy_elements.h"
#include "tessera/ops/shape/detail/rule_parts.h"

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

constexpr std::byte kZero[16] = {};

// index_select

std::size_t select_dim(const Call& call) {
  const Tensor& x = call.inputs[0];
  TESSERA_CHECK_CALL(call, x.ndim() > 0, "x must have at least 1 dimension, got 0");
  return static_cast<std::size_t>(tensor::normalized_dim(call, call.as<IndexSliceAttributes>().dim, x.ndim()));
}

// In the result, the dimensions of the index replace `dim` of x.
void infer_index_select(const Call& call, std::span<OutputInfo> outputs) {
  const Tensor& x = call.inputs[0];
  const std::size_t dim = select_dim(call);
  detail::check_index(call, call.inputs[1]);
  const IndexMap& map = call.as<IndexSliceAttributes>().map;
  TESSERA_CHECK_CALL(call, map == IndexMap() || map.size() == x.shape()[dim], "map must have ", x.shape()[dim],
                     " slices, got ", map.size());
  IntList sizes;
  for (std::size_t d = 0; d < x.shape().size(); ++d) {
    if (d == dim) {
      sizes.append(call.inputs[1].shape().values());
    } else {
      sizes.push_back(x.shape()[d]);
    }
  }
  outputs[0] = {Shape(std::span<const std::int64_t>(sizes)), x.dtype()};
}

struct SelectKernel {
  detail::StridedLoop<2> rest;    // result, input: all dimensions except the selected one
  detail::StridedLoop<2> places;  // result, index: the dimensions of the index
  detail::IndexReader index;
  IndexMap map;  // slices that the input holds
  bool has_map = false;
  std::int64_t from_step = 0;
  std::byte* to = nullptr;
  const std::byte* from = nullptr;
  std::size_t nbytes = 4;

  void clear_slice(const std::array<std::int64_t, 2>& place, std::int64_t begin, std::int64_t end) const {
    const auto bytes = static_cast<std::int64_t>(nbytes);
    rest.for_rows(begin, end, [&](const auto& at) {
      detail::fill_row(to + (at[0] + place[0]) * bytes, rest.step(0), kZero, nbytes, rest.inner());
    });
  }

  // Copies the rows [begin, end) of the slice at one index, or writes zeros if the input does not hold it.
  void copy_slice(const std::array<std::int64_t, 2>& place, std::int64_t begin, std::int64_t end) const {
    const auto bytes = static_cast<std::int64_t>(nbytes);
    const std::int64_t global = index.at(place[1]);
    const auto local = has_map ? map.local(global) : global;
    if (!local) return clear_slice(place, begin, end);
    const std::int64_t source = *local * from_step;
    rest.for_rows(begin, end, [&](const auto& at) {
      detail::copy_row(to + (at[0] + place[0]) * bytes, rest.step(0), from + (at[1] + source) * bytes, rest.step(1),
                       nbytes, rest.inner());
    });
  }

  void operator()() const {
    const std::int64_t rows = rest.rows();
    if (rest.numel() == 0) return;
    detail::parallel_for(places.numel() * rows, detail::rows_per_piece(rest.inner()),
                         [&](std::int64_t begin, std::int64_t end) {
                           for (; begin < end; begin = std::min(end, (begin / rows + 1) * rows)) {
                             const std::int64_t n = begin / rows;
                             places.for_runs(n, n + 1, [&](const auto& at, std::int64_t) {
                               copy_slice(at, begin - n * rows, std::min(end - n * rows, rows));
                             });
                           }
                         });
  }
};

void index_select_kernel(const KernelCall& call) {
  const Tensor& x = call.inputs[0];
  const Tensor& index = call.inputs[1];
  const Tensor& out = call.outputs[0];
  const std::size_t dim = select_dim(call);
  SelectKernel kernel;
  for (std::size_t d = 0; d < x.shape().size(); ++d) {
    if (d == dim) continue;
    kernel.rest.add(x.shape()[d], {out.strides()[d < dim ? d : d + index.shape().size() - 1], x.strides()[d]});
  }
  for (std::size_t d = 0; d < index.shape().size(); ++d) {
    kernel.places.add(index.shape()[d], {out.strides()[dim + d], index.strides()[d]});
  }
  kernel.rest.collapse();
  kernel.places.collapse();
  const auto& a = call.as<IndexSliceAttributes>();
  kernel.index =
      detail::IndexReader(index, a.size < 0 ? x.shape()[dim] : a.size, "index_select", static_cast<std::int64_t>(dim));
  kernel.map = a.map;
  kernel.has_map = a.map != IndexMap();
  kernel.from_step = x.strides()[dim];
  kernel.to = out.data();
  kernel.from = x.data();
  kernel.nbytes = itemsize(x.dtype());
  detail::enqueue(call, std::move(kernel));
}

void index_select_gradient(GradientCall& call) {
  if (!call.needs(0)) return;
  const std::int64_t dim = call.as<IndexSliceAttributes>().dim;
  call.set(0, index_sum(call.grad(), dim, call.input(1), call.input_shape(0).dim(static_cast<int>(dim))));
}

// Slices of other ranks are zeros, so that the sum over all ranks is the result. Returns true for dtypes that can be
// added.
bool is_added(DType dtype) {
  return detail::is_computed_floating(dtype) || dtype == DType::kC64 || dtype == DType::kI64 || dtype == DType::kI32;
}

FactorRule rule_of_index_select(const Call& call) {
  const std::size_t dim = select_dim(call);
  const Shape& shape = call.inputs[0].shape();
  FactorRule rule = detail::empty_rule("index_select", 2, 1);
  rule.algebra[0] = detail::kMoves;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (d != dim) {
      detail::pass_dim(rule);
    } else {
      const bool may_shard = is_added(call.inputs[0].dtype());
      rule.inputs[0].push_back({detail::add_factor(rule, may_shard ? FactorKind::kReduce : FactorKind::kReplicate)});
      for (int i = 0; i < call.inputs[1].ndim(); ++i) detail::pass_dim(rule, 1, 0);
    }
  }
  return rule;
}

tensor::Attributes localize_index_select(const tensor::LocalizeCall& call) {
  IndexSliceAttributes local = call.global.as<IndexSliceAttributes>();
  const std::size_t dim = select_dim(call.global);
  local.size = call.global.inputs[0].shape()[dim];
  local.map = call.inputs[0].index[dim];
  return tensor::Attributes(local);
}

// embedding

void infer_embedding(const Call& call, std::span<OutputInfo> outputs) {
  const auto& a = call.as<EmbeddingAttributes>();
  const Tensor& weight = call.inputs[0];
  const Tensor& index = call.inputs[1];
  detail::check_index(call, index);
  TESSERA_CHECK_CALL(call, weight.ndim() == 2, "weight must have shape [rows, width], got ", describe(weight));
  const bool is_whole = a.row_map == IndexMap();
  TESSERA_CHECK_CALL(call, is_whole || a.row_map.size() == weight.size(0), "row map must have ", weight.size(0),
                     " rows, got ", a.row_map.size());
  IntList sizes;
  for (const std::int64_t size : index.shape()) sizes.push_back(size);
  sizes.push_back(weight.size(1));
  outputs[0] = {Shape(std::span<const std::int64_t>(sizes)), weight.dtype()};
}

struct EmbeddingKernel {
  detail::StridedLoop<2> places;  // result, index
  detail::IndexReader index;
  IndexMap row_map;  // empty: all rows
  bool has_map = false;
  std::int64_t width = 0;
  std::int64_t row_step = 0;
  std::int64_t from_step = 1;
  std::int64_t to_step = 1;
  std::byte* to = nullptr;
  const std::byte* from = nullptr;
  std::size_t nbytes = 4;

  void place(std::int64_t to_offset, std::int64_t index_offset) const {
    const auto bytes = static_cast<std::int64_t>(nbytes);
    std::int64_t row = index.at(index_offset);
    if (has_map) {
      const auto local = row_map.local(row);
      if (!local) {
        detail::fill_row(to + to_offset * bytes, to_step, kZero, nbytes, width);
        return;
      }
      row = *local;
    }
    detail::copy_row(to + to_offset * bytes, to_step, from + row * row_step * bytes, from_step, nbytes, width);
  }

  void operator()() const {
    detail::parallel_for(places.numel(), detail::rows_per_piece(width), [&](std::int64_t begin, std::int64_t end) {
      places.for_runs(begin, end, [&](const auto& at, std::int64_t n) {
        for (std::int64_t i = 0; i < n; ++i) place(at[0] + i * places.step(0), at[1] + i * places.step(1));
      });
    });
  }
};

void embedding_kernel(const KernelCall& call) {
  const auto& a = call.as<EmbeddingAttributes>();
  const Tensor& weight = call.inputs[0];
  const Tensor& index = call.inputs[1];
  const Tensor& out = call.outputs[0];
  EmbeddingKernel kernel;
  for (std::size_t d = 0; d < index.shape().size(); ++d) {
    kernel.places.add(index.shape()[d], {out.strides()[d], index.strides()[d]});
  }
  kernel.places.collapse();
  kernel.index = detail::IndexReader(index, a.rows < 0 ? weight.size(0) : a.rows, "embedding", 0);
  kernel.row_map = a.row_map;
  kernel.has_map = a.row_map != IndexMap();
  kernel.width = weight.size(1);
  kernel.row_step = weight.strides()[0];
  kernel.from_step = weight.strides()[1];
  kernel.to_step = out.strides()[index.shape().size()];
  kernel.to = out.data();
  kernel.from = weight.data();
  kernel.nbytes = itemsize(weight.dtype());
  detail::enqueue(call, std::move(kernel));
}

void embedding_gradient(GradientCall& call) {
  if (!call.needs(0)) return;
  Tensor like = call.input(0);
  if (like.has_layout() && !like.layout().partials().empty()) {
    // Its values are not read. It has the shape and sharding of the gradient, which is not partial.
    like = Tensor::sharded(like.shape(), like.dtype(), layout::gradient_layout(like.layout()), like.local());
  }
  // A weight without elements may be sharded along its rows, which index_sum does not allow.
  if (like.numel() == 0) return call.set(0, zeros_like(like));
  call.set(0, index_sum_like(call.grad(), 0, call.input(1), like));
}

FactorRule rule_of_embedding(const Call& call) {
  FactorRule rule = detail::empty_rule("embedding", 2, 1);
  rule.algebra[0] = {layout::Linearity::kJoint, layout::Monotony::kNone};
  for (int d = 0; d < call.inputs[1].ndim(); ++d) detail::pass_dim(rule, 1, 0);
  rule.inputs[0].push_back({detail::add_factor(rule, FactorKind::kReduce)});
  detail::pass_dim(rule);
  return rule;
}

tensor::Attributes localize_embedding(const tensor::LocalizeCall& call) {
  EmbeddingAttributes local;
  local.rows = call.global.inputs[0].size(0);
  local.row_map = call.inputs[0].index[0];
  return tensor::Attributes(local);
}

// one_hot

void infer_one_hot(const Call& call, std::span<OutputInfo> outputs) {
  const auto& a = call.as<OneHotAttributes>();
  detail::check_index(call, call.inputs[0]);
  TESSERA_CHECK_CALL(call, a.classes >= 1, "classes must be at least 1, got ", a.classes);
  IntList sizes;
  for (const std::int64_t size : call.inputs[0].shape()) sizes.push_back(size);
  sizes.push_back(a.class_map == IndexMap() ? a.classes : a.class_map.size());
  outputs[0] = {Shape(std::span<const std::int64_t>(sizes)), DType::kI64};
}

void one_hot_kernel(const KernelCall& call) {
  const auto& a = call.as<OneHotAttributes>();
  const Tensor& index = call.inputs[0];
  const Tensor& out = call.outputs[0];
  detail::StridedLoop<2> places;
  for (std::size_t d = 0; d < index.shape().size(); ++d) {
    places.add(index.shape()[d], {out.strides()[d], index.strides()[d]});
  }
  places.collapse();
  IndexMap map = a.class_map;
  if (map == IndexMap()) map.block = a.classes;
  const detail::IndexReader reader(index, a.classes, "one_hot", index.ndim());
  const std::int64_t width = out.size(-1);
  const std::int64_t step = out.strides()[index.shape().size()];
  auto* to = out.data_as<std::int64_t>();
  detail::enqueue(call, [=] {
    detail::parallel_for(places.numel(), detail::rows_per_piece(width), [&](std::int64_t begin, std::int64_t end) {
      places.for_runs(begin, end, [&](const auto& at, std::int64_t n) {
        for (std::int64_t i = 0; i < n; ++i) {
          std::int64_t* row = to + at[0] + i * places.step(0);
          for (std::int64_t c = 0; c < width; ++c) row[c * step] = 0;
          const auto local = map.local(reader.at(at[1] + i * places.step(1)));
          if (local) row[*local * step] = 1;
        }
      });
    });
  });
}

FactorRule rule_of_one_hot(const Call& call) {
  FactorRule rule = detail::empty_rule("one_hot", 1, 1);
  for (int d = 0; d < call.inputs[0].ndim(); ++d) detail::pass_dim(rule);
  rule.outputs[0].push_back({detail::add_factor(rule, FactorKind::kPass, call.as<OneHotAttributes>().classes)});
  return rule;
}

tensor::Attributes localize_one_hot(const tensor::LocalizeCall& call) {
  OneHotAttributes local = call.global.as<OneHotAttributes>();
  local.class_map = call.outputs[0].index.back();
  return tensor::Attributes(local);
}

const tensor::Operator kIndexSelect = tensor::register_op({.name = "index_select",
                                                           .inputs = "x, index",
                                                           .infer = infer_index_select,
                                                           .host = index_select_kernel,
                                                           .gradient = index_select_gradient,
                                                           .saves = "index",
                                                           .rule = rule_of_index_select,
                                                           .localize = localize_index_select,
                                                           .cost = detail::moved_cost});
const tensor::Operator kEmbedding = tensor::register_op({.name = "embedding",
                                                         .inputs = "weight, index",
                                                         .infer = infer_embedding,
                                                         .host = embedding_kernel,
                                                         .gradient = embedding_gradient,
                                                         .saves = "weight, index",
                                                         .rule = rule_of_embedding,
                                                         .localize = localize_embedding,
                                                         .cost = detail::moved_cost});
const tensor::Operator kOneHot = tensor::register_op({.name = "one_hot",
                                                      .inputs = "index",
                                                      .infer = infer_one_hot,
                                                      .host = one_hot_kernel,
                                                      .rule = rule_of_one_hot,
                                                      .localize = localize_one_hot,
                                                      .cost = detail::moved_cost});

}  // namespace

Tensor index_select(const Tensor& x, std::int64_t dim, const Tensor& index) {
  return tensor::call(kIndexSelect, {x, index}, IndexSliceAttributes{dim});
}
Tensor embedding(const Tensor& weight, const Tensor& index) {
  return tensor::call(kEmbedding, {weight, index}, EmbeddingAttributes{});
}
Tensor one_hot(const Tensor& index, std::int64_t classes) {
  return tensor::call(kOneHot, {index}, OneHotAttributes{classes, {}});
}

}  // namespace tessera::ops
