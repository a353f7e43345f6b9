// masked_fill.
#include <cstring>

#include "tessera/ops/detail/enqueue.h"
#include "tessera/ops/index/index.h"
#include "tessera/ops/parallel.h"
#include "tessera/ops/shape/detail/byte_count.h"
#include "tessera/ops/shape/detail/copy_elements.h"
#include "tessera/ops/shape/detail/rule_parts.h"
#include "tessera/tensor/call.h"

namespace tessera::ops {
namespace {

using tensor::Call;
using tensor::GradientCall;
using tensor::KernelCall;
using tensor::OutputInfo;

void infer_masked_fill(const Call& call, std::span<OutputInfo> outputs) {
  const Tensor& x = call.inputs[0];
  const Tensor& mask = call.inputs[1];
  TESSERA_CHECK_CALL(call, mask.dtype() == DType::kBool, "mask must be bool, got ", mask.dtype());
  bool fits = mask.ndim() <= x.ndim();
  for (int d = 1; fits && d <= mask.ndim(); ++d) fits = mask.size(-d) == 1 || mask.size(-d) == x.size(-d);
  TESSERA_CHECK_CALL(call, fits, "mask must broadcast to ", x.shape(), ", got ", mask.shape());
  outputs[0] = {x.shape(), x.dtype()};
}

void masked_fill_kernel(const KernelCall& call) {
  const Tensor& x = call.inputs[0];
  const Tensor& mask = call.inputs[1];
  const Tensor& out = call.outputs[0];
  detail::StridedLoop<3> loop;
  const std::size_t lead = x.shape().size() - mask.shape().size();
  for (std::size_t d = 0; d < x.shape().size(); ++d) {
    const bool is_broadcast = d < lead || mask.shape()[d - lead] != x.shape()[d];
    loop.add(x.shape()[d], {out.strides()[d], x.strides()[d], is_broadcast ? 0 : mask.strides()[d - lead]});
  }
  loop.collapse();
  const auto value = detail::element_of(call.as<MaskedFillAttributes>().value, x.dtype());
  std::byte* to = out.data();
  const std::byte* from = x.data();
  const bool* is_filled = mask.data_as<bool>();
  const std::size_t nbytes = itemsize(x.dtype());
  detail::enqueue(call, [=] {
    detail::with_word(nbytes, [&](auto word) {
      using Word = decltype(word);
      std::memcpy(&word, value.data(), sizeof word);
      detail::parallel_for(loop.numel(), 65536, [&](std::int64_t begin, std::int64_t end) {
        loop.for_runs(begin, end, [&](const auto& at, std::int64_t n) {
          auto* result = reinterpret_cast<Word*>(to) + at[0];
          const auto* source = reinterpret_cast<const Word*>(from) + at[1];
          for (std::int64_t i = 0; i < n; ++i) {
            result[i * loop.step(0)] = is_filled[at[2] + i * loop.step(2)] ? word : source[i * loop.step(1)];
          }
        });
      });
    });
  });
}

void masked_fill_gradient(GradientCall& call) {
  if (call.needs(0)) call.set(0, masked_fill(call.grad(), call.input(1), 0));
}

layout::FactorRule rule_of_masked_fill(const Call& call) {
  const Shape shapes[] = {call.inputs[0].shape(), call.inputs[1].shape()};
  layout::FactorRule rule = layout::pointwise_rule("masked_fill", shapes);
  const bool is_zero = !call.as<MaskedFillAttributes>().value.as_bool();
  rule.algebra = {{is_zero ? layout::Linearity::kJoint : layout::Linearity::kNone, layout::Monotony::kUp}, {}};
  return rule;
}

tensor::Cost masked_fill_cost(const Call& call) { return {.flops = 0, .nbytes = 2 * detail::bytes_of(call.inputs[0])}; }

const tensor::Operator kMaskedFill = tensor::register_op({.name = "masked_fill",
                                                          .inputs = "x, mask",
                                                          .infer = infer_masked_fill,
                                                          .host = masked_fill_kernel,
                                                          .gradient = masked_fill_gradient,
                                                          .saves = "mask",
                                                          .rule = rule_of_masked_fill,
                                                          .cost = masked_fill_cost,
                                                          .traits = {.is_pointwise = true}});

}  // namespace

Tensor masked_fill(const Tensor& x, const Tensor& mask, const Scalar& value) {
  return tensor::call(kMaskedFill, {x, mask}, MaskedFillAttributes{value});
}

}  // namespace tessera::ops
