// Launches the attention kernels of a call.
#pragma once

#include "tessera/ops/cuda/kernels.h"
#include "tessera/ops/nn/cuda/attention_args.h"

namespace tessera::ops::cuda {

/// Returns the address and strides of a tensor [batch, heads, sequence] or [batch, heads, sequence, width]; a dimension
/// of size 1 has a stride of 0. May be empty.
AttentionTensor attention_tensor(const Tensor& tensor);
/// Returns a size of the call. Throws NotSupported from 2^31 on.
std::int32_t attention_size(const tensor::KernelCall& call, std::int64_t size);

/// Computes `out`, and `logsumexp` if present.
void launch_attention(const tensor::KernelCall& call, const AttentionArgs& of);
/// Computes `dq`, `dk` and `dv`.
void launch_attention_backward(const tensor::KernelCall& call, AttentionArgs of);
/// Computes `out` from keys and values in pages.
void launch_paged_attention(const tensor::KernelCall& call, AttentionArgs of);
/// Writes `ranges` from `offsets`.
void launch_attention_ranges(const tensor::KernelCall& call, const AttentionArgs& of);

}  // namespace tessera::ops::cuda
