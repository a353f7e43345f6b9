#include "tessera/ops/nn/rope.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numbers>

#include "tessera/ops/detail/dtype_checks.h"
#include "tessera/ops/detail/enqueue.h"
#include "tessera/ops/detail/rows_per_piece.h"
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
  TESSERA_CHECK_CALL(call, positions.dtype() == DType::kI64 || positions.dtype() == DType::kI32, "positions are ",
                     positions.dtype(), ", not i64 or i32");
  const bool is_list = positions.shape() == Shape({x.size(dim)});
  const bool is_batched = dim > 0 && positions.shape() == Shape({x.size(0), x.size(dim)});
  TESSERA_CHECK_CALL(call, is_list || is_batched, "positions are ", positions.shape(), ", not [", x.size(dim), "] or [",
                     x.size(0), ", ", x.size(dim), "]");
}

void infer(const Call& call, std::span<tensor::OutputInfo> outputs) {
  const Tensor& x = call.inputs[0];
  const auto& how = call.as<RopeAttributes>();
  detail::check_floating(call, call.inputs[0]);
  TESSERA_CHECK_CALL(call, x.ndim() >= 2, "takes [..., positions, vectors]");
  const int dim = dim_of(call);
  TESSERA_CHECK_CALL(call, dim != x.ndim() - 1, "the last dimension holds the vectors, not the positions");
  const std::int64_t width = how.width == 0 ? x.size(-1) : how.width;
  TESSERA_CHECK_CALL(call, width >= 0 && width % 2 == 0 && width <= x.size(-1), "rotates pairs of ", width, " of ",
                     x.size(-1), " elements");
  TESSERA_CHECK_CALL(call, how.base > 0 && how.factor > 0, "base ", how.base, " and factor ", how.factor,
                     " must be positive");
  TESSERA_CHECK_CALL(call, how.original_context == 0 || how.high_turns > how.low_turns, "high_turns ", how.high_turns,
                     " is not above low_turns ", how.low_turns);
  check_positions(call, dim);
  outputs[0] = {x.shape(), x.dtype(), 0};
}

// How far each pair turns for one step of position.
std::vector<double> frequencies(const RopeAttributes& how, std::int64_t width) {
  std::vector<double> all;
  for (std::int64_t i = 0; i < width / 2; ++i) {
    const double frequency = std::pow(how.base, -2.0 * static_cast<double>(i) / static_cast<double>(width));
    double share = 1;  // of the slowed angle
    if (how.original_context > 0) {
      const double turns = static_cast<double>(how.original_context) * frequency / (2 * std::numbers::pi);
      share = std::clamp((how.high_turns - turns) / (how.high_turns - how.low_turns), 0.0, 1.0);
    }
    all.push_back(frequency * (share / how.factor + 1 - share));
  }
  return all;
}

struct Rotation {
  Rows x, out, positions;
  RopeAttributes how;
  std::int64_t width = 0;
  std::int64_t sequence = 0;   // size of dim
  std::int64_t inner = 1;      // rows between neighbours along dim
  std::int64_t per_batch = 0;  // rows of one index of dimension 0, where positions are given for each; else 0

  // The global position at an index of dim, for a row.
  [[nodiscard]] std::int64_t position(std::int64_t row) const {
    const std::int64_t at = row / inner % sequence;
    if (positions.has_rows()) {
      std::int64_t one[1];
      return *positions.read((per_batch > 0 ? row / per_batch * sequence : 0) + at, one);
    }
    return how.offset + (how.index.empty() ? at : how.index[0].global(at));
  }
};

// Cosines and sines of one position, in double, rounded once.
template <class T>
void fill_angles(const std::vector<double>& frequency, std::int64_t position, bool is_inverse, T* cosines, T* sines) {
  for (std::size_t i = 0; i < frequency.size(); ++i) {
    const double angle = static_cast<double>(position) * frequency[i];
    cosines[i] = static_cast<T>(std::cos(angle));
    sines[i] = static_cast<T>(is_inverse ? -std::sin(angle) : std::sin(angle));
  }
}

template <class T>
void rotate(const Rotation& of, const T* x, const T* cosines, const T* sines, T* out) {
  const std::int64_t pairs = of.width / 2;
  const std::int64_t step = of.how.is_interleaved ? 2 : 1;
  const std::int64_t apart = of.how.is_interleaved ? 1 : pairs;
  for (std::int64_t i = 0; i < pairs; ++i) {
    const T a = x[i * step];
    const T b = x[i * step + apart];
    out[i * step] = a * cosines[i] - b * sines[i];
    out[i * step + apart] = b * cosines[i] + a * sines[i];
  }
  std::copy(x + of.width, x + of.x.length(), out + of.width);
}

// Angles are made once a position and kept while rows share it; rows in memory order are walked position by position.
template <class T>
void run(const Rotation& of) {
  const std::vector<double> frequency = frequencies(of.how, of.width);
  const auto pairs = static_cast<std::int64_t>(frequency.size());
  const std::int64_t n = of.x.length();
  // A table for all positions where every batch and head has the same ones.
  const std::int64_t tables = of.per_batch > 0 ? of.x.count() / of.per_batch * of.sequence : of.sequence;
  std::vector<T> angles(static_cast<std::size_t>(2 * pairs * tables));
  const std::int64_t rows_of_batch = of.per_batch > 0 ? of.per_batch : of.x.count();
  detail::parallel_for(tables, detail::rows_per_piece(8 * pairs), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t row = i / of.sequence * rows_of_batch + i % of.sequence * of.inner;
      T* at = angles.data() + i * 2 * pairs;
      fill_angles(frequency, of.position(row), of.how.is_inverse, at, at + pairs);
    }
  });
  detail::for_row_pieces<T>(of.x.count(), n, 2, [&](std::int64_t begin, std::int64_t end, T* scratch) {
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t table = row / rows_of_batch * of.sequence + row / of.inner % of.sequence;
      const T* at = angles.data() + table * 2 * pairs;
      rotate(of, of.x.read(row, scratch), at, at + pairs, of.out.begin_write(row, scratch + n));
      of.out.finish(row, scratch + n);
    }
  });
}

void kernel(const KernelCall& call) {
  const Tensor& x = call.inputs[0];
  if (x.numel() == 0) return;
  const int dim = dim_of(call);
  auto of = std::make_shared<Rotation>();
  of->x = Rows(x, x.ndim() - 1);
  of->out = Rows(call.outputs[0], x.ndim() - 1);
  of->positions = Rows(call.inputs[1], -1);
  of->how = call.as<RopeAttributes>();
  of->width = of->how.width == 0 ? x.size(-1) : of->how.width;
  of->sequence = x.size(dim);
  for (int i = dim + 1; i < x.ndim() - 1; ++i) of->inner *= x.size(i);
  if (call.inputs[1] && call.inputs[1].ndim() == 2) of->per_batch = of->x.count() / x.size(0);
  detail::with_floating(x.dtype(), [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    detail::enqueue(call, [of = std::shared_ptr<const Rotation>(of)] { run<T>(*of); });
  });
}

// Passes everywhere but inside the vectors.
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

// A part of the positions is told where it lies.
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
