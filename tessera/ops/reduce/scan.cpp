// cumsum, which adds up along lines, and histc, which counts.
#include <mutex>
#include <vector>

#include "tessera/ops/detail/dtype_checks.h"
#include "tessera/ops/detail/enqueue.h"
#include "tessera/ops/detail/parallel.h"
#include "tessera/ops/reduce/detail/reduce_dims.h"
#include "tessera/ops/reduce/reduce.h"
#include "tessera/ops/shape/arrange.h"
#include "tessera/ops/shape/detail/rule_parts.h"

namespace tessera::ops {
namespace {

using layout::FactorKind;
using layout::FactorRule;
using tensor::Call;
using tensor::GradientCall;
using tensor::KernelCall;
using tensor::OutputInfo;

// cumsum

void infer_cumsum(const Call& call, std::span<OutputInfo> outputs) {
  const Tensor& x = call.inputs[0];
  detail::check_computable(call, x);
  TESSERA_CHECK_CALL(call, !is_complex(x.dtype()), "does not compute in ", x.dtype());
  tensor::normalized_dim(call, call.as<CumsumAttributes>().dim, x.ndim());
  outputs[0] = {x.shape(), is_floating(x.dtype()) ? x.dtype() : DType::kI64};
}

struct Cumsum {
  detail::StridedLoop<2> lines;  // result, input
  std::int64_t length = 1;
  std::int64_t to_step = 0;
  std::int64_t from_step = 0;
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  DType in = DType::kF32;
  DType out = DType::kF32;

  template <class T, class W>
  void line(std::byte* result, const std::byte* x) const {
    constexpr std::int64_t kTile = 512;
    T tile[kTile];
    W sum = 0;
    for (std::int64_t start = 0; start < length; start += kTile) {
      const std::int64_t n = std::min(kTile, length - start);
      detail::load(tile, x + start * from_step * static_cast<std::int64_t>(itemsize(in)), in, from_step, n);
      for (std::int64_t i = 0; i < n; ++i) {
        sum += static_cast<W>(tile[i]);
        tile[i] = static_cast<T>(sum);
      }
      detail::store(tile, result + start * to_step * static_cast<std::int64_t>(itemsize(out)), out, to_step, n);
    }
  }

  template <class T, class W>
  void run() const {
    const auto to_bytes = static_cast<std::int64_t>(itemsize(out));
    const auto from_bytes = static_cast<std::int64_t>(itemsize(in));
    detail::parallel_for(lines.numel(), detail::rows_per_piece(length), [&](std::int64_t begin, std::int64_t end) {
      lines.for_runs(begin, end, [&](const auto& at, std::int64_t n) {
        for (std::int64_t i = 0; i < n; ++i) {
          line<T, W>(to + (at[0] + i * lines.step(0)) * to_bytes, from + (at[1] + i * lines.step(1)) * from_bytes);
        }
      });
    });
  }

  void operator()() const {
    if (lines.numel() == 0 || length == 0) return;
    switch (detail::compute_of(in)) {
      case detail::Compute::kF64: return run<double, double>();
      case detail::Compute::kI64: return run<std::int64_t, std::int64_t>();
      default: return run<float, double>();
    }
  }
};

void cumsum_kernel(const KernelCall& call) {
  const Tensor& x = call.inputs[0];
  const Tensor& out = call.outputs[0];
  const auto dim = static_cast<std::size_t>(tensor::normalized_dim(call, call.as<CumsumAttributes>().dim, x.ndim()));
  Cumsum kernel;
  for (std::size_t d = 0; d < x.shape().size(); ++d) {
    if (d == dim) {
      kernel.length = x.shape()[d];
      kernel.from_step = x.strides()[d];
      kernel.to_step = out.strides()[d];
    } else {
      kernel.lines.add(x.shape()[d], {out.strides()[d], x.strides()[d]});
    }
  }
  kernel.lines.collapse();
  kernel.from = x.data();
  kernel.to = out.data();
  kernel.in = x.dtype();
  kernel.out = out.dtype();
  detail::enqueue(call, std::move(kernel));
}

void cumsum_gradient(GradientCall& call) {
  const std::int64_t dim = call.as<CumsumAttributes>().dim;
  if (call.input_shape(0).size() == 0) return call.set(0, call.grad());
  call.set(0, flip(cumsum(flip(call.grad(), {dim}), dim), {dim}));
}

FactorRule rule_of_cumsum(const Call& call) {
  const int dim = tensor::normalized_dim(call, call.as<CumsumAttributes>().dim, call.inputs[0].ndim());
  FactorRule rule = detail::empty_rule("cumsum", 1, 1, {layout::Linearity::kJoint, layout::Monotony::kNone});
  for (int d = 0; d < call.inputs[0].ndim(); ++d) {
    detail::pass_dim(rule);
    if (d == dim) rule.factors.back().kind = FactorKind::kReplicate;
  }
  return rule;
}

tensor::Cost cumsum_cost(const Call& call) {
  tensor::Cost cost = detail::reduce_cost(call);
  cost.nbytes *= 2;
  return cost;
}

// histc

void infer_histc(const Call& call, std::span<OutputInfo> outputs) {
  const auto& a = call.as<HistcAttributes>();
  detail::check_computable(call, call.inputs[0]);
  TESSERA_CHECK_CALL(call, !is_complex(call.inputs[0].dtype()), "complex numbers have no order");
  TESSERA_CHECK_CALL(call, a.bins >= 1, a.bins, " bins: at least 1");
  TESSERA_CHECK_CALL(call, a.low < a.high, "from ", a.low, " to ", a.high, " there is nothing to cut into bins");
  outputs[0] = {Shape({a.bins}), DType::kI64};
}

struct Histogram {
  detail::StridedLoop<1> loop;
  const std::byte* from = nullptr;
  std::int64_t* to = nullptr;
  std::int64_t to_step = 1;
  DType in = DType::kF32;
  HistcAttributes of;

  void count(const double* values, std::int64_t n, std::vector<std::int64_t>& counts) const {
    const double scale = static_cast<double>(of.bins) / (of.high - of.low);
    for (std::int64_t i = 0; i < n; ++i) {
      if (!(values[i] >= of.low && values[i] <= of.high)) continue;
      const auto bin = static_cast<std::int64_t>((values[i] - of.low) * scale);
      ++counts[static_cast<std::size_t>(std::min(bin, of.bins - 1))];
    }
  }

  void operator()() const {
    constexpr std::int64_t kTile = 512;
    std::vector<std::int64_t> all(static_cast<std::size_t>(of.bins));
    std::mutex mutex;  // for all: counts add up the same in any order
    detail::parallel_for(loop.numel(), 65536, [&](std::int64_t begin, std::int64_t end) {
      std::vector<std::int64_t> counts(all.size());
      double tile[kTile];
      loop.for_runs(begin, end, [&](const auto& at, std::int64_t n) {
        for (std::int64_t i = 0; i < n; i += kTile) {
          const std::int64_t some = std::min(kTile, n - i);
          const std::int64_t offset = at[0] + i * loop.step(0);
          detail::load(tile, from + offset * static_cast<std::int64_t>(itemsize(in)), in, loop.step(0), some);
          count(tile, some, counts);
        }
      });
      const std::lock_guard lock(mutex);
      for (std::size_t i = 0; i < all.size(); ++i) all[i] += counts[i];
    });
    for (std::int64_t i = 0; i < of.bins; ++i) to[i * to_step] = all[static_cast<std::size_t>(i)];
  }
};

void histc_kernel(const KernelCall& call) {
  const Tensor& x = call.inputs[0];
  Histogram kernel;
  for (std::size_t d = 0; d < x.shape().size(); ++d) kernel.loop.add(x.shape()[d], {x.strides()[d]});
  kernel.loop.collapse();
  kernel.from = x.data();
  kernel.to = call.outputs[0].data_as<std::int64_t>();
  kernel.to_step = call.outputs[0].strides()[0];
  kernel.in = x.dtype();
  kernel.of = call.as<HistcAttributes>();
  detail::enqueue(call, std::move(kernel));
}

FactorRule rule_of_histc(const Call& call) {
  FactorRule rule = detail::empty_rule("histc", 1, 1);
  for (int d = 0; d < call.inputs[0].ndim(); ++d) {
    rule.inputs[0].push_back({detail::add_factor(rule, FactorKind::kReduce)});
  }
  detail::keep_whole(rule, rule.outputs[0], call.as<HistcAttributes>().bins);
  return rule;
}

const tensor::Operator kCumsum = tensor::register_op({.name = "cumsum",
                                                      .inputs = "x",
                                                      .infer = infer_cumsum,
                                                      .host = cumsum_kernel,
                                                      .gradient = cumsum_gradient,
                                                      .rule = rule_of_cumsum,
                                                      .cost = cumsum_cost});
const tensor::Operator kHistc = tensor::register_op({.name = "histc",
                                                     .inputs = "x",
                                                     .infer = infer_histc,
                                                     .host = histc_kernel,
                                                     .rule = rule_of_histc,
                                                     .cost = detail::reduce_cost});

}  // namespace

Tensor cumsum(const Tensor& x, std::int64_t dim) { return tensor::call(kCumsum, {x}, CumsumAttributes{dim}); }
Tensor histc(const Tensor& x, std::int64_t bins, double low, double high) {
  return tensor::call(kHistc, {x}, HistcAttributes{bins, low, high});
}

}  // namespace tessera::ops
