// tril and triu. The kept elements depend on the global row and column, so that each rank uses the index maps of its
// dimensions.
#include "tessera/ops/detail/enqueue.h"
#include "tessera/ops/detail/rows_per_piece.h"
#include "tessera/ops/parallel.h"
#include "tessera/ops/shape/arrange.h"
#include "tessera/ops/shape/detail/byte_count.h"
#include "tessera/ops/shape/detail/copy_elements.h"
#include "tessera/ops/shape/detail/rule_parts.h"
#include "tessera/tensor/call.h"

namespace tessera::ops {
namespace {

using layout::IndexMap;
using tensor::Call;
using tensor::GradientCall;
using tensor::KernelCall;
using tensor::OutputInfo;

bool is_default(const IndexMap& map) { return map == IndexMap(); }

void infer_triangle(const Call& call, std::span<OutputInfo> outputs) {
  const Tensor& x = call.inputs[0];
  TESSERA_CHECK_CALL(call, x.ndim() >= 2, "x must have at least 2 dimensions, got ", x.ndim());
  const auto& a = call.as<TriangleAttributes>();
  TESSERA_CHECK_CALL(call, is_default(a.rows) || a.rows.size() == x.size(-2), "row map must have ", x.size(-2),
                     " rows, got ", a.rows.size());
  TESSERA_CHECK_CALL(call, is_default(a.columns) || a.columns.size() == x.size(-1), "column map must have ", x.size(-1),
                     " columns, got ", a.columns.size());
  outputs[0] = {x.shape(), x.dtype()};
}

IndexMap map_or_whole(const IndexMap& map, std::int64_t size) {
  if (!is_default(map)) return map;
  IndexMap whole;
  whole.block = size;
  return whole;
}

struct TriangleKernel {
  detail::StridedLoop<3> loop;  // out, in, row number
  std::byte* to = nullptr;
  const std::byte* from = nullptr;
  std::size_t nbytes = 4;
  std::int64_t diagonal = 0;
  IndexMap rows;
  IndexMap columns;
  bool is_lower = true;

  // Copies or clears the local columns from `begin` to `end`.
  void stretch(const std::array<std::int64_t, 3>& at, std::int64_t begin, std::int64_t end, bool is_kept) const {
    static constexpr std::byte kZero[16] = {};
    const auto bytes = static_cast<std::int64_t>(nbytes);
    std::byte* out = to + (at[0] + begin * loop.step(0)) * bytes;
    if (is_kept) {
      const std::byte* in = from + (at[1] + begin * loop.step(1)) * bytes;
      detail::copy_row(out, loop.step(0), in, loop.step(1), nbytes, end - begin);
    } else {
      detail::fill_row(out, loop.step(0), kZero, nbytes, end - begin);
    }
  }

  void row(const std::array<std::int64_t, 3>& at) const {
    const std::int64_t last = rows.global(at[2]) + diagonal - (is_lower ? 0 : 1);  // last column of the lower triangle
    const std::int64_t n = loop.inner();
    if (columns.is_contiguous()) {
      const std::int64_t border = std::clamp<std::int64_t>(last - columns.offset + 1, 0, n);
      stretch(at, 0, border, is_lower);
      stretch(at, border, n, !is_lower);
      return;
    }
    for (std::int64_t j = 0; j < n; ++j) stretch(at, j, j + 1, (columns.global(j) <= last) == is_lower);
  }

  void operator()() const {
    if (loop.inner() == 0) return;
    detail::parallel_for(loop.rows(), detail::rows_per_piece(loop.inner()), [&](std::int64_t begin, std::int64_t end) {
      loop.for_rows(begin, end, [&](const auto& at) { row(at); });
    });
  }
};

void run_triangle(const KernelCall& call, bool is_lower) {
  const auto& a = call.as<TriangleAttributes>();
  const Tensor& x = call.inputs[0];
  const Tensor& out = call.outputs[0];
  TriangleKernel kernel;
  for (std::size_t d = 0; d < x.shape().size(); ++d) {
    const bool is_row = d + 2 == x.shape().size();
    kernel.loop.add(x.shape()[d], {out.strides()[d], x.strides()[d], is_row ? 1 : 0});
  }
  kernel.to = out.data();
  kernel.from = x.data();
  kernel.nbytes = itemsize(x.dtype());
  kernel.diagonal = a.diagonal;
  kernel.rows = map_or_whole(a.rows, x.size(-2));
  kernel.columns = map_or_whole(a.columns, x.size(-1));
  kernel.is_lower = is_lower;
  detail::enqueue(call, std::move(kernel));
}

void tril_kernel(const KernelCall& call) { run_triangle(call, true); }
void triu_kernel(const KernelCall& call) { run_triangle(call, false); }
void tril_gradient(GradientCall& call) { call.set(0, tril(call.grad(), call.as<TriangleAttributes>().diagonal)); }
void triu_gradient(GradientCall& call) { call.set(0, triu(call.grad(), call.as<TriangleAttributes>().diagonal)); }

layout::FactorRule rule_of_triangle(const Call& call) {
  const Shape shapes[] = {call.inputs[0].shape()};
  return layout::pointwise_rule(call.op.name(), shapes, detail::kMoves);
}

tensor::Attributes localize_triangle(const tensor::LocalizeCall& call) {
  TriangleAttributes local = call.global.as<TriangleAttributes>();
  const auto& index = call.inputs[0].index;
  local.rows = index[index.size() - 2];
  local.columns = index[index.size() - 1];
  return tensor::Attributes(local);
}

tensor::Cost triangle_cost(const Call& call) { return {.flops = 0, .nbytes = 2 * detail::bytes_of(call.inputs[0])}; }

const tensor::Operator kTril = tensor::register_op({.name = "tril",
                                                    .inputs = "x",
                                                    .infer = infer_triangle,
                                                    .host = tril_kernel,
                                                    .gradient = tril_gradient,
                                                    .rule = rule_of_triangle,
                                                    .localize = localize_triangle,
                                                    .cost = triangle_cost,
                                                    .traits = {.is_pointwise = true}});
const tensor::Operator kTriu = tensor::register_op({.name = "triu",
                                                    .inputs = "x",
                                                    .infer = infer_triangle,
                                                    .host = triu_kernel,
                                                    .gradient = triu_gradient,
                                                    .rule = rule_of_triangle,
                                                    .localize = localize_triangle,
                                                    .cost = triangle_cost,
                                                    .traits = {.is_pointwise = true}});

}  // namespace

Tensor tril(const Tensor& x, std::int64_t diagonal) {
  return tensor::call(kTril, {x}, TriangleAttributes{diagonal, {}, {}});
}
Tensor triu(const Tensor& x, std::int64_t diagonal) {
  return tensor::call(kTriu, {x}, TriangleAttributes{diagonal, {}, {}});
}

}  // namespace tessera::ops
