#include "tessera/ops/nn/attention.h"

#include <algorithm>
#include <memory>

#include "tessera/ops/detail/dtype_checks.h"
#include "tessera/ops/detail/enqueue.h"
#include "tessera/ops/nn/detail/attention_tiles.h"
#include "tessera/ops/nn/detail/row_rule.h"
#include "tessera/tensor/call.h"

namespace tessera::ops {
namespace {

using detail::AttentionCall;
using detail::AttentionOperand;
using detail::Rows;
using tensor::Call;
using tensor::GradientCall;
using tensor::KernelCall;

// Indices of arguments: forward q, k, v, offsets; backward grad, q, k, v, out, logsumexp, offsets.
struct Places {
  std::size_t q, offsets;
};
constexpr Places kForward = {0, 3};
constexpr Places kBackward = {1, 6};

void check_offsets(const Call& call, const Places& at) {
  const Tensor& q = call.inputs[at.offsets];
  const Tensor& k = call.inputs[at.offsets + 1];
  TESSERA_CHECK_CALL(call, static_cast<bool>(q) == static_cast<bool>(k),
                     "offsets_q and offsets_k require each other, got only ", q ? "offsets_q" : "offsets_k",
                     "; pass both or neither");
  if (!q) return;
  for (const Tensor& offsets : {q, k}) {
    TESSERA_CHECK_CALL(call, offsets.dtype() == DType::kI64 || offsets.dtype() == DType::kI32,
                       "offsets must be i64 or i32, got ", offsets.dtype());
    TESSERA_CHECK_CALL(call, offsets.ndim() == 1 && offsets.numel() >= 1 && offsets.shape() == q.shape(),
                       "offsets_q and offsets_k must both have shape [sequences + 1], got ", q.shape(), " and ",
                       k.shape());
  }
  TESSERA_CHECK_CALL(call, call.inputs[at.q].size(0) == 1, "sequences of variable length require a batch of 1, got ",
                     call.inputs[at.q].size(0));
}

void check_operands(const Call& call, const Places& at) {
  const Tensor& q = call.inputs[at.q];
  const Tensor& k = call.inputs[at.q + 1];
  const Tensor& v = call.inputs[at.q + 2];
  detail::check_floating(call, call.inputs[at.q]);
  for (const Tensor& x : {q, k, v}) {
    TESSERA_CHECK_CALL(call, x.ndim() == 4 && x.dtype() == q.dtype(),
                       "q, k and v must have shape [batch, heads, sequence, width] and one dtype, got ", x.dtype(),
                       x.shape());
  }
  TESSERA_CHECK_CALL(call, q.size(0) == k.size(0) && q.size(0) == v.size(0),
                     "batches of q, k and v must be equal, got ", q.size(0), ", ", k.size(0), " and ", v.size(0));
  TESSERA_CHECK_CALL(call, q.size(3) == k.size(3), "widths of q and k must be equal, got ", q.size(3), " and ",
                     k.size(3));
  TESSERA_CHECK_CALL(call, k.size(1) == v.size(1) && k.size(2) == v.size(2),
                     "k and v must have equal heads and sequence, got ", k.shape(), " and ", v.shape());
  TESSERA_CHECK_CALL(call, (k.size(1) > 0 ? q.size(1) % k.size(1) == 0 : q.size(1) == 0),
                     "heads of q must be a multiple of the heads of k (", k.size(1), "), got ", q.size(1));
  TESSERA_CHECK_CALL(call, call.as<AttentionBias>().scale >= 0, "scale must be at least 0, got ",
                     call.as<AttentionBias>().scale);
  check_offsets(call, at);
}

Shape out_shape(const Tensor& q, const Tensor& v) { return Shape({q.size(0), q.size(1), q.size(2), v.size(3)}); }

void infer(const Call& call, std::span<tensor::OutputInfo> outputs) {
  check_operands(call, kForward);
  const Tensor& q = call.inputs[0];
  outputs[0] = {out_shape(q, call.inputs[2]), q.dtype(), 0};
  outputs[1] = {Shape({q.size(0), q.size(1), q.size(2)}), detail::statistics_dtype(q.dtype())};
}

void infer_backward(const Call& call, std::span<tensor::OutputInfo> outputs) {
  check_operands(call, kBackward);
  for (const std::size_t i : {0U, 4U, 5U, 8U}) {
    if (call.inputs[i]) detail::check_floating(call, call.inputs[i]);
  }
  const Tensor& q = call.inputs[1];
  const Shape shape = out_shape(q, call.inputs[3]);
  TESSERA_CHECK_CALL(call, call.inputs[0].shape() == shape && call.inputs[4].shape() == shape,
                     "gradient and result must have shape ", shape, ", got ", call.inputs[0].shape(), " and ",
                     call.inputs[4].shape());
  TESSERA_CHECK_CALL(call, call.inputs[5].shape() == Shape({q.size(0), q.size(1), q.size(2)}),
                     "logsumexp must have shape [batch, heads, sequence] of q, got ", call.inputs[5].shape());
  TESSERA_CHECK_CALL(call, !call.inputs[8] || call.inputs[8].shape() == call.inputs[5].shape(),
                     "gradient of logsumexp must have the shape of logsumexp, ", call.inputs[5].shape(), ", got ",
                     call.inputs[8].shape());
  for (int i = 0; i < 3; ++i) {
    outputs[static_cast<std::size_t>(i)] = {call.inputs[static_cast<std::size_t>(i + 1)].shape(), q.dtype(), i + 1};
  }
}

std::shared_ptr<AttentionCall> make_call(const KernelCall& call, const Places& at) {
  auto of = std::make_shared<AttentionCall>();
  of->op = call.op.name();
  const Tensor& q = call.inputs[at.q];
  const Tensor& k = call.inputs[at.q + 1];
  const Tensor& v = call.inputs[at.q + 2];
  of->q = AttentionOperand(q);
  of->k = AttentionOperand(k);
  of->v = AttentionOperand(v);
  of->offsets_q = Rows(call.inputs[at.offsets], 0);
  of->offsets_k = Rows(call.inputs[at.offsets + 1], 0);
  of->batch = q.size(0);
  of->heads = q.size(1);
  of->kv_heads = k.size(1);
  of->queries = q.size(2);
  of->keys = k.size(2);
  of->d = q.size(3);
  of->e = v.size(3);
  of->bias = call.as<AttentionBias>();
  return of;
}

void kernel(const KernelCall& call) {
  const auto of = make_call(call, kForward);
  of->out = AttentionOperand(call.outputs[0]);
  of->logsumexp = AttentionOperand(call.outputs[1]);
  detail::with_floating(call.inputs[0].dtype(), [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    detail::enqueue(call, [of] { detail::run_attention<T>(*of); });
  });
}

void backward_kernel(const KernelCall& call) {
  const auto of = make_call(call, kBackward);
  of->grad = AttentionOperand(call.inputs[0]);
  of->out = AttentionOperand(call.inputs[4]);
  of->logsumexp = AttentionOperand(call.inputs[5]);
  if (call.inputs[8]) of->grad_logsumexp = AttentionOperand(call.inputs[8]);
  of->dq = AttentionOperand(call.outputs[0]);
  of->dk = AttentionOperand(call.outputs[1]);
  of->dv = AttentionOperand(call.outputs[2]);
  detail::with_floating(call.inputs[0].dtype(), [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    detail::enqueue(call, [of] { detail::run_attention_backward<T>(*of); });
  });
}

// Query heads are (kv head, index in its group). Sequences and widths cannot be sharded.
std::string group_text(const Tensor& q, const Tensor& k) {
  return k.size(1) > 0 ? std::to_string(q.size(1) / k.size(1)) : "1";
}
layout::FactorRule rule(const Call& call) {
  const bool has_offsets = static_cast<bool>(call.inputs[3]);
  return layout::FactorRule::parse(
      call.op.name() + ": [b,(h g),s,d],[b,h,t,d],[b,h,t,e]," + (has_offsets ? "[n],[n]" : "[],[]") +
      "->[b,(h g),s,e],[b,(h g),s]; s=replicate, t=replicate, d=replicate, e=replicate" +
      (has_offsets ? ", n=replicate, b=replicate" : "") + ", g:" + group_text(call.inputs[0], call.inputs[1]));
}
layout::FactorRule backward_rule(const Call& call) {
  const bool has_offsets = static_cast<bool>(call.inputs[6]);
  return layout::FactorRule::parse(
      call.op.name() + ": [b,(h g),s,e],[b,(h g),s,d],[b,h,t,d],[b,h,t,e],[b,(h g),s,e],[b,(h g),s]," +
      (has_offsets ? "[n],[n]" : "[],[]") + (call.inputs[8] ? ",[b,(h g),s]" : ",[]") +
      "->[b,(h g),s,d],[b,h,t,d],[b,h,t,e]; s=replicate, t=replicate, d=replicate, e=replicate, g=sum" +
      (has_offsets ? ", n=replicate, b=replicate" : "") + ", g:" + group_text(call.inputs[1], call.inputs[2]) +
      "; joint, none, none, none, none, none, none, none, " + (call.inputs[8] ? "joint" : "none"));
}

// Returns the number of (query, key) pairs, ignoring offsets.
double pairs(const Tensor& q, const Tensor& k, const AttentionBias& bias) {
  const std::int64_t queries = q.size(2);
  const std::int64_t keys = k.size(2);
  const std::int64_t shift = bias.is_bottom_right ? keys - queries : 0;
  const std::int64_t right = bias.is_causal ? 0 : bias.window_right;
  double sum = 0;
  for (std::int64_t i = 0; i < queries; ++i) {
    const std::int64_t end = right < 0 ? keys : std::clamp<std::int64_t>(i + shift + right + 1, 0, keys);
    sum += static_cast<double>(
        end - (bias.window_left < 0 ? 0 : std::clamp<std::int64_t>(i + shift - bias.window_left, 0, end)));
  }
  return sum * static_cast<double>(q.size(0) * q.size(1));
}
tensor::Cost cost(const Call& call) {
  tensor::Cost of = detail::row_cost(call, 0);
  of.flops = 2 * pairs(call.inputs[0], call.inputs[1], call.as<AttentionBias>()) *
             static_cast<double>(call.inputs[0].size(3) + call.inputs[2].size(3));
  return of;
}
tensor::Cost backward_cost(const Call& call) {
  tensor::Cost of = detail::row_cost(call, 0);
  of.flops = 2 * pairs(call.inputs[1], call.inputs[2], call.as<AttentionBias>()) *
             static_cast<double>(3 * call.inputs[1].size(3) + 2 * call.inputs[3].size(3));
  return of;
}

void gradient(GradientCall& call) {
  if (!call.grad() && !call.grad(1)) return;
  TESSERA_CHECK_AS(NotSupported, call.grad(),
                   "scaled_dot_product_attention: a gradient of only logsumexp is not supported");
  AttentionGradients of = scaled_dot_product_attention_backward(
      {call.grad(), call.grad(1)}, call.input(0), call.input(1), call.input(2), {call.output(0), call.output(1)},
      call.as<AttentionBias>(), {call.input(3), call.input(4)});
  if (call.needs(0)) call.set(0, std::move(of.q));
  if (call.needs(1)) call.set(1, std::move(of.k));
  if (call.needs(2)) call.set(2, std::move(of.v));
}

const tensor::Operator kAttention = tensor::register_op({.name = "scaled_dot_product_attention",
                                                         .inputs = "q, k, v, offsets_q?, offsets_k?",
                                                         .outputs = "out, logsumexp",
                                                         .infer = infer,
                                                         .host = kernel,
                                                         .gradient = gradient,
                                                         .saves = "q, k, v, offsets_q, offsets_k, out, logsumexp",
                                                         .rule = rule,
                                                         .cost = cost,
                                                         .traits = {.is_product = true}});
const tensor::Operator kAttentionBackward =
    tensor::register_op({.name = "scaled_dot_product_attention_backward",
                         .inputs = "grad, q, k, v, out, logsumexp, offsets_q?, offsets_k?, grad_logsumexp?",
                         .outputs = "dq, dk, dv",
                         .infer = infer_backward,
                         .host = backward_kernel,
                         .rule = backward_rule,
                         .cost = backward_cost,
                         .traits = {.is_product = true}});

}  // namespace

AttentionResult attention_with_logsumexp(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionBias& bias,
                                         const SequenceOffsets& offsets) {
  const Tensor inputs[] = {q, k, v, offsets.q, offsets.k};
  Tensor outputs[2];
  tensor::call_into({kAttention, inputs, bias, outputs});
  return {outputs[0], outputs[1]};
}

Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionBias& bias,
                                    const SequenceOffsets& offsets) {
  return attention_with_logsumexp(q, k, v, bias, offsets).out;
}

AttentionGradients scaled_dot_product_attention_backward(const AttentionResult& grad, const Tensor& q, const Tensor& k,
                                                         const Tensor& v, const AttentionResult& forward,
                                                         const AttentionBias& bias, const SequenceOffsets& offsets) {
  const Tensor inputs[] = {grad.out, q, k, v, forward.out, forward.logsumexp, offsets.q, offsets.k, grad.logsumexp};
  Tensor outputs[3];
  tensor::call_into({kAttentionBackward, inputs, bias, outputs});
  return {outputs[0], outputs[1], outputs[2]};
}

}  // namespace tessera::ops
