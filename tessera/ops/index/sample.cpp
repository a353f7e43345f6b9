// multinomial. With replacement it inverts the cumulative probabilities at uniform numbers. Without replacement each
// class draws an exponential time with its probability as the rate, and the earliest classes win.
#include <algorithm>
#include <cmath>
#include <vector>

#include "tessera/ops/create/random.h"
#include "tessera/ops/detail/dtype_checks.h"
#include "tessera/ops/detail/enqueue.h"
#include "tessera/ops/detail/rows_per_piece.h"
#include "tessera/ops/index/index.h"
#include "tessera/ops/parallel.h"
#include "tessera/ops/pointwise/convert.h"
#include "tessera/ops/pointwise/functions.h"
#include "tessera/ops/pointwise/pointwise.h"
#include "tessera/ops/reduce/detail/reduce_dims.h"
#include "tessera/ops/shape/detail/byte_count.h"
#include "tessera/ops/shape/detail/rule_parts.h"
#include "tessera/ops/shape/shape.h"

namespace tessera::ops {
namespace {

using tensor::Call;
using tensor::KernelCall;
using tensor::OutputInfo;

void infer_sample(const Call& call, std::span<OutputInfo> outputs) {
  const Tensor& p = call.inputs[0];
  const Tensor& u = call.inputs[1];
  detail::check_floating(call, p);
  detail::check_floating(call, u);
  TESSERA_CHECK_CALL(call, p.ndim() >= 1 && p.ndim() == u.ndim(),
                     "probabilities and uniforms must have the same number of dimensions, at least 1, got ", p.ndim(),
                     " and ", u.ndim());
  for (int d = 0; d + 1 < p.ndim(); ++d) {
    TESSERA_CHECK_CALL(call, p.size(d) == u.size(d), "probabilities and uniforms must have equal sizes in dimension ",
                       d, ", got ", p.size(d), " and ", u.size(d));
  }
  TESSERA_CHECK_CALL(call, p.size(-1) > 0 || u.numel() == 0, "probabilities must have at least one class");
  outputs[0] = {u.shape(), DType::kI64};
}

struct Sampler {
  detail::StridedLoop<3> lines;  // result, probabilities, uniform numbers
  std::int64_t classes = 0;
  std::int64_t count = 0;
  std::array<std::int64_t, 3> step{};
  std::int64_t* to = nullptr;
  const std::byte* probabilities = nullptr;
  const std::byte* uniforms = nullptr;
  DType p_dtype = DType::kF32;
  DType u_dtype = DType::kF32;

  void line(const std::array<std::int64_t, 3>& at, std::vector<double>& sums, std::vector<double>& u) const {
    const auto bytes = static_cast<std::int64_t>(itemsize(p_dtype));
    detail::load(sums.data(), probabilities + at[1] * bytes, p_dtype, step[1], classes);
    double sum = 0;
    for (double& entry : sums) {
      TESSERA_CHECK(entry >= 0 && std::isfinite(entry),
                    "sample_index: a probability must be finite and at least 0, got ", entry);
      entry = sum += entry;
    }
    TESSERA_CHECK(sum > 0, "sample_index: at least one of the ", classes, " probabilities must be positive");
    const auto u_bytes = static_cast<std::int64_t>(itemsize(u_dtype));
    detail::load(u.data(), uniforms + at[2] * u_bytes, u_dtype, step[2], count);
    for (std::int64_t i = 0; i < count; ++i) {
      // Never exceeds the last class with a nonzero probability, whatever u was rounded to.
      const auto last = std::ranges::lower_bound(sums, sum);
      const auto found = std::ranges::upper_bound(sums, u[static_cast<std::size_t>(i)] * sum);
      to[at[0] + i * step[0]] = std::min(found, last) - sums.begin();
    }
  }

  void operator()() const {
    if (count == 0) return;
    detail::parallel_for(
        lines.numel(), detail::rows_per_piece(classes + count), [&](std::int64_t begin, std::int64_t end) {
          std::vector<double> sums(static_cast<std::size_t>(classes));
          std::vector<double> u(static_cast<std::size_t>(count));
          lines.for_runs(begin, end, [&](const auto& at, std::int64_t n) {
            for (std::int64_t i = 0; i < n; ++i) {
              line({at[0] + i * lines.step(0), at[1] + i * lines.step(1), at[2] + i * lines.step(2)}, sums, u);
            }
          });
        });
  }
};

void sample_kernel(const KernelCall& call) {
  const Tensor& p = call.inputs[0];
  const Tensor& u = call.inputs[1];
  const Tensor& out = call.outputs[0];
  Sampler kernel;
  const std::size_t last = p.shape().size() - 1;
  const auto strides = [&](std::size_t d) {
    return std::array<std::int64_t, 3>{out.strides()[d], p.strides()[d], u.strides()[d]};
  };
  for (std::size_t d = 0; d < last; ++d) kernel.lines.add(p.shape()[d], strides(d));
  kernel.lines.collapse();
  kernel.classes = p.shape()[last];
  kernel.count = u.shape()[last];
  kernel.step = strides(last);
  kernel.to = out.data_as<std::int64_t>();
  kernel.probabilities = p.data();
  kernel.uniforms = u.data();
  kernel.p_dtype = p.dtype();
  kernel.u_dtype = u.dtype();
  detail::enqueue(call, std::move(kernel));
}

layout::FactorRule rule_of_sample(const Call& call) {
  layout::FactorRule rule = detail::empty_rule("sample_index", 2, 1);
  for (int d = 0; d + 1 < call.inputs[0].ndim(); ++d) {
    const std::int32_t factor = detail::add_factor(rule, layout::FactorKind::kPass);
    for (auto* operand : {&rule.inputs[0], &rule.inputs[1], &rule.outputs[0]}) operand->push_back({factor});
  }
  detail::keep_whole(rule, rule.inputs[0], call.inputs[0].size(-1));
  detail::pass_dim(rule, 1, 0);
  return rule;
}

tensor::Cost sample_cost(const Call& call) {
  return {.flops = static_cast<double>(call.inputs[0].numel()),
          .nbytes = detail::bytes_of(call.inputs[0]) + detail::bytes_of(call.inputs[1]) * 2};
}

const tensor::Operator kSampleIndex = tensor::register_op({.name = "sample_index",
                                                           .inputs = "probabilities, uniforms",
                                                           .infer = infer_sample,
                                                           .host = sample_kernel,
                                                           .rule = rule_of_sample,
                                                           .cost = sample_cost});

}  // namespace

Tensor sample_index(const Tensor& probabilities, const Tensor& uniforms) {
  return tensor::call(kSampleIndex, {probabilities, uniforms});
}

Tensor multinomial(const Tensor& probabilities, std::int64_t count, bool with_replacement) {
  TESSERA_CHECK(probabilities.ndim() >= 1, "multinomial: probabilities must have a dimension of classes, got ",
                describe(probabilities));
  const std::int64_t classes = probabilities.size(-1);
  // Uniform numbers have 24 bits: of more classes, some would never be drawn.
  constexpr std::int64_t kMaxClasses = std::int64_t{1} << 24;
  TESSERA_CHECK(classes <= kMaxClasses, "multinomial: probabilities must have at most ", kMaxClasses, " classes, got ",
                classes, "; draw a block of classes first, then a class of that block");
  TESSERA_CHECK(count >= 0 && (with_replacement || count <= classes),
                "multinomial: count must be at least 0, and at most ", classes, " without replacement, got ", count,
                "; draw with replacement, or draw fewer");
  const tensor::GradModeScope no_grad(false);
  const Tensor p = cast(probabilities, DType::kF32);
  if (with_replacement) {
    tensor::IntList sizes;
    sizes.append(p.shape().values());
    sizes[sizes.size() - 1] = count;
    return sample_index(p, rand_like(expand(narrow(p, -1, 0, 1), sizes)));
  }
  // u is below 1, so that log1p is finite. A time of 0 would produce nan for a class with probability 0.
  const Tensor times = clamp_min(neg(log1p(neg(rand_like(p)))), 1e-30);
  return topk(div(p, times), count, -1).second;
}

}  // namespace tessera::ops
