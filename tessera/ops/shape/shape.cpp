// The view operators. Each resolves its attributes with the input shape in one function that both `infer` and `view`
// use, so that calls with and without layouts have the same checks.
#include "tessera/ops/shape/shape.h"

#include "tessera/ops/reduce/reduce.h"
#include "tessera/ops/shape/arrange.h"
#include "tessera/ops/shape/detail/rearrangements.h"
#include "tessera/ops/shape/detail/rule_parts.h"
#include "tessera/tensor/call.h"

namespace tessera::ops {
namespace {

using layout::FactorKind;
using layout::FactorRule;
using tensor::Call;
using tensor::GradientCall;
using tensor::IntList;
using tensor::LocalizeCall;
using tensor::OutputInfo;

// view

void infer_view(const Call& call, std::span<OutputInfo> outputs) {
  const Tensor& x = call.inputs[0];
  const Shape& to = call.as<ViewAttributes>().shape;
  TESSERA_CHECK_CALL(call, x.numel() == to.numel(), "shape ", to, " must have as many elements as ", x.shape(), " (",
                     x.numel(), "), got ", to.numel());
  outputs[0] = {to, x.dtype()};
}

Tensor make_view(const Call& call) {
  OutputInfo info;
  infer_view(call, std::span(&info, 1));
  const Tensor& x = call.inputs[0];
  const auto strides = detail::view_strides(x.shape(), x.strides(), info.shape);
  TESSERA_CHECK_CALL(call, strides.has_value(), "shape ", x.shape(), " with strides ", x.strides(),
                     " has no view of shape ", info.shape, "; use reshape, which copies if necessary");
  return x.as_strided(info.shape, *strides, x.offset());
}

void view_gradient(GradientCall& call) { call.set(0, reshape(call.grad(), call.input_shape(0).values())); }

FactorRule rule_of_view(const Call& call) {
  return layout::view_rule(call.inputs[0].shape(), call.as<ViewAttributes>().shape);
}

tensor::Attributes localize_view(const LocalizeCall& call) {
  return tensor::Attributes(ViewAttributes{call.outputs[0].shape});
}

// permute

IntList permutation(const Call& call) {
  const int ndim = call.inputs[0].ndim();
  const IntList& given = call.as<PermuteAttributes>().dims;
  TESSERA_CHECK_CALL(call, static_cast<int>(given.size()) == ndim, "dims must name all ", ndim, " dimensions, got ",
                     given.size());
  IntList dims;
  std::vector<bool> seen(static_cast<std::size_t>(ndim));
  for (const std::int64_t dim : given) {
    const int d = tensor::normalized_dim(call, dim, ndim);
    TESSERA_CHECK_CALL(call, !seen[static_cast<std::size_t>(d)], "dimensions must be distinct, got ", d, " twice");
    seen[static_cast<std::size_t>(d)] = true;
    dims.push_back(d);
  }
  return dims;
}

void infer_permute(const Call& call, std::span<OutputInfo> outputs) {
  IntList sizes;
  for (const std::int64_t d : permutation(call)) sizes.push_back(call.inputs[0].shape()[static_cast<std::size_t>(d)]);
  outputs[0] = {Shape(std::span<const std::int64_t>(sizes)), call.inputs[0].dtype()};
}

Tensor make_permute(const Call& call) {
  const Tensor& x = call.inputs[0];
  IntList sizes;
  IntList steps;
  for (const std::int64_t d : permutation(call)) {
    sizes.push_back(x.shape()[static_cast<std::size_t>(d)]);
    steps.push_back(x.strides()[static_cast<std::size_t>(d)]);
  }
  return x.as_strided(Shape(std::span<const std::int64_t>(sizes)), Strides(std::span<const std::int64_t>(steps)),
                      x.offset());
}

void permute_gradient(GradientCall& call) {
  const IntList& dims = call.as<PermuteAttributes>().dims;
  const auto ndim = static_cast<std::int64_t>(dims.size());
  IntList inverse = dims;
  for (std::int64_t i = 0; i < ndim; ++i) {
    const std::int64_t d = dims[static_cast<std::size_t>(i)];
    inverse[static_cast<std::size_t>(d < 0 ? d + ndim : d)] = i;
  }
  call.set(0, permute(call.grad(), inverse));
}

FactorRule rule_of_permute(const Call& call) {
  FactorRule rule = detail::empty_rule("permute", 1, 1, detail::kMoves);
  for (int d = 0; d < call.inputs[0].ndim(); ++d) {
    rule.inputs[0].push_back({detail::add_factor(rule, FactorKind::kPass)});
  }
  for (const std::int64_t d : permutation(call)) rule.outputs[0].push_back({static_cast<std::int32_t>(d)});
  return rule;
}

// expand

void infer_expand(const Call& call, std::span<OutputInfo> outputs) {
  const Shape& from = call.inputs[0].shape();
  const Shape& to = call.as<ExpandAttributes>().shape;
  bool fits = from.size() <= to.size();
  for (std::size_t i = 0; fits && i < from.size(); ++i) {
    fits = from[i] == 1 || from[i] == to[to.size() - from.size() + i];
  }
  TESSERA_CHECK_CALL(call, fits, "shape must keep every dimension that is not of size 1, got ", to, " for ", from,
                     "; use cat() to repeat elements");
  outputs[0] = {to, call.inputs[0].dtype()};
}

Tensor make_expand(const Call& call) {
  OutputInfo info;
  infer_expand(call, std::span(&info, 1));
  const Tensor& x = call.inputs[0];
  const std::size_t lead = info.shape.size() - x.shape().size();
  IntList steps;
  for (std::size_t i = 0; i < info.shape.size(); ++i) {
    const bool is_repeated = i < lead || x.shape()[i - lead] != info.shape[i];
    steps.push_back(is_repeated ? 0 : x.strides()[i - lead]);
  }
  return x.as_strided(info.shape, Strides(std::span<const std::int64_t>(steps)), x.offset());
}

void expand_gradient(GradientCall& call) { call.set(0, sum_to(call.grad(), call.input_shape(0))); }

FactorRule rule_of_expand(const Call& call) {
  const Shape& from = call.inputs[0].shape();
  const Shape& to = call.as<ExpandAttributes>().shape;
  FactorRule rule = detail::empty_rule("expand", 1, 1, detail::kMoves);
  const std::size_t lead = to.size() - from.size();
  for (std::size_t i = 0; i < to.size(); ++i) {
    if (i >= lead && from[i - lead] == to[i]) {
      detail::pass_dim(rule);
      continue;
    }
    if (i >= lead) rule.inputs[0].emplace_back();
    const FactorKind kind = to[i] > 0 ? FactorKind::kPass : FactorKind::kReplicate;
    rule.outputs[0].push_back({detail::add_factor(rule, kind, to[i])});
  }
  return rule;
}

tensor::Attributes localize_expand(const LocalizeCall& call) {
  return tensor::Attributes(ExpandAttributes{call.outputs[0].shape});
}

// slice

struct SliceRange {
  std::size_t dim;
  std::int64_t start;
  std::int64_t length;
  std::int64_t step;
  bool is_whole;
};

SliceRange slice_range(const Call& call) {
  const auto& a = call.as<SliceAttributes>();
  const Tensor& x = call.inputs[0];
  TESSERA_CHECK_CALL(call, x.ndim() > 0, "x must have at least 1 dimension, got 0");
  TESSERA_CHECK_CALL(call, a.step >= 1, "step must be at least 1, got ", a.step, "; use flip to reverse");
  const auto dim = static_cast<std::size_t>(tensor::normalized_dim(call, a.dim, x.ndim()));
  const std::int64_t size = x.shape()[dim];
  const auto clamped = [size](std::int64_t at) { return std::clamp<std::int64_t>(at < 0 ? at + size : at, 0, size); };
  const std::int64_t start = clamped(a.start);
  const std::int64_t extent = std::max<std::int64_t>(0, clamped(a.end) - start);
  const std::int64_t length = extent / a.step + (extent % a.step != 0 ? 1 : 0);
  return {dim, start, length, a.step, length == size};
}

Shape with_dim(const Shape& shape, std::size_t dim, std::int64_t size) {
  IntList sizes;
  for (std::size_t i = 0; i < shape.size(); ++i) sizes.push_back(i == dim ? size : shape[i]);
  return Shape(std::span<const std::int64_t>(sizes));
}

void infer_slice(const Call& call, std::span<OutputInfo> outputs) {
  const SliceRange range = slice_range(call);
  outputs[0] = {with_dim(call.inputs[0].shape(), range.dim, range.length), call.inputs[0].dtype()};
}

Tensor make_slice(const Call& call) {
  const SliceRange range = slice_range(call);
  const Tensor& x = call.inputs[0];
  IntList steps;
  for (std::size_t i = 0; i < x.strides().size(); ++i) {
    steps.push_back(i == range.dim ? x.strides()[i] * range.step : x.strides()[i]);
  }
  const std::int64_t offset = range.length == 0 ? x.offset() : x.offset() + range.start * x.strides()[range.dim];
  return x.as_strided(with_dim(x.shape(), range.dim, range.length), Strides(std::span<const std::int64_t>(steps)),
                      offset);
}

void slice_gradient(GradientCall& call) {
  const auto& a = call.as<SliceAttributes>();
  const Shape& shape = call.input_shape(0);
  const std::int64_t dim = a.dim < 0 ? a.dim + shape.ndim() : a.dim;
  const std::int64_t size = shape[static_cast<std::size_t>(dim)];
  const std::int64_t start = std::clamp<std::int64_t>(a.start < 0 ? a.start + size : a.start, 0, size);
  call.set(0, unslice(call.grad(), dim, size, start, a.step));
}

// Slicing a sharded dimension would need elements of other ranks.
FactorRule rule_of_slice(const Call& call) {
  const SliceRange range = slice_range(call);
  const Shape& shape = call.inputs[0].shape();
  FactorRule rule = detail::empty_rule("slice", 1, 1, detail::kMoves);
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (i != range.dim || range.is_whole) {
      detail::pass_dim(rule);
    } else {
      detail::keep_whole(rule, rule.inputs[0], shape[i]);
      detail::keep_whole(rule, rule.outputs[0], range.length);
    }
  }
  return rule;
}

tensor::Attributes localize_slice(const LocalizeCall& call) {
  SliceAttributes local = call.global.as<SliceAttributes>();
  if (slice_range(call.global).is_whole) {
    local.start = 0;
    local.end = INT64_MAX;
  }
  return tensor::Attributes(local);
}

// select

std::pair<std::size_t, std::int64_t> selected(const Call& call) {
  const auto& a = call.as<SelectAttributes>();
  const Tensor& x = call.inputs[0];
  TESSERA_CHECK_CALL(call, x.ndim() > 0, "x must have at least 1 dimension, got 0");
  const auto dim = static_cast<std::size_t>(tensor::normalized_dim(call, a.dim, x.ndim()));
  const std::int64_t size = x.shape()[dim];
  TESSERA_CHECK_CALL(call, a.index >= -size && a.index < size, "index must be in [", -size, ", ", size,
                     ") in dimension ", dim, ", got ", a.index);
  return {dim, a.index < 0 ? a.index + size : a.index};
}

template <class Dims>
IntList without(const Dims& values, std::size_t dim) {
  IntList rest;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i != dim) rest.push_back(values[i]);
  }
  return rest;
}

void infer_select(const Call& call, std::span<OutputInfo> outputs) {
  const IntList sizes = without(call.inputs[0].shape(), selected(call).first);
  outputs[0] = {Shape(std::span<const std::int64_t>(sizes)), call.inputs[0].dtype()};
}

Tensor make_select(const Call& call) {
  const auto [dim, index] = selected(call);
  const Tensor& x = call.inputs[0];
  const IntList sizes = without(x.shape(), dim);
  const IntList steps = without(x.strides(), dim);
  return x.as_strided(Shape(std::span<const std::int64_t>(sizes)), Strides(std::span<const std::int64_t>(steps)),
                      x.numel() == 0 ? x.offset() : x.offset() + index * x.strides()[dim]);
}

void select_gradient(GradientCall& call) {
  const auto& a = call.as<SelectAttributes>();
  const Shape& shape = call.input_shape(0);
  const std::int64_t dim = a.dim < 0 ? a.dim + shape.ndim() : a.dim;
  const std::int64_t size = shape[static_cast<std::size_t>(dim)];
  call.set(0, unslice(unsqueeze(call.grad(), dim), dim, size, a.index < 0 ? a.index + size : a.index, 1));
}

FactorRule rule_of_select(const Call& call) {
  const std::size_t dim = selected(call).first;
  const Shape& shape = call.inputs[0].shape();
  FactorRule rule = detail::empty_rule("select", 1, 1, detail::kMoves);
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (i == dim) {
      detail::keep_whole(rule, rule.inputs[0], shape[i]);
    } else {
      detail::pass_dim(rule);
    }
  }
  return rule;
}

tensor::Cost no_cost(const Call&) { return {}; }

const tensor::Operator kView = tensor::register_op({.name = "view",
                                                    .inputs = "x",
                                                    .infer = infer_view,
                                                    .view = make_view,
                                                    .gradient = view_gradient,
                                                    .rule = rule_of_view,
                                                    .localize = localize_view,
                                                    .cost = no_cost});
const tensor::Operator kPermute = tensor::register_op({.name = "permute",
                                                       .inputs = "x",
                                                       .infer = infer_permute,
                                                       .view = make_permute,
                                                       .gradient = permute_gradient,
                                                       .rule = rule_of_permute,
                                                       .cost = no_cost});
const tensor::Operator kExpand = tensor::register_op({.name = "expand",
                                                      .inputs = "x",
                                                      .infer = infer_expand,
                                                      .view = make_expand,
                                                      .gradient = expand_gradient,
                                                      .rule = rule_of_expand,
                                                      .localize = localize_expand,
                                                      .cost = no_cost});
const tensor::Operator kSlice = tensor::register_op({.name = "slice",
                                                     .inputs = "x",
                                                     .infer = infer_slice,
                                                     .view = make_slice,
                                                     .gradient = slice_gradient,
                                                     .rule = rule_of_slice,
                                                     .localize = localize_slice,
                                                     .cost = no_cost,
                                                     .rearrangement = detail::slice_rearrangement});
const tensor::Operator kSelect = tensor::register_op({.name = "select",
                                                      .inputs = "x",
                                                      .infer = infer_select,
                                                      .view = make_select,
                                                      .gradient = select_gradient,
                                                      .rule = rule_of_select,
                                                      .cost = no_cost});

}  // namespace

namespace detail {

// Contiguous dimensions of the input form a run; each run must consist of complete dimensions of the result.
std::optional<Strides> view_strides(const Shape& shape, const Strides& strides, const Shape& to) {
  if (shape.is_empty() || is_contiguous(shape, strides)) return contiguous_strides(to);
  IntList steps;
  for (std::size_t i = 0; i < to.size(); ++i) steps.push_back(0);
  std::size_t next = to.size();  // the strides of the result are set from here on
  std::int64_t run = 1;          // elements of the run so far
  std::int64_t base = 1;         // stride of its last dimension
  for (std::size_t i = shape.size(); i-- > 0;) {
    if (run == 1) base = strides[i];
    run *= shape[i];
    if (i > 0 && (shape[i - 1] == 1 || strides[i - 1] == run * base)) continue;
    std::int64_t made = 1;
    while (next > 0 && (made < run || to[next - 1] == 1)) {
      --next;
      steps[next] = made * base;
      made *= to[next];
    }
    if (made != run) return std::nullopt;
    run = 1;
  }
  for (; next > 0; --next) steps[next - 1] = 1;  // dimensions of size 1
  return Strides(std::span<const std::int64_t>(steps));
}

}  // namespace detail

Tensor view(const Tensor& x, std::span<const std::int64_t> sizes) {
  return tensor::call(kView, {x}, ViewAttributes{detail::resolved_sizes("view", x, x.numel(), sizes)});
}

Tensor permute(const Tensor& x, const IntList& dims) { return tensor::call(kPermute, {x}, PermuteAttributes{dims}); }

Tensor expand(const Tensor& x, std::span<const std::int64_t> sizes) {
  IntList to;
  const std::size_t lead = sizes.size() - std::min(sizes.size(), x.shape().size());
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    TESSERA_CHECK(sizes[i] >= 0 || (sizes[i] == -1 && i >= lead),
                  "expand: size must be at least 0, or -1 to keep a dimension, got ", sizes[i], " for ", describe(x));
    to.push_back(sizes[i] == -1 ? x.shape()[i - lead] : sizes[i]);
  }
  return tensor::call(kExpand, {x}, ExpandAttributes{Shape(std::span<const std::int64_t>(to))});
}

Tensor slice(const Tensor& x, std::int64_t dim, std::int64_t start, std::int64_t end, std::int64_t step) {
  return tensor::call(kSlice, {x}, SliceAttributes{dim, start, end, step});
}

Tensor select(const Tensor& x, std::int64_t dim, std::int64_t index) {
  return tensor::call(kSelect, {x}, SelectAttributes{dim, index});
}

}  // namespace tessera::ops
