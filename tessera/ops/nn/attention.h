// Attention: softmax(scale * q k^T + bias) v. The bias is a description of the keys that each query attends to, never a
// tensor. Memory is linear in the sequence length: scores exist one tile at a time, and the gradient recomputes them
// from the logsumexp of the forward pass.
//
//   q [batch, heads, queries, d]    k [batch, kv heads, keys, d]    v [batch, kv heads, keys, e]
//   out [batch, heads, queries, e]  logsumexp [batch, heads, queries]
//
// out has the memory order of q, and each gradient that of its tensor. If q is a transposed view of [batch, queries,
// heads, d], out is contiguous after the inverse transposition.
//
// heads is a multiple of kv heads; neighboring heads share keys and values (grouped heads). Query i has position i, or
// i + keys - queries if aligned to the bottom right, so that the last query is at the last key. It attends to the keys
// from `window_left` before its position to `window_right` after it; causal means a window_right of 0. A query without
// keys yields zeros.
//
// Variable lengths: with batch 1 and offsets [n + 1] (i64 or i32), queries offsets_q[i] to offsets_q[i + 1] attend only
// to keys offsets_k[i] to offsets_k[i + 1], as in separate calls. Invalid offsets are an error on the host. On CUDA,
// the results of their queries are nan.
#pragma once

#include <cstdint>

#include "tessera/base/export.h"
#include "tessera/tensor/attributes.h"
#include "tessera/tensor/tensor.h"

namespace tessera::ops {

/// The keys that each query attends to, and the scale of the scores.
struct AttentionBias {
  bool is_causal = false;          ///< no keys after the position of the query
  bool is_bottom_right = false;    ///< aligns the last query with the last key instead of the first with the first
  std::int64_t window_left = -1;   ///< keys before the position of the query; negative: all
  std::int64_t window_right = -1;  ///< keys after the position of the query; negative: all
  double scale = 0;                ///< factor of the scores; 0: 1 / sqrt(d)
  TESSERA_ATTRIBUTES(is_causal, is_bottom_right, window_left, window_right, scale)
};

/// Offsets of sequences of variable length. Set both or neither.
struct SequenceOffsets {
  Tensor q = {};  ///< offsets of the query sequences
  Tensor k = {};  ///< offsets of the key sequences
};

/// Returns the attention of q, k and v.
TESSERA_API Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                                const AttentionBias& bias = {}, const SequenceOffsets& offsets = {});

/// Result of attention, and the statistic that its gradient needs.
struct AttentionResult {
  Tensor out = {};        ///< has the dtype of q
  Tensor logsumexp = {};  ///< of the scores of each query: f32 (f64 for f64); -infinity for a query without keys
};
/// Returns the attention of q, k and v with the logsumexp of each query.
TESSERA_API AttentionResult attention_with_logsumexp(const Tensor& q, const Tensor& k, const Tensor& v,
                                                     const AttentionBias& bias = {},
                                                     const SequenceOffsets& offsets = {});

/// Gradients of attention.
struct AttentionGradients {
  Tensor q = {};  ///< gradient of the queries
  Tensor k;       ///< gradient of the keys, summed over the heads that share them
  Tensor v;       ///< gradient of the values, summed over the heads that share them
};
/// Computes the gradients of attention from the gradient of the result. `grad.logsumexp` may be empty.
TESSERA_API AttentionGradients scaled_dot_product_attention_backward(const AttentionResult& grad, const Tensor& q,
                                                                     const Tensor& k, const Tensor& v,
                                                                     const AttentionResult& forward,
                                                                     const AttentionBias& bias = {},
                                                                     const SequenceOffsets& offsets = {});

/// Kernels of attention on CUDA.
enum class AttentionBackend : std::uint8_t {
  kAuto,   ///< cuDNN if it is installed, for bf16 and f16 with as many queries as keys, not packed
  kCudnn,  ///< cuDNN; throws NotSupported with the reason if it cannot compute the call
  kTiled,  ///< the kernels of Tessera
};

/// Options of attention on CUDA.
struct AttentionOptions {
  AttentionBackend backend = AttentionBackend::kAuto;  ///< kernels
  /// Gradients have the same bits in each run. With cuDNN, they then need 2 bytes of memory per query and key. The
  /// kernels of Tessera always give the same bits.
  bool is_deterministic = false;
};
/// Sets the options of the process. Thread-safe.
TESSERA_API void set_attention_options(const AttentionOptions& options);
/// Returns the options of the process. By default, the backend is that of TESSERA_CUDA_ATTENTION.
TESSERA_API AttentionOptions attention_options();

}  // namespace tessera::ops
