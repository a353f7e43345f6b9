#include "tessera/ops/nn/rope.h"

#include <algorithm>
#include <memory>

#include "tessera/ops/detail/dtype_checks.h"
#include "tessera/ops/detail/enqueue.h"
#include "tessera/ops/nn/detail/rope_angles.h"
#include "tessera/ops/nn/detail/row_kernels.h"
#include "tessera/ops/nn/detail/row_rule.h"
#include "tessera/ops/nn/detail/rows.h"
#include "tessera/tensor/call.h"

namespace tessera::ops {
namespace {

using detail::Rows;
using tensor::Call;
using tensor::GradientCall;
using tensor::KernelCall;

int dim_of(const Call& call) {
  return tensor::normalized_dim(call, call.as<RopeAttributes>().dim, call.inputs[0].ndim());
}

void check_positions(const Call& call, int dim) {
  const Tensor& positions = call.inputs[1];
  if (!positions) return;
  const Tensor& x = call.inputs[0];
  TESSERA_CHECK_CALL(call, positions.dtype() == DType::kI64 || positions.dtype() == DType::kI32,
                     "positions must be i64 or i32, got ", positions.dtype());
  const bool is_list = positions.shape() == Shape({x.size(dim)});
  const bool is_batched = dim > 0 && positions.shape() == Shape({x.size(0), x.size(dim)});
  TESSERA_CHECK_CALL(call, is_list || is_batched, "positions must have shape [", x.size(dim), "] or [", x.size(0), ", ",
                     x.size(dim), "], got ", positions.shape());
}

void infer(const Call& call, std::span<tensor::OutputInfo> outputs) {
  const Tensor& x = call.inputs[0];
  const auto& how = call.as<RopeAttributes>();
  detail::check_floating(call, call.inputs[0]);
  TESSERA_CHECK_CALL(call, x.ndim() >= 2, "x must have shape [..., positions, width], got ", x.shape());
  const int dim = dim_of(call);
  TESSERA_CHECK_CALL(call, dim != x.ndim() - 1, "dim must not be the last dimension, which holds the vectors");
  const std::int64_t width = how.width == 0 ? x.size(-1) : how.width;
  TESSERA_CHECK_CALL(call, width >= 0 && width % 2 == 0 && width <= x.size(-1), "width must be even and in [0, ",
                     x.size(-1), "], got ", width);
  TESSERA_CHECK_CALL(call, how.base > 0 && how.factor > 0, "base and factor must be positive, got ", how.base, " and ",
                     how.factor);
  TESSERA_CHECK_CALL(call, how.original_context == 0 || how.high_turns > how.low_turns,
                     "high_turns must be above low_turns (", how.low_turns, "), got ", how.high_turns);
  check_positions(call, dim);
  outputs[0] = {x.shape(), x.dtype(), 0};
}

// Rows of x and of the result, in the memory order of the result. Strides are in elements; those of angles are in
// values of the table.
class RowWalk {
 public:
  struct Offsets {
    std::int64_t x = 0;
    std::int64_t out = 0;
    std::int64_t angles = 0;
  };

  // `angle_steps` holds the stride of each dimension except the last.
  RowWalk(const Tensor& x, const Tensor& out, std::span<const std::int64_t> angle_steps) {
    for (std::size_t d = 0; d + 1 < x.shape().size(); ++d) {
      if (x.shape()[d] == 1) continue;
      dims_.push_back({x.shape()[d], {x.strides()[d], out.strides()[d], angle_steps[d]}});
      count_ *= x.shape()[d];
    }
    if (dims_.empty()) dims_.push_back({1, {}});
    std::ranges::stable_sort(dims_, [](const Dim& a, const Dim& b) { return a.step.out > b.step.out; });
  }

  [[nodiscard]] std::int64_t count() const { return count_; }
  // Returns the strides of the innermost dimension.
  [[nodiscard]] const Offsets& step() const { return dims_.back().step; }

  // Calls body(offsets, n) for runs of n rows, step() apart, that cover the rows [begin, end).
  template <class F>
  void for_stretches(std::int64_t begin, std::int64_t end, const F& body) const {
    const Dim& inner = dims_.back();
    while (begin < end) {
      Offsets at;
      std::int64_t rest = begin;
      std::int64_t in_inner = 0;
      for (std::size_t d = dims_.size(); d-- > 0;) {
        const std::int64_t index = rest % dims_[d].size;
        rest /= dims_[d].size;
        if (d + 1 == dims_.size()) in_inner = index;
        at.x += index * dims_[d].step.x;
        at.out += index * dims_[d].step.out;
        at.angles += index * dims_[d].step.angles;
      }
      const std::int64_t n = std::min(inner.size - in_inner, end - begin);
      body(at, n);
      begin += n;
    }
  }

 private:
  struct Dim {
    std::int64_t size;
    Offsets step;
  };
  std::vector<Dim> dims_;  // outer to inner
  std::int64_t count_ = 1;
};

struct Rotation {
  RowWalk walk;
  const std::byte* x;
  std::byte* out;
  DType dtype;
  std::int64_t x_step;    // stride along a vector
  std::int64_t out_step;  // stride along a vector
  std::int64_t length;    // length of a vector
  std::int64_t width;
  std::int64_t sequence;   // size of dim
  std::int64_t positions;  // number of positions with separate angles
  Rows given;              // one position each, if positions are given
  RopeAttributes how;

  [[nodiscard]] std::int64_t given_position(std::int64_t i) const {
    std::int64_t one[1];
    return *given.read(i, one);
  }
};

template <class T>
void run(const Rotation& of) {
  const detail::AngleTable<T> angles =
      of.given.has_rows() ? detail::angles_of_positions<T>(of.how, of.width, of.positions,
                                                           [&](std::int64_t i) { return of.given_position(i); })
                          : detail::angles_of_sequence<T>(of.how, of.width, of.sequence);
  const auto& kernels = detail::row_kernels<T>();
  const auto item = static_cast<std::int64_t>(itemsize(of.dtype));
  const bool is_dense = of.dtype == dtype_of<T>() && of.x_step == 1 && of.out_step == 1;
  detail::RotatedRows<T> rows = {.length = of.length,
                                 .pairs = of.width / 2,
                                 .is_interleaved = of.how.is_interleaved,
                                 .is_inverse = of.how.is_inverse};
  detail::for_row_pieces<T>(of.walk.count(), of.length, 2, [&, rows](std::int64_t begin, std::int64_t end, T* scratch) {
    detail::RotatedRows<T> some = rows;
    of.walk.for_stretches(begin, end, [&](const RowWalk::Offsets& at, std::int64_t n) {
      const RowWalk::Offsets& step = of.walk.step();
      if (is_dense) {
        some.x = reinterpret_cast<const T*>(of.x) + at.x;
        some.out = reinterpret_cast<T*>(of.out) + at.out;
        some.angles = angles->data() + at.angles;
        some.x_step = step.x;
        some.out_step = step.out;
        some.angle_step = step.angles;
        some.count = n;
        kernels.rotate(some);
        return;
      }
      some.x = scratch;
      some.out = scratch + of.length;
      some.count = 1;
      for (std::int64_t i = 0; i < n; ++i) {
        detail::load(scratch, of.x + (at.x + i * step.x) * item, of.dtype, of.x_step, of.length);
        some.angles = angles->data() + at.angles + i * step.angles;
        kernels.rotate(some);
        detail::store(some.out, of.out + (at.out + i * step.out) * item, of.dtype, of.out_step, of.length);
      }
    });
  });
}

void kernel(const KernelCall& call) {
  const Tensor& x = call.inputs[0];
  const Tensor& out = call.outputs[0];
  const Tensor& positions = call.inputs[1];
  if (x.numel() == 0) return;
  const auto dim = static_cast<std::size_t>(dim_of(call));
  const auto& how = call.as<RopeAttributes>();
  const std::int64_t width = how.width == 0 ? x.size(-1) : how.width;
  const bool is_batched = positions && positions.ndim() == 2;
  std::vector<std::int64_t> angle_steps(x.shape().size());
  angle_steps[dim] = width;
  if (is_batched) angle_steps[0] = width * x.shape()[dim];
  auto of = std::make_shared<const Rotation>(Rotation{.walk = RowWalk(x, out, angle_steps),
                                                      .x = x.data(),
                                                      .out = out.data(),
                                                      .dtype = x.dtype(),
                                                      .x_step = x.strides()[x.shape().size() - 1],
                                                      .out_step = out.strides()[x.shape().size() - 1],
                                                      .length = x.size(-1),
                                                      .width = width,
                                                      .sequence = x.shape()[dim],
                                                      .positions = x.shape()[dim] * (is_batched ? x.size(0) : 1),
                                                      .given = Rows(positions, -1),
                                                      .how = how});
  detail::with_floating(x.dtype(), [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    detail::enqueue(call, [of] { run<T>(*of); });
  });
}

// Passes in all dimensions except the last.
layout::FactorRule rule(const Call& call) {
  const int ndim = call.inputs[0].ndim();
  detail::RowRule rows(call, ndim, ndim - 1);
  rows.add_input_whole(layout::Linearity::kMulti);
  rows.add_input_absent();
  rows.add_output_whole();
  layout::FactorRule rule = rows.take();
  if (!call.inputs[1]) return rule;
  const int dim = dim_of(call);
  for (const int of : {0, dim}) {
    if (of == 0 && call.inputs[1].ndim() == 1) continue;
    layout::DimFactors factor;
    factor.push_back(of);
    rule.inputs[1].push_back(factor);
  }
  return rule;
}

// Passes the global indices of the local positions.
tensor::Attributes localize(const tensor::LocalizeCall& call) {
  RopeAttributes how = call.global.as<RopeAttributes>();
  const auto dim = static_cast<std::size_t>(dim_of(call.global));
  const layout::IndexMap& map = call.inputs[0].index[dim];
  const bool is_whole = map.is_contiguous() && map.offset == 0;
  if (!call.global.inputs[1] && !is_whole) how.index = {map};
  return tensor::Attributes(how);
}

tensor::Cost cost(const Call& call) { return detail::row_cost(call, 3); }

void gradient(GradientCall& call) {
  if (!call.needs(0)) return;
  RopeAttributes how = call.as<RopeAttributes>();
  how.is_inverse = !how.is_inverse;
  call.set(0, rope(call.grad(), how, call.input(1)));
}

const tensor::Operator kRope = tensor::register_op({.name = "rope",
                                                    .inputs = "x, positions?",
                                                    .infer = infer,
                                                    .host = kernel,
                                                    .gradient = gradient,
                                                    .saves = "positions",
                                                    .rule = rule,
                                                    .localize = localize,
                                                    .cost = cost});

}  // namespace

Tensor rope(const Tensor& x, const RopeAttributes& how, const Tensor& positions) {
  return tensor::call(kRope, {x, positions}, how);
}

}  // namespace tessera::ops
