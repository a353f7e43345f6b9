// Attention on CUDA, and its gradient.
//
// The offsets of packed sequences stay on the device. If they are invalid, the results of the affected queries are nan.
#include "tessera/ops/nn/attention.h"

#include <algorithm>
#include <cmath>

#include "tessera/ops/nn/cuda/attention_launch.h"

namespace tessera::ops::cuda {
namespace {

using tensor::KernelCall;

AttentionOffsets offsets_of(const KernelCall& call, const Tensor& q, const Tensor& k) {
  AttentionOffsets of;
  if (!q) return of;
  of.q = q.data();
  of.k = k.data();
  of.q_step = q.strides()[0];
  of.k_step = k.strides()[0];
  of.q_dtype = q.dtype();
  of.k_dtype = k.dtype();
  of.sequences = attention_size(call, q.size(0) - 1);
  return of;
}

// `at` and `offsets` are the indices of q and of its offsets among the inputs.
AttentionArgs args_of(const KernelCall& call, std::size_t at, std::size_t offsets) {
  const Tensor& q = call.inputs[at];
  const Tensor& k = call.inputs[at + 1];
  const Tensor& v = call.inputs[at + 2];
  const auto& bias = call.as<AttentionBias>();
  AttentionArgs of;
  of.q = attention_tensor(q);
  of.k = attention_tensor(k);
  of.v = attention_tensor(v);
  of.offsets = offsets_of(call, call.inputs[offsets], call.inputs[offsets + 1]);
  of.batch = attention_size(call, q.size(0));
  of.heads = of.groups = attention_size(call, q.size(1));
  of.kv_heads = attention_size(call, k.size(1));
  of.queries = of.rows = attention_size(call, q.size(2));
  of.keys = attention_size(call, k.size(2));
  of.d = attention_size(call, q.size(3));
  of.e = attention_size(call, v.size(3));
  of.is_bottom_right = bias.is_bottom_right;
  of.shift = bias.is_bottom_right ? k.size(2) - q.size(2) : 0;
  // Larger windows have no effect, but would overflow.
  const auto window = [](std::int64_t size) { return std::clamp<std::int64_t>(size, -1, std::int64_t{1} << 32); };
  of.left = window(bias.window_left);
  of.right = bias.is_causal ? 0 : window(bias.window_right);
  of.scale = bias.scale != 0 ? bias.scale : 1 / std::sqrt(std::max<double>(of.d, 1));
  return of;
}

// Returns the ranges of a call with offsets, or an empty buffer.
memory::Buffer make_ranges(const KernelCall& call, AttentionArgs& of) {
  if (of.offsets.q == nullptr) return {};
  memory::Buffer ranges = scratch(call, static_cast<std::size_t>(of.queries) * sizeof(KeyRange));
  of.ranges = reinterpret_cast<KeyRange*>(ranges.data());
  launch_attention_ranges(call, of);
  return ranges;
}

void forward(const KernelCall& call) {
  AttentionArgs of = args_of(call, 0, 3);
  of.out = attention_tensor(call.outputs[0]);
  of.logsumexp = attention_tensor(call.outputs[1]);
  const memory::Buffer ranges = make_ranges(call, of);
  launch_attention(call, of);
}

void backward(const KernelCall& call) {
  AttentionArgs of = args_of(call, 1, 6);
  of.grad = attention_tensor(call.inputs[0]);
  of.out = attention_tensor(call.inputs[4]);
  of.logsumexp = attention_tensor(call.inputs[5]);
  of.grad_logsumexp = attention_tensor(call.inputs[8]);
  of.dq = attention_tensor(call.outputs[0]);
  of.dk = attention_tensor(call.outputs[1]);
  of.dv = attention_tensor(call.outputs[2]);
  const memory::Buffer ranges = make_ranges(call, of);
  launch_attention_backward(call, of);
}

const tensor::KernelRegistration kAttention("scaled_dot_product_attention", "cuda", forward);
const tensor::KernelRegistration kAttentionBackward("scaled_dot_product_attention_backward", "cuda", backward);

}  // namespace
}  // namespace tessera::ops::cuda
