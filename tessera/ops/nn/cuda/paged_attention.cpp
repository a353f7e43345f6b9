// Attention over pages on CUDA.
//
// Tables and starts stay on the device. If they name pages that do not exist, the results of the affected rows are nan.
#include "tessera/ops/nn/paged_attention.h"

#include <algorithm>
#include <cmath>

#include "tessera/ops/nn/cuda/attention_launch.h"

namespace tessera::ops::cuda {
namespace {

using tensor::KernelCall;

void run(const KernelCall& call) {
  const Tensor& q = call.inputs[0];
  const Tensor& keys = call.inputs[1];
  const Tensor& tables = call.inputs[3];
  const Tensor& starts = call.inputs[4];
  const auto& how = call.as<PagedAttentionAttributes>();
  if (call.outputs[0].numel() == 0) return;
  AttentionArgs of;
  of.q = attention_tensor(q);
  of.k = attention_tensor(keys);
  of.v = attention_tensor(call.inputs[2]);
  of.out = attention_tensor(call.outputs[0]);
  of.batch = attention_size(call, q.size(0));
  of.heads = attention_size(call, q.size(1));
  of.kv_heads = of.groups = attention_size(call, keys.size(1));
  of.queries = attention_size(call, q.size(2));
  of.rows = attention_size(call, q.size(1) / keys.size(1) * q.size(2));
  of.keys = attention_size(call, tables.size(1) * keys.size(2));
  of.d = attention_size(call, q.size(3));
  of.e = attention_size(call, call.inputs[2].size(3));
  of.left = std::clamp<std::int64_t>(how.window_left, -1, std::int64_t{1} << 32);
  of.right = 0;
  of.scale = how.scale != 0 ? how.scale : 1 / std::sqrt(std::max<double>(of.d, 1));
  of.pages.tables = reinterpret_cast<const std::int64_t*>(tables.data());
  of.pages.starts = reinterpret_cast<const std::int64_t*>(starts.data());
  of.pages.table_batch = tables.strides()[0];
  of.pages.table_step = tables.strides()[1];
  of.pages.start_step = starts.strides()[0];
  of.pages.columns = attention_size(call, tables.size(1));
  of.pages.count = attention_size(call, keys.size(0));
  of.pages.tokens = attention_size(call, keys.size(2));
  launch_paged_attention(call, of);
}

const tensor::KernelRegistration kPagedAttention("paged_attention", "cuda", run);

}  // namespace
}  // namespace tessera::ops::cuda
