// The choice between cuDNN and the kernels of Tessera for a call of attention.
#pragma once

#include <string>
#include <string_view>

#include "tessera/ops/nn/attention.h"
#include "tessera/ops/nn/cuda/attention_args.h"
#include "tessera/tensor/op_def.h"

namespace tessera::ops::cuda {

/// Attention by cuDNN (attention_cudnn.cpp). A build without the headers of cuDNN has none.
struct CudnnAttention {
  /// Returns why the library cannot be used, or "". Loads it at the first call.
  const std::string& (*why_not)();
  /// Computes `out` and `logsumexp`.
  void (*forward)(const tensor::KernelCall& call, const AttentionArgs& of);
  /// Computes `dq`, `dk` and `dv`.
  void (*backward)(const tensor::KernelCall& call, const AttentionArgs& of, bool is_deterministic);
};
/// Registers attention by cuDNN. A static object.
struct CudnnRegistration {
  explicit CudnnRegistration(const CudnnAttention& attention);
};
/// Returns attention by cuDNN, or null.
const CudnnAttention* cudnn_attention();
/// Returns why this process cannot use cuDNN, or "".
std::string_view why_no_cudnn();

/// Returns the requirement of cuDNN that a call does not meet, or "". Its backward pass has `grad`.
std::string why_not_cudnn(const AttentionArgs& of, bool is_deterministic);

/// Returns true if cuDNN computes calls of this size unless the options name other kernels: those with as many queries
/// as keys. cuDNN plans each size, which takes longer than the call: too long for a cache whose keys grow with each
/// call.
bool is_for_cudnn(const AttentionArgs& of);

/// Returns true if cuDNN computes the call. `unavailable` and `why_not` are the reasons against it, or "". Throws
/// NotSupported if the options demand cuDNN.
bool uses_cudnn(std::string_view op, AttentionBackend backend, std::string_view unavailable, std::string_view why_not);

}  // namespace tessera::ops::cuda
