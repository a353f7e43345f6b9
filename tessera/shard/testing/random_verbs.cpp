// The kinds of lines in random programs.
#include <array>

#include "tessera/base/error.h"
#include "tessera/ops/index/index.h"
#include "tessera/ops/matrix/matrix.h"
#include "tessera/ops/nn/attention.h"
#include "tessera/ops/nn/cross_entropy.h"
#include "tessera/ops/nn/dropout.h"
#include "tessera/ops/nn/norm.h"
#include "tessera/ops/nn/rope.h"
#include "tessera/ops/nn/softmax.h"
#include "tessera/ops/pointwise/activations.h"
#include "tessera/ops/pointwise/compare.h"
#include "tessera/ops/pointwise/convert.h"
#include "tessera/ops/pointwise/functions.h"
#include "tessera/ops/pointwise/pointwise.h"
#include "tessera/ops/reduce/reduce.h"
#include "tessera/ops/shape/arrange.h"
#include "tessera/ops/shape/shape.h"
#include "tessera/shard/redistribute.h"
#include "tessera/shard/testing/random_program.h"

namespace tessera::shard::testing {
namespace {

using tensor::IntList;
using tessera::detail::concat;
using In = ProgramVerb::In;
using Tensors = std::vector<Tensor>;
using Sizes = std::vector<std::int64_t>;
using Verbs = std::vector<ProgramVerb>;
using Write = std::function<bool(ProgramBuilder&)>;

IntList list_of(const Sizes& numbers) {
  IntList list;
  for (const std::int64_t number : numbers) list.push_back(number);
  return list;
}
Shape shape_of(const Sizes& sizes) { return Shape(std::span<const std::int64_t>(sizes)); }
Sizes sizes_of(const Shape& shape) { return {shape.begin(), shape.end()}; }
std::string text_of(const Sizes& numbers) { return concat(shape_of(numbers)); }

// A line with one existing tensor.
Write about_one(int min_dims, const std::function<bool(ProgramBuilder&, std::size_t)>& write) {
  return [=](ProgramBuilder& b) {
    const std::int64_t x = b.some(min_dims);
    return x >= 0 && write(b, static_cast<std::size_t>(x));
  };
}

Write unary(const char* name, Tensor (*op)(const Tensor&)) {
  return about_one(0, [=](ProgramBuilder& b, std::size_t x) {
    return b.line(name, {x}, [op](const Tensors& in) { return op(in[0]); });
  });
}

// Returns a tensor of the same shape, or a new one that broadcasts.
std::size_t partner(ProgramBuilder& b, std::size_t x) {
  if (b.chance(60)) return b.like(b.shape(x), x);
  if (b.chance(10)) return x;
  Sizes sizes = sizes_of(b.shape(x));
  for (std::int64_t& size : sizes) size = b.chance(30) ? 1 : size;
  sizes.erase(sizes.begin(), sizes.begin() + b.pick(static_cast<std::int64_t>(sizes.size()) + 1));
  if (sizes.empty()) sizes.push_back(1);
  return b.leaf(shape_of(sizes));
}

Write binary(const char* name, Tensor (*op)(const Tensor&, const Tensor&)) {
  return about_one(0, [=](ProgramBuilder& b, std::size_t x) {
    const std::size_t y = partner(b, x);
    const bool is_turned = b.chance(30);
    return b.line(name, {is_turned ? y : x, is_turned ? x : y}, [op](const Tensors& in) { return op(in[0], in[1]); });
  });
}

template <class F>
Write reduction(const char* name, F op) {
  return about_one(0, [=](ProgramBuilder& b, std::size_t x) {
    const Sizes dims = b.dims_of(x);
    const bool keepdim = b.chance(40);
    return b.line(
        name, {x}, [=](const Tensors& in) { return op(in[0], list_of(dims), keepdim); },
        concat(text_of(dims), keepdim ? ", keepdim" : ""));
  });
}

template <class F>
Write along_one(const char* name, F op) {
  return about_one(1, [=](ProgramBuilder& b, std::size_t x) {
    const std::int64_t dim = b.dim_of(x);
    return b.line(
        name, {x}, [=](const Tensors& in) { return op(in[0], dim); }, concat(dim));
  });
}

void add_pointwise(Verbs& to) {
  to.push_back({In::kBoth, binary("add", ops::add)});
  to.push_back({In::kBoth, binary("sub", ops::sub)});
  to.push_back({In::kBoth, binary("mul", ops::mul)});
  to.push_back({In::kBoth, unary("neg", ops::neg)});
  to.push_back({In::kBoth, unary("clone", ops::clone)});
  to.push_back({In::kBoth, unary("square", ops::square)});
  to.push_back({In::kBoth, unary("add_1", [](const Tensor& x) { return ops::add(x, 1.0); })});
  to.push_back({In::kBoth, unary("mul_2", [](const Tensor& x) { return ops::mul(x, 2.0); })});
  to.push_back(
      {In::kBoth, about_one(0, [](ProgramBuilder& b, std::size_t x) {
         const std::size_t mask = b.mask(b.shape(x));
         const std::size_t y = partner(b, x);
         return b.line("where", {mask, x, y}, [](const Tensors& in) { return ops::where(in[0], in[1], in[2]); });
       })});
  to.push_back({In::kBoth, about_one(0, [](ProgramBuilder& b, std::size_t x) {
                  return b.line("masked_fill", {x, b.mask(b.shape(x))},
                                [](const Tensors& in) { return ops::masked_fill(in[0], in[1], 3.0); });
                })});
  to.push_back({In::kExact, unary("relu", ops::relu)});
  to.push_back({In::kExact, unary("abs", ops::abs)});
  to.push_back({In::kExact, unary("sign", ops::sign)});
  to.push_back({In::kExact, binary("maximum", ops::maximum)});
  to.push_back({In::kExact, binary("minimum", ops::minimum)});
  to.push_back({In::kExact, binary("where_gt", [](const Tensor& a, const Tensor& b) {
                  return ops::where(ops::gt(a, b), a, ops::mul(b, 3.0));
                })});
  to.push_back({In::kExact, unary("remainder_5", [](const Tensor& x) { return ops::remainder(x, 5.0); })});
  to.push_back(
      {In::kExact, unary("cast", [](const Tensor& x) { return ops::cast(ops::cast(x, DType::kF32), DType::kF64); })});
  const std::pair<const char*, Tensor (*)(const Tensor&)> functions[] = {
      {"tanh", ops::tanh}, {"sigmoid", ops::sigmoid},   {"gelu", ops::gelu}, {"gelu_tanh", ops::gelu_tanh},
      {"silu", ops::silu}, {"softplus", ops::softplus}, {"exp", ops::exp},   {"sin", ops::sin},
      {"erf", ops::erf}};
  for (const auto& [name, op] : functions) {
    to.push_back({In::kSmooth, unary(name, op)});
  }
  to.push_back({In::kSmooth, binary("swiglu", ops::swiglu)});
  to.push_back({In::kSmooth, binary("div", [](const Tensor& a, const Tensor& b) {
                  return ops::div(a, ops::add(ops::square(b), 1.0));
                })});
  to.push_back({In::kSmooth, binary("lerp", [](const Tensor& a, const Tensor& b) { return ops::lerp(a, b, 0.3); })});
  to.push_back({In::kSmooth, unary("dropout", [](const Tensor& x) { return ops::dropout(x, 0.3); })});
}

void add_reductions(Verbs& to) {
  const auto sum = [](const Tensor& x, const IntList& dims, bool keepdim) { return ops::sum(x, dims, keepdim); };
  to.push_back({In::kBoth, reduction("sum", sum)});
  to.push_back({In::kBoth, along_one("cumsum", ops::cumsum)});
  to.push_back({In::kExact, reduction("amax", ops::amax)});
  to.push_back({In::kExact, reduction("amin", ops::amin)});
  const auto as_reals = [](const Tensor& x) { return ops::cast(x, DType::kF64); };
  to.push_back({In::kExact, reduction("any", [=](const Tensor& x, const IntList& dims, bool keepdim) {
                  return as_reals(ops::any(ops::gt(x, 0.0), dims, keepdim));
                })});
  to.push_back({In::kExact,
                along_one("argmax", [=](const Tensor& x, std::int64_t dim) { return as_reals(ops::argmax(x, dim)); })});
  to.push_back({In::kExact, along_one("argmin", [=](const Tensor& x, std::int64_t dim) {
                  return as_reals(ops::argmin(x, dim, true));
                })});
  to.push_back(
      {In::kExact, along_one("sort", [](const Tensor& x, std::int64_t dim) { return ops::sort(x, dim).first; })});
  to.push_back({In::kExact, along_one("topk", [](const Tensor& x, std::int64_t dim) {
                  return ops::topk(x, (x.shape()[static_cast<std::size_t>(dim)] + 1) / 2, dim).first;
                })});
  to.push_back({In::kExact,
                unary("histc", [](const Tensor& x) { return ops::cast(ops::histc(x, 4, -4.0, 4.0), DType::kF64); })});
  to.push_back({In::kSmooth, reduction("mean", ops::mean)});
  to.push_back({In::kSmooth, reduction("logsumexp", ops::logsumexp)});
  to.push_back({In::kSmooth, reduction("norm", [](const Tensor& x, const IntList& dims, bool keepdim) {
                  return ops::norm(x, 2, dims, keepdim);
                })});
  to.push_back({In::kSmooth, reduction("var", [](const Tensor& x, const IntList& dims, bool keepdim) {
                  return ops::var(x, dims, 0, keepdim);
                })});
  to.push_back({In::kSmooth, along_one("softmax", ops::softmax)});
  to.push_back({In::kSmooth, along_one("log_softmax", ops::log_softmax)});
}

// Writes a reshape: two dimensions merged, or one split in two.
bool write_reshape(ProgramBuilder& b, std::size_t x) {
  Sizes sizes = sizes_of(b.shape(x));
  if (sizes.size() >= 2 && b.chance(50)) {
    const auto at = static_cast<std::size_t>(b.pick(static_cast<std::int64_t>(sizes.size()) - 1));
    sizes[at] *= sizes[at + 1];
    sizes.erase(sizes.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  } else {
    const auto at = static_cast<std::size_t>(b.dim_of(x));
    const std::int64_t by = 2 + b.pick(3);
    if (sizes[at] == 0 || sizes[at] % by != 0) return false;
    sizes[at] /= by;
    sizes.insert(sizes.begin() + static_cast<std::ptrdiff_t>(at) + b.pick(2), by);
  }
  return b.line(
      "reshape", {x}, [=](const Tensors& in) { return ops::reshape(in[0], sizes); }, text_of(sizes));
}

bool write_permute(ProgramBuilder& b, std::size_t x) {
  Sizes dims;
  for (std::int64_t d = 0; d < b.shape(x).ndim(); ++d) dims.insert(dims.begin() + b.pick(d + 1), d);
  return b.line(
      "permute", {x}, [=](const Tensors& in) { return ops::permute(in[0], list_of(dims)); }, text_of(dims));
}

bool write_expand(ProgramBuilder& b, std::size_t x) {
  const std::int64_t at = b.pick(b.shape(x).ndim() + 1);
  Sizes sizes = sizes_of(b.shape(x));
  sizes.insert(sizes.begin() + at, 1 + b.pick(4));
  return b.line(
      "expand", {x}, [=](const Tensors& in) { return ops::expand(ops::unsqueeze(in[0], at), sizes); }, text_of(sizes));
}

bool write_slice(ProgramBuilder& b, std::size_t x) {
  const std::int64_t dim = b.dim_of(x);
  const std::int64_t size = b.shape(x)[static_cast<std::size_t>(dim)];
  if (size == 0) return false;
  const std::int64_t start = b.pick(size);
  const std::int64_t end = start + 1 + b.pick(size - start);
  const std::int64_t step = 1 + b.pick(2);
  return b.line(
      "slice", {x}, [=](const Tensors& in) { return ops::slice(in[0], dim, start, end, step); },
      concat(dim, ", ", start, ", ", end, ", ", step));
}

bool write_cat(ProgramBuilder& b, std::size_t x) {
  const std::int64_t dim = b.dim_of(x);
  std::vector<std::size_t> all = {x, b.like(b.shape(x), x)};
  if (b.chance(30)) all.push_back(x);
  return b.line(
      "cat", all, [=](const Tensors& in) { return ops::cat(in, dim); }, concat(dim));
}

bool write_pad(ProgramBuilder& b, std::size_t x) {
  Sizes padding;
  for (std::int64_t i = 0; i < 2 * b.shape(x).ndim(); ++i) padding.push_back(b.pick(3));
  return b.line(
      "pad", {x}, [=](const Tensors& in) { return ops::pad(in[0], list_of(padding), 2.0); }, text_of(padding));
}

void add_shapes(Verbs& to) {
  to.push_back({In::kBoth, about_one(1, write_reshape)});
  to.push_back({In::kBoth, about_one(1, write_reshape)});
  to.push_back({In::kBoth, about_one(2, write_permute)});
  to.push_back({In::kBoth, about_one(0, write_expand)});
  to.push_back({In::kBoth, about_one(1, write_slice)});
  to.push_back({In::kBoth, about_one(1, write_cat)});
  to.push_back({In::kBoth, about_one(1, write_pad)});
  to.push_back({In::kBoth, unary("squeeze", [](const Tensor& x) { return ops::squeeze(x); })});
  to.push_back({In::kBoth, along_one("unsqueeze", ops::unsqueeze)});
  to.push_back({In::kBoth, along_one("select", [](const Tensor& x, std::int64_t dim) {
                  return ops::select(x, dim, x.shape()[static_cast<std::size_t>(dim)] / 2);
                })});
  to.push_back(
      {In::kBoth, along_one("flip", [](const Tensor& x, std::int64_t dim) { return ops::flip(x, list_of({dim})); })});
  to.push_back({In::kBoth, along_one("roll", [](const Tensor& x, std::int64_t dim) {
                  return ops::roll(x, list_of({2}), list_of({dim}));
                })});
  to.push_back({In::kBoth, along_one("last_chunk",
                                     [](const Tensor& x, std::int64_t dim) { return ops::chunk(x, 2, dim).back(); })});
  to.push_back({In::kBoth, along_one("stack", [](const Tensor& x, std::int64_t dim) {
                  const Tensor both[] = {x, x};
                  return ops::stack(both, dim);
                })});
  to.push_back({In::kBoth, about_one(2, [](ProgramBuilder& b, std::size_t x) {
                  const std::int64_t diagonal = b.pick(5) - 2;
                  return b.line(
                      "tril", {x}, [=](const Tensors& in) { return ops::tril(in[0], diagonal); }, concat(diagonal));
                })});
  // Redistributes to any layout, at explicit points of the program.
  const Write moves = about_one(1, [](ProgramBuilder& b, std::size_t x) {
    const layout::Layout layout = b.layout(b.shape(x), 20);
    const auto move = [=](const Tensors& in) { return in[0].has_layout() ? redistribute(in[0], layout) : in[0]; };
    return b.line("redistribute", {x}, move, layout.placements_text());
  });
  to.insert(to.end(), 3, {In::kBoth, moves});
}

bool write_index_select(ProgramBuilder& b, std::size_t x) {
  const std::int64_t dim = b.dim_of(x);
  const std::int64_t size = b.shape(x)[static_cast<std::size_t>(dim)];
  if (size == 0) return false;
  const std::size_t index = b.indices(Shape{1 + b.pick(6)}, size);
  return b.line(
      "index_select", {x, index}, [=](const Tensors& in) { return ops::index_select(in[0], dim, in[1]); }, concat(dim));
}

bool write_gather(ProgramBuilder& b, std::size_t x) {
  const std::int64_t dim = b.dim_of(x);
  Sizes sizes = sizes_of(b.shape(x));
  const std::int64_t size = sizes[static_cast<std::size_t>(dim)];
  if (size == 0) return false;
  sizes[static_cast<std::size_t>(dim)] = 1 + b.pick(5);
  const std::size_t index = b.indices(shape_of(sizes), size);
  if (b.chance(50)) {
    return b.line(
        "gather", {x, index}, [=](const Tensors& in) { return ops::gather(in[0], dim, in[1]); }, concat(dim));
  }
  return b.line(
      "scatter_add", {x, index, b.leaf(shape_of(sizes))},
      [=](const Tensors& in) { return ops::scatter_add(in[0], dim, in[1], in[2]); }, concat(dim));
}

bool write_index_add(ProgramBuilder& b, std::size_t x) {
  const std::int64_t dim = b.dim_of(x);
  Sizes sizes = sizes_of(b.shape(x));
  const std::int64_t size = sizes[static_cast<std::size_t>(dim)];
  if (size == 0) return false;
  const std::int64_t count = sizes[static_cast<std::size_t>(dim)] = 1 + b.pick(5);
  const std::size_t index = b.indices(Shape{count}, size);
  return b.line(
      "index_add", {x, index, b.leaf(shape_of(sizes))},
      [=](const Tensors& in) { return ops::index_add(in[0], dim, in[1], in[2]); }, concat(dim));
}

bool write_embedding(ProgramBuilder& b, std::size_t x) {
  if (b.shape(x).ndim() != 2 || b.shape(x)[0] == 0) return false;
  const std::size_t index = b.indices(b.chance(50) ? Shape{5} : Shape{2, 4}, b.shape(x)[0]);
  return b.line("embedding", {x, index}, [](const Tensors& in) { return ops::embedding(in[0], in[1]); });
}

void add_index(Verbs& to) {
  to.push_back({In::kBoth, about_one(1, write_index_select)});
  to.push_back({In::kBoth, about_one(1, write_gather)});
  to.push_back({In::kBoth, about_one(1, write_index_add)});
  to.push_back({In::kBoth, about_one(2, write_embedding)});
}

bool write_linear(ProgramBuilder& b, std::size_t x) {
  const std::int64_t in_features = b.shape(x)[b.shape(x).size() - 1];
  const std::int64_t features = 1 + b.pick(8);
  std::vector<std::size_t> inputs = {x, b.leaf(Shape{features, in_features})};
  if (b.chance(50)) inputs.push_back(b.leaf(Shape{features}));
  return b.line("linear", inputs,
                [](const Tensors& in) { return ops::linear(in[0], in[1], in.size() > 2 ? in[2] : Tensor()); });
}

bool write_matmul(ProgramBuilder& b, std::size_t x) {
  Sizes sizes = sizes_of(b.shape(x));
  std::swap(sizes[sizes.size() - 1], sizes[sizes.size() - 2]);
  sizes.back() = 1 + b.pick(7);
  return b.line("matmul", {x, b.leaf(shape_of(sizes))}, [](const Tensors& in) { return ops::matmul(in[0], in[1]); });
}

bool write_gram(ProgramBuilder& b, std::size_t x) {
  return b.line("gram", {x}, [](const Tensors& in) { return ops::matmul(in[0], ops::transpose(in[0], -1, -2)); });
}

bool write_norm(ProgramBuilder& b, std::size_t x) {
  const std::int64_t features = b.shape(x)[b.shape(x).size() - 1];
  if (features < 2) return false;
  std::vector<std::size_t> inputs = {x, b.leaf(Shape{features})};
  if (b.chance(50)) {
    return b.line("rms_norm", inputs, [](const Tensors& in) { return ops::rms_norm(in[0], in[1], 0.1); });
  }
  inputs.push_back(b.leaf(Shape{features}));
  return b.line("layer_norm", inputs, [](const Tensors& in) { return ops::layer_norm(in[0], in[1], in[2], 0.1); });
}

bool write_cross_entropy(ProgramBuilder& b, std::size_t x) {
  Sizes rows = sizes_of(b.shape(x));
  const std::int64_t last = rows.back();
  rows.pop_back();
  if (last < 1) return false;
  static constexpr std::array<const char*, 3> kReductions = {"mean", "sum", "none"};
  const ops::CrossEntropyAttributes how{.label_smoothing = b.chance(30) ? 0.1 : 0.0,
                                        .reduction = kReductions[static_cast<std::size_t>(b.pick(3))]};
  if (b.chance(50)) {
    return b.line(
        "cross_entropy", {x, b.indices(shape_of(rows), last)},
        [=](const Tensors& in) { return ops::cross_entropy(in[0], in[1], how); }, how.reduction);
  }
  const std::int64_t classes = 2 + b.pick(9);
  return b.line(
      "linear_cross_entropy", {x, b.leaf(Shape{classes, last}), b.indices(shape_of(rows), classes)},
      [=](const Tensors& in) { return ops::linear_cross_entropy(in[0], in[1], in[2], how); }, how.reduction);
}

bool write_attention(ProgramBuilder& b, std::size_t x) {
  const Shape& of = b.shape(x);
  const Shape heads = of.ndim() == 3 ? Shape{1, of[0], of[1], of[2]} : Shape{of[0], 1, of[1], 1};
  if (heads.numel() != of.numel() || heads.numel() == 0) return false;
  const std::size_t k = b.leaf(heads);
  const std::size_t v = b.leaf(heads);
  const bool is_causal = b.chance(50);
  const Sizes sizes = sizes_of(heads);
  const auto run = [=](const Tensors& in) {
    return ops::scaled_dot_product_attention(ops::reshape(in[0], sizes), in[1], in[2], {.is_causal = is_causal});
  };
  return b.line("attention", {x, k, v}, run, is_causal ? "causal" : "");
}

bool write_rope(ProgramBuilder& b, std::size_t x) {
  if (b.shape(x)[b.shape(x).size() - 1] % 2 != 0) return false;
  const bool is_interleaved = b.chance(50);
  return b.line("rope", {x}, [=](const Tensors& in) { return ops::rope(in[0], {.is_interleaved = is_interleaved}); });
}

void add_nn(Verbs& to) {
  to.insert(to.end(), 2, {In::kBoth, about_one(1, write_linear)});
  to.insert(to.end(), 2, {In::kBoth, about_one(2, write_matmul)});
  to.push_back({In::kBoth, about_one(2, write_gram)});
  to.insert(to.end(), 2, {In::kSmooth, about_one(1, write_norm)});
  to.insert(to.end(), 2, {In::kSmooth, about_one(2, write_cross_entropy)});
  to.push_back({In::kSmooth, about_one(2, write_attention)});
  to.push_back({In::kSmooth, about_one(2, write_rope)});
}

}  // namespace

const std::vector<ProgramVerb>& program_verbs() {
  static const Verbs all = [] {
    Verbs verbs;
    add_pointwise(verbs);
    add_reductions(verbs);
    add_shapes(verbs);
    add_index(verbs);
    add_nn(verbs);
    return verbs;
  }();
  return all;
}

}  // namespace tessera::shard::testing
