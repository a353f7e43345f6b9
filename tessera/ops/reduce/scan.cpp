// cumsum, which sums along lines, and histc, which counts.
#include <mutex>
#include <vector>

#include "tessera/ops/create/create.h"
#include "tessera/ops/detail/dtype_checks.h"
#include "tessera/ops/detail/enqueue.h"
#include "tessera/ops/detail/rows_per_piece.h"
#include "tessera/ops/index/index.h"
#include "tessera/ops/parallel.h"
#include "tessera/ops/pointwise/compare.h"
#include "tessera/ops/pointwise/convert.h"
#include "tessera/ops/pointwise/pointwise.h"
#include "tessera/ops/reduce/detail/reduce_dims.h"
#include "tessera/ops/reduce/reduce.h"
#include "tessera/ops/shape/arrange.h"
#include "tessera/ops/shape/detail/rule_parts.h"
#include "tessera/ops/shape/shape.h"
#include "tessera/tensor/cooperation.h"

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
  TESSERA_CHECK_CALL(call, !is_complex(x.dtype()), "dtype must be real, got ", x.dtype(), "; sum real() and imag()");
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
    constexpr std::int64_t kScanTile = 512;
    T tile[kScanTile];
    W sum = 0;
    for (std::int64_t start = 0; start < length; start += kScanTile) {
      const std::int64_t n = std::min(kScanTile, length - start);
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
  if (call.as<CumsumAttributes>().is_reverse && kernel.length > 0) {
    kernel.from += (kernel.length - 1) * kernel.from_step * static_cast<std::int64_t>(itemsize(kernel.in));
    kernel.to += (kernel.length - 1) * kernel.to_step * static_cast<std::int64_t>(itemsize(kernel.out));
    kernel.from_step = -kernel.from_step;
    kernel.to_step = -kernel.to_step;
  }
  detail::enqueue(call, std::move(kernel));
}

Tensor call_cumsum(const Tensor& x, const CumsumAttributes& attributes);

void cumsum_gradient(GradientCall& call) {
  const auto& a = call.as<CumsumAttributes>();
  call.set(0, call_cumsum(call.grad(), {a.dim, !a.is_reverse}));
}

FactorRule rule_of_cumsum(const Call& call) {
  const int dim = tensor::normalized_dim(call, call.as<CumsumAttributes>().dim, call.inputs[0].ndim());
  FactorRule rule = detail::empty_rule("cumsum", 1, 1, {layout::Linearity::kJoint, layout::Monotony::kNone});
  for (int d = 0; d < call.inputs[0].ndim(); ++d) {
    detail::pass_dim(rule);
    if (d == dim) rule.factors.back().kind = FactorKind::kCooperate;
  }
  return rule;
}

// Along a sharded dimension: each rank sums its own elements, gathers the totals of all ranks, and adds those before
// its own. A shard is one run of indices, or several runs if the dimension is sharded in blocks: it has one total and
// one start per run.

using tensor::CooperativeCall;
using Tensors = std::vector<Tensor>;

struct Runs {
  int dim = 0;                       // dimension of the tensor
  std::int64_t most = 1;             // maximum number of runs of any rank
  std::int64_t length = 0;           // length of each run of this rank
  std::vector<std::int64_t> starts;  // starts of the runs of this rank
};

Runs runs_of(const CooperativeCall& call) {
  const Tensor& whole = call.global.inputs[0];
  Runs runs;
  runs.dim = tensor::normalized_dim(call.global, call.global.as<CumsumAttributes>().dim, whole.ndim());
  for (const layout::Sharding& sharding : whole.layout().shardings(runs.dim)) runs.most *= sharding.blocks;
  const layout::IndexMap& map = call.inputs[0].index[static_cast<std::size_t>(runs.dim)];
  runs.length = map.block;
  for (std::int64_t at = 0; at < map.size(); at += map.block) runs.starts.push_back(map.global(at));
  return runs;
}

// Returns the input in the dtype of the sums, with a dimension of runs before that of their elements.
Tensor by_runs(const CooperativeCall& call, const Runs& runs) {
  const Tensor& x = call.local.inputs[0];
  const bool is_wide = x.dtype() == DType::kF64 || x.dtype() == DType::kF32;
  const Tensor wide = is_wide ? x : cast(x, is_floating(x.dtype()) ? DType::kF32 : DType::kI64);
  const std::int64_t sizes[] = {static_cast<std::int64_t>(runs.starts.size()), runs.length};
  return unflatten(contiguous(wide), runs.dim, sizes);
}

// Missing runs have a total of 0, at the end.
Tensors part_totals(const CooperativeCall& call) {
  const Runs runs = runs_of(call);
  const CreateOptions options = {.dtype = DType::kI64, .device = call.local.inputs[0].device()};
  Tensors starts;
  for (const std::int64_t start : runs.starts) starts.push_back(full(Shape({1}), start, options));
  const std::int64_t missing = runs.most - static_cast<std::int64_t>(runs.starts.size());
  starts.push_back(full(Shape({missing}), INT64_MAX, options));
  const Tensor totals = sum(by_runs(call, runs), {runs.dim + 1});
  tensor::IntList padding;
  for (int d = totals.ndim() - 1; d >= runs.dim; --d) {
    padding.push_back(0);
    padding.push_back(d == runs.dim ? missing : 0);
  }
  return {pad(totals, padding), cat(starts)};
}

Tensors finish_cumsum(const CooperativeCall& call) {
  const Runs runs = runs_of(call);
  const Tensor& x = call.local.inputs[0];
  const DType dtype = is_floating(x.dtype()) ? x.dtype() : DType::kI64;
  const bool is_reverse = call.global.as<CumsumAttributes>().is_reverse;
  if (x.numel() == 0) return {cast(x, dtype)};
  const Tensor& totals = call.reduced[0];  // [ranks, ..., runs, ...]
  tensor::IntList sizes;
  for (int d = 0; d < totals.ndim(); ++d) sizes.push_back(d == 0 || d == runs.dim + 1 ? totals.size(d) : 1);
  const Tensor starts = view(call.reduced[1], sizes);
  Tensors before;  // for each run of this rank
  for (const std::int64_t start : runs.starts) {
    const Tensor is_behind = is_reverse ? le(starts, start) : ge(starts, start);
    before.push_back(sum(masked_fill(totals, is_behind, 0), {0, runs.dim + 1}));
  }
  const Tensor inside = call_cumsum(by_runs(call, runs), {runs.dim + 1, is_reverse});
  const Tensor sums = add(inside, unsqueeze(stack(before, runs.dim), runs.dim + 1));
  return {cast(reshape(sums, x.shape().values()), dtype)};
}

const tensor::Cooperation kCumsumTogether = {{{part_totals, {}}}, finish_cumsum};

tensor::Cost cumsum_cost(const Call& call) {
  tensor::Cost cost = detail::reduce_cost(call);
  cost.nbytes *= 2;
  return cost;
}

// histc

void infer_histc(const Call& call, std::span<OutputInfo> outputs) {
  const auto& a = call.as<HistcAttributes>();
  detail::check_computable(call, call.inputs[0]);
  TESSERA_CHECK_CALL(call, !is_complex(call.inputs[0].dtype()), "dtype must be real, got ", call.inputs[0].dtype(),
                     "; take abs() or real() first");
  TESSERA_CHECK_CALL(call, a.bins >= 1, "bins must be at least 1, got ", a.bins);
  TESSERA_CHECK_CALL(call, a.low < a.high, "low must be below high, got low ", a.low, " and high ", a.high);
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
    constexpr std::int64_t kScanTile = 512;
    std::vector<std::int64_t> all(static_cast<std::size_t>(of.bins));
    std::mutex mutex;  // protects the counts; their sums do not depend on the order
    detail::parallel_for(loop.numel(), 65536, [&](std::int64_t begin, std::int64_t end) {
      std::vector<std::int64_t> counts(all.size());
      double tile[kScanTile];
      loop.for_runs(begin, end, [&](const auto& at, std::int64_t n) {
        for (std::int64_t i = 0; i < n; i += kScanTile) {
          const std::int64_t some = std::min(kScanTile, n - i);
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
                                                      .cost = cumsum_cost,
                                                      .cooperation = &kCumsumTogether});
const tensor::Operator kHistc = tensor::register_op({.name = "histc",
                                                     .inputs = "x",
                                                     .infer = infer_histc,
                                                     .host = histc_kernel,
                                                     .rule = rule_of_histc,
                                                     .cost = detail::reduce_cost});

Tensor call_cumsum(const Tensor& x, const CumsumAttributes& attributes) {
  return tensor::call(kCumsum, {x}, attributes);
}

}  // namespace

Tensor cumsum(const Tensor& x, std::int64_t dim) { return call_cumsum(x, {dim}); }
Tensor histc(const Tensor& x, std::int64_t bins, double low, double high) {
  return tensor::call(kHistc, {x}, HistcAttributes{bins, low, high});
}

}  // namespace tessera::ops
