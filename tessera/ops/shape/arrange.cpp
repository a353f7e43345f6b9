// cat, flip, roll, pad and unslice: each is a few copies of rectangles. They are computed from shapes at the call and
// run later by one function.
#include "tessera/ops/shape/arrange.h"

#include <cstring>
#include <vector>

#include "tessera/ops/detail/enqueue.h"
#include "tessera/ops/shape/detail/arrangements.h"
#include "tessera/ops/shape/detail/byte_count.h"
#include "tessera/ops/shape/detail/copy_elements.h"
#include "tessera/ops/shape/detail/rearrangements.h"
#include "tessera/ops/shape/detail/rule_parts.h"
#include "tessera/ops/shape/shape.h"
#include "tessera/tensor/call.h"

namespace tessera::ops {
namespace {

using layout::FactorKind;
using layout::FactorRule;
using tensor::Call;
using tensor::GradientCall;
using tensor::IntList;
using tensor::KernelCall;
using tensor::OutputInfo;

// One dimension of a copied rectangle: `size` indices, starting at `to` with stride `to_step`, and at `from` with
// stride `from_step`.
struct Side {
  std::int64_t size;
  std::int64_t to = 0;
  std::int64_t from = 0;
  std::int64_t to_step = 1;
  std::int64_t from_step = 1;
};

detail::ElementsCopy copy_of(const Tensor& out, const Tensor& in, std::span<const Side> sides) {
  detail::ElementsCopy copy;
  std::int64_t to = 0;
  std::int64_t from = 0;
  bool is_empty = false;
  for (std::size_t d = 0; d < sides.size(); ++d) {
    const Side& side = sides[d];
    copy.loop.add(side.size, {out.strides()[d] * side.to_step, in.strides()[d] * side.from_step});
    to += side.to * out.strides()[d];
    from += side.from * in.strides()[d];
    is_empty |= side.size == 0;
  }
  copy.loop.collapse();
  copy.nbytes = itemsize(out.dtype());
  copy.to = out.data() + (is_empty ? 0 : to) * static_cast<std::int64_t>(copy.nbytes);
  copy.from = in.data() + (is_empty ? 0 : from) * static_cast<std::int64_t>(copy.nbytes);
  return copy;
}

std::vector<Side> whole_sides(const Shape& shape) {
  std::vector<Side> sides;
  for (const std::int64_t size : shape) sides.push_back({size});
  return sides;
}

void run_copies(const KernelCall& call, std::vector<detail::ElementsCopy> copies) {
  detail::enqueue(call, [copies = std::move(copies)] {
    for (const auto& copy : copies) copy.run();
  });
}

// Fills `out` with a number before the copies.
void run_filled(const KernelCall& call, const Scalar& value, const detail::ElementsCopy& copy) {
  const Tensor& out = call.outputs[0];
  detail::enqueue(call, [copy, whole = detail::whole_copy(out, out), element = detail::element_of(value, out.dtype())] {
    whole.fill(element.data());
    copy.run();
  });
}

Shape shape_of(std::span<const std::int64_t> sizes) { return Shape(sizes); }

tensor::Cost moving_cost(const Call& call) {
  tensor::Cost cost;
  for (const Tensor& input : call.inputs) cost.nbytes += 2 * detail::bytes_of(input);
  return cost;
}

// cat

std::size_t cat_dim(const Call& call) {
  TESSERA_CHECK_CALL(call, !call.inputs.empty(), "requires at least one tensor");
  TESSERA_CHECK_CALL(call, call.inputs[0].ndim() > 0, "tensors must have at least 1 dimension, got 0; stack adds one");
  return static_cast<std::size_t>(tensor::normalized_dim(call, call.as<CatAttributes>().dim, call.inputs[0].ndim()));
}

void infer_cat(const Call& call, std::span<OutputInfo> outputs) {
  const std::size_t dim = cat_dim(call);
  const Tensor& first = call.inputs[0];
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    const Tensor& x = call.inputs[i];
    TESSERA_CHECK_CALL(call, x, "tensor ", i, " of the list must be a tensor, got an empty handle");
    TESSERA_CHECK_CALL(call, x.dtype() == first.dtype(), "tensors must have the same dtype, got ", describe(first),
                       " first and ", describe(x), " as tensor ", i, "; cast one of them");
    bool is_alike = x.ndim() == first.ndim();
    for (std::size_t d = 0; is_alike && d < x.shape().size(); ++d) {
      is_alike = d == dim || x.shape()[d] == first.shape()[d];
    }
    TESSERA_CHECK_CALL(call, is_alike, "tensors must have equal sizes except in dimension ", dim, ", got ",
                       describe(first), " first and ", describe(x), " as tensor ", i);
    sum += x.shape()[dim];
  }
  IntList sizes;
  for (std::size_t d = 0; d < first.shape().size(); ++d) sizes.push_back(d == dim ? sum : first.shape()[d]);
  outputs[0] = {shape_of(sizes), first.dtype()};
}

void cat_kernel(const KernelCall& call) { run_copies(call, detail::cat_copies(call)); }

void cat_gradient(GradientCall& call) {
  std::int64_t start = 0;
  const std::int64_t dim = call.as<CatAttributes>().dim;
  for (int i = 0; i < call.inputs(); ++i) {
    const std::int64_t size = call.input_shape(i).dim(static_cast<int>(dim));
    if (call.needs(i)) call.set(i, narrow(call.grad(), dim, start, size));
    start += size;
  }
}

FactorRule rule_of_cat(const Call& call) {
  const std::size_t dim = cat_dim(call);
  FactorRule rule = detail::empty_rule("cat", call.inputs.size(), 1, detail::kMoves);
  for (std::size_t d = 0; d < call.inputs[0].shape().size(); ++d) {
    if (d != dim) {
      const std::int32_t factor = detail::add_factor(rule, FactorKind::kPass);
      for (auto& input : rule.inputs) input.push_back({factor});
      rule.outputs[0].push_back({factor});
      continue;
    }
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < call.inputs.size(); ++i) {
      detail::keep_whole(rule, rule.inputs[i], call.inputs[i].shape()[d]);
      sum += call.inputs[i].shape()[d];
    }
    detail::keep_whole(rule, rule.outputs[0], sum);
  }
  return rule;
}

// flip and roll

std::vector<bool> marked_dims(const Call& call, const IntList& dims) {
  const int ndim = call.inputs[0].ndim();
  std::vector<bool> marked(static_cast<std::size_t>(ndim));
  for (const std::int64_t dim : dims) {
    TESSERA_CHECK_CALL(call, ndim > 0, "x must have dimensions to move along, got a scalar and dimension ", dim);
    const auto d = static_cast<std::size_t>(tensor::normalized_dim(call, dim, ndim));
    TESSERA_CHECK_CALL(call, !marked[d], "dimensions must be distinct, got ", d, " twice");
    marked[d] = true;
  }
  return marked;
}

FactorRule reordering_rule(const Call& call, const IntList& dims) {
  const auto marked = marked_dims(call, dims);
  FactorRule rule = detail::empty_rule(call.op.name(), 1, 1, detail::kMoves);
  for (std::size_t d = 0; d < marked.size(); ++d) {
    detail::pass_dim(rule);
    if (marked[d] && call.inputs[0].shape()[d] > 1) rule.factors.back().kind = FactorKind::kPermuted;
  }
  return rule;
}

void infer_flip(const Call& call, std::span<OutputInfo> outputs) {
  marked_dims(call, call.as<FlipAttributes>().dims);
  outputs[0] = {call.inputs[0].shape(), call.inputs[0].dtype()};
}

void flip_kernel(const KernelCall& call) { run_copies(call, detail::flip_copies(call)); }

void flip_gradient(GradientCall& call) { call.set(0, flip(call.grad(), call.as<FlipAttributes>().dims)); }

FactorRule rule_of_flip(const Call& call) { return reordering_rule(call, call.as<FlipAttributes>().dims); }

void infer_roll(const Call& call, std::span<OutputInfo> outputs) {
  const auto& a = call.as<RollAttributes>();
  marked_dims(call, a.dims);
  TESSERA_CHECK_CALL(call, a.shifts.size() == a.dims.size(), "requires one shift per dimension, got ", a.shifts.size(),
                     " shifts for ", a.dims.size(), " dimensions");
  outputs[0] = {call.inputs[0].shape(), call.inputs[0].dtype()};
}

void roll_kernel(const KernelCall& call) { run_copies(call, detail::roll_copies(call)); }

void roll_gradient(GradientCall& call) {
  const auto& a = call.as<RollAttributes>();
  IntList back;
  for (const std::int64_t shift : a.shifts) back.push_back(-shift);
  call.set(0, roll(call.grad(), back, a.dims));
}

FactorRule rule_of_roll(const Call& call) { return reordering_rule(call, call.as<RollAttributes>().dims); }

// pad

void infer_pad(const Call& call, std::span<OutputInfo> outputs) {
  const auto& a = call.as<PadAttributes>();
  const Shape& shape = call.inputs[0].shape();
  TESSERA_CHECK_CALL(call, a.before.size() == shape.size() && a.after.size() == shape.size(),
                     "padding must have one entry per dimension (", shape.size(), ") before and after, got ",
                     a.before.size(), " and ", a.after.size());
  IntList sizes;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    TESSERA_CHECK_CALL(call, a.before[d] >= 0 && a.after[d] >= 0, "padding must be at least 0, got ", a.before[d],
                       " and ", a.after[d], " in dimension ", d, "; use slice to remove elements");
    sizes.push_back(a.before[d] + shape[d] + a.after[d]);
  }
  outputs[0] = {shape_of(sizes), call.inputs[0].dtype()};
}

void pad_kernel(const KernelCall& call) { run_filled(call, call.as<PadAttributes>().value, detail::pad_copy(call)); }

void pad_gradient(GradientCall& call) {
  const auto& a = call.as<PadAttributes>();
  Tensor grad = call.grad();
  // Sharded dimensions last, so that as little as possible is sent.
  for (const bool is_sharded : {false, true}) {
    for (std::size_t d = 0; d < a.before.size(); ++d) {
      const auto dim = static_cast<int>(d);
      if (a.before[d] + a.after[d] == 0) continue;
      if (is_sharded != (call.grad().has_layout() && !call.grad().layout().shardings(dim).empty())) continue;
      grad = narrow(grad, dim, a.before[d], call.input_shape(0)[d]);
    }
  }
  call.set(0, grad);
}

FactorRule rule_of_pad(const Call& call) {
  const auto& a = call.as<PadAttributes>();
  const Shape& shape = call.inputs[0].shape();
  FactorRule rule = detail::empty_rule("pad", 1, 1, detail::kMoves);
  if (a.value.as_bool()) rule.algebra[0].linearity = layout::Linearity::kNone;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (a.before[d] + a.after[d] == 0) {
      detail::pass_dim(rule);
    } else {
      detail::keep_whole(rule, rule.inputs[0], shape[d]);
      detail::keep_whole(rule, rule.outputs[0], a.before[d] + shape[d] + a.after[d]);
    }
  }
  return rule;
}

// unslice

std::size_t unslice_dim(const Call& call) {
  const auto& a = call.as<UnsliceAttributes>();
  TESSERA_CHECK_CALL(call, call.inputs[0].ndim() > 0, "x must have at least 1 dimension, got 0; unsqueeze adds one");
  return static_cast<std::size_t>(tensor::normalized_dim(call, a.dim, call.inputs[0].ndim()));
}

void infer_unslice(const Call& call, std::span<OutputInfo> outputs) {
  const auto& a = call.as<UnsliceAttributes>();
  const std::size_t dim = unslice_dim(call);
  const Shape& shape = call.inputs[0].shape();
  const bool fits = a.step >= 1 && a.start >= 0 &&
                    (shape[dim] == 0 || (a.start < a.size && (shape[dim] - 1) <= (a.size - 1 - a.start) / a.step));
  TESSERA_CHECK_CALL(call, fits, "slice must be in [0, ", a.size, "), got ", shape[dim], " indices from ", a.start,
                     " with step ", a.step);
  IntList sizes;
  for (std::size_t d = 0; d < shape.size(); ++d) sizes.push_back(d == dim ? a.size : shape[d]);
  outputs[0] = {shape_of(sizes), call.inputs[0].dtype()};
}

void unslice_kernel(const KernelCall& call) { run_filled(call, 0, detail::unslice_copy(call)); }

void unslice_gradient(GradientCall& call) {
  const auto& a = call.as<UnsliceAttributes>();
  const std::int64_t length = call.input_shape(0).dim(static_cast<int>(a.dim));
  const std::int64_t end = length == 0 ? a.start : a.start + (length - 1) * a.step + 1;
  call.set(0, slice(call.grad(), a.dim, a.start, end, a.step));
}

FactorRule rule_of_unslice(const Call& call) {
  const auto& a = call.as<UnsliceAttributes>();
  const std::size_t dim = unslice_dim(call);
  const Shape& shape = call.inputs[0].shape();
  FactorRule rule = detail::empty_rule("unslice", 1, 1, detail::kMoves);
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (d != dim || a.size == shape[d]) {
      detail::pass_dim(rule);
    } else {
      detail::keep_whole(rule, rule.inputs[0], shape[d]);
      detail::keep_whole(rule, rule.outputs[0], a.size);
    }
  }
  return rule;
}

// A dimension that only passes has its local size on each rank.
tensor::Attributes localize_unslice(const tensor::LocalizeCall& call) {
  UnsliceAttributes local = call.global.as<UnsliceAttributes>();
  local.size = call.outputs[0].shape[unslice_dim(call.global)];
  return tensor::Attributes(local);
}

const tensor::Operator kCat = tensor::register_op({.name = "cat",
                                                   .inputs = "tensors*",
                                                   .infer = infer_cat,
                                                   .host = cat_kernel,
                                                   .gradient = cat_gradient,
                                                   .rule = rule_of_cat,
                                                   .cost = moving_cost,
                                                   .rearrangement = detail::cat_rearrangement});
const tensor::Operator kFlip = tensor::register_op({.name = "flip",
                                                    .inputs = "x",
                                                    .infer = infer_flip,
                                                    .host = flip_kernel,
                                                    .gradient = flip_gradient,
                                                    .rule = rule_of_flip,
                                                    .cost = moving_cost,
                                                    .rearrangement = detail::flip_rearrangement});
const tensor::Operator kRoll = tensor::register_op({.name = "roll",
                                                    .inputs = "x",
                                                    .infer = infer_roll,
                                                    .host = roll_kernel,
                                                    .gradient = roll_gradient,
                                                    .rule = rule_of_roll,
                                                    .cost = moving_cost,
                                                    .rearrangement = detail::roll_rearrangement});
const tensor::Operator kPad = tensor::register_op({.name = "pad",
                                                   .inputs = "x",
                                                   .infer = infer_pad,
                                                   .host = pad_kernel,
                                                   .gradient = pad_gradient,
                                                   .rule = rule_of_pad,
                                                   .cost = moving_cost,
                                                   .rearrangement = detail::pad_rearrangement});
const tensor::Operator kUnslice = tensor::register_op({.name = "unslice",
                                                       .inputs = "x",
                                                       .infer = infer_unslice,
                                                       .host = unslice_kernel,
                                                       .gradient = unslice_gradient,
                                                       .rule = rule_of_unslice,
                                                       .localize = localize_unslice,
                                                       .cost = moving_cost,
                                                       .rearrangement = detail::unslice_rearrangement});

}  // namespace

std::vector<detail::ElementsCopy> detail::cat_copies(const KernelCall& call) {
  const std::size_t dim = cat_dim(call);
  std::vector<ElementsCopy> copies;
  std::int64_t start = 0;
  for (const Tensor& x : call.inputs) {
    auto sides = whole_sides(x.shape());
    sides[dim].to = start;
    start += x.shape()[dim];
    if (x.numel() > 0) copies.push_back(copy_of(call.outputs[0], x, sides));
  }
  return copies;
}

std::vector<detail::ElementsCopy> detail::flip_copies(const KernelCall& call) {
  const Tensor& x = call.inputs[0];
  const auto marked = marked_dims(call, call.as<FlipAttributes>().dims);
  auto sides = whole_sides(x.shape());
  for (std::size_t d = 0; d < sides.size(); ++d) {
    if (marked[d]) sides[d] = {x.shape()[d], 0, x.shape()[d] - 1, 1, -1};
  }
  if (x.numel() == 0) return {};
  return {copy_of(call.outputs[0], x, sides)};
}

// Each shifted dimension splits every rectangle in two: the elements that move up, and those that wrap to the front.
std::vector<detail::ElementsCopy> detail::roll_copies(const KernelCall& call) {
  const auto& a = call.as<RollAttributes>();
  const Tensor& x = call.inputs[0];
  if (x.numel() == 0) return {};
  std::vector<std::vector<Side>> parts = {whole_sides(x.shape())};
  for (std::size_t i = 0; i < a.dims.size(); ++i) {
    const auto d = static_cast<std::size_t>(tensor::normalized_dim(call, a.dims[i], x.ndim()));
    const std::int64_t size = x.shape()[d];
    const std::int64_t shift = (a.shifts[i] % size + size) % size;
    if (shift == 0) continue;
    std::vector<std::vector<Side>> split;
    for (auto& sides : parts) {
      sides[d] = {size - shift, shift, 0};
      split.push_back(sides);
      sides[d] = {shift, 0, size - shift};
      split.push_back(sides);
    }
    parts = std::move(split);
  }
  std::vector<ElementsCopy> copies;
  for (const auto& sides : parts) copies.push_back(copy_of(call.outputs[0], x, sides));
  return copies;
}

detail::ElementsCopy detail::pad_copy(const KernelCall& call) {
  const auto& a = call.as<PadAttributes>();
  auto sides = whole_sides(call.inputs[0].shape());
  for (std::size_t d = 0; d < sides.size(); ++d) sides[d].to = a.before[d];
  return copy_of(call.outputs[0], call.inputs[0], sides);
}

detail::ElementsCopy detail::unslice_copy(const KernelCall& call) {
  const auto& a = call.as<UnsliceAttributes>();
  auto sides = whole_sides(call.inputs[0].shape());
  Side& side = sides[unslice_dim(call)];
  side.to = a.start;
  side.to_step = a.step;
  return copy_of(call.outputs[0], call.inputs[0], sides);
}

Tensor cat(std::span<const Tensor> tensors, std::int64_t dim) {
  TESSERA_CHECK(!tensors.empty(), "cat: requires at least one tensor");
  Tensor out;
  tensor::call_into({kCat, tensors, CatAttributes{dim}, std::span(&out, 1)});
  return out;
}

Tensor cat(std::initializer_list<Tensor> tensors, std::int64_t dim) {
  return cat(std::span(tensors.begin(), tensors.size()), dim);
}

Tensor stack(std::span<const Tensor> tensors, std::int64_t dim) {
  TESSERA_CHECK(!tensors.empty(), "stack: requires at least one tensor");
  const std::int64_t at = dim < 0 ? dim + tensors[0].ndim() + 1 : dim;
  std::vector<Tensor> raised;
  for (const Tensor& x : tensors) {
    TESSERA_CHECK(x.shape() == tensors[0].shape(), "stack: tensors must have the same shape, got ",
                  describe(tensors[0]), " and ", describe(x));
    raised.push_back(unsqueeze(x, at));
  }
  return tensor::call_as("stack", [&] { return cat(raised, at); });
}
Tensor stack(std::initializer_list<Tensor> tensors, std::int64_t dim) {
  return stack(std::span(tensors.begin(), tensors.size()), dim);
}

Tensor flip(const Tensor& x, const IntList& dims) { return tensor::call(kFlip, {x}, FlipAttributes{dims}); }

Tensor roll(const Tensor& x, const IntList& shifts, const IntList& dims) {
  return tensor::call(kRoll, {x}, RollAttributes{shifts, dims});
}

Tensor pad(const Tensor& x, const IntList& padding, const Scalar& value) {
  const std::size_t ndim = x.shape().size();
  TESSERA_CHECK(padding.size() % 2 == 0 && padding.size() / 2 <= ndim,
                "pad: padding must have two values per dimension of ", describe(x), ", last dimension first, got ",
                padding.size(), " values");
  PadAttributes attributes;
  attributes.value = value;
  for (std::size_t d = 0; d < ndim; ++d) {
    const std::size_t at = 2 * (ndim - 1 - d);
    attributes.before.push_back(at < padding.size() ? padding[at] : 0);
    attributes.after.push_back(at < padding.size() ? padding[at + 1] : 0);
  }
  return tensor::call(kPad, {x}, attributes);
}

Tensor unslice(const Tensor& x, std::int64_t dim, std::int64_t size, std::int64_t start, std::int64_t step) {
  return tensor::call(kUnslice, {x}, UnsliceAttributes{dim, size, start, step});
}

}  // namespace tessera::ops
