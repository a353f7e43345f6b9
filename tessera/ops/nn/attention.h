// Attention: softmax(scale * q k^T + bias) v, where the bias is a description and never a tensor: which keys a query
// may look at. Memory is linear in the sequence: scores exist a tile at a time, and the gradient computes them again
// from the logsumexp that the forward kept.
//
//   q [batch, heads, queries, d]    k [batch, kv heads, keys, d]    v [batch, kv heads, keys, e]
//   out [batch, heads, queries, e]  logsumexp [batch, heads, queries]
//
// out is laid out in memory as q is, and each gradient as what it is the gradient of: of q as a transposed view of
// [batch, queries, heads, d], out transposed back is contiguous.
//
// heads is a multiple of kv heads: neighbours share one (grouped heads). Query i stands at key i, or, aligned to the
// bottom right, at key i + keys - queries: the last query at the last key. It looks at keys from `window_left` before
// that place to `window_right` behind it; causal is a window_right of 0. A query that may look at nothing gets zeros.
//
// Variable lengths: with batch 1 and offsets [n + 1] (i64 or i32), queries offsets_q[i] to offsets_q[i + 1] look at
// keys offsets_k[i] to offsets_k[i + 1] alone, as if each were a call of its own.
#pragma once

#include <cstdint>

#include "tessera/base/export.h"
#include "tessera/tensor/attributes.h"
#include "tessera/tensor/tensor.h"

namespace tessera::ops {

/// See the head of this file.
struct AttentionBias {
  bool is_causal = false;          ///< no key behind the query's place
  bool is_bottom_right = false;    ///< how places are counted when there are more keys than queries, or fewer
  std::int64_t window_left = -1;   ///< keys before the query's place; negative: all
  std::int64_t window_right = -1;  ///< keys behind it; negative: all
  double scale = 0;                ///< of scores; 0: 1 / sqrt(d)
  TESSERA_ATTRIBUTES(is_causal, is_bottom_right, window_left, window_right, scale)
};

/// Offsets of sequences of variable length; both or neither.
struct SequenceOffsets {
  Tensor q = {};  ///< of queries
  Tensor k = {};  ///< of keys
};

/// See the head of this file.
TESSERA_API Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                                const AttentionBias& bias = {}, const SequenceOffsets& offsets = {});

/// What attention gives: the result and what its gradient needs.
struct AttentionResult {
  Tensor out = {};        ///< of q's dtype
  Tensor logsumexp = {};  ///< of each query's scores: f32 (f64 for f64); -infinity where it looks at nothing
};
/// Likewise, with the logsumexp.
TESSERA_API AttentionResult attention_with_logsumexp(const Tensor& q, const Tensor& k, const Tensor& v,
                                                     const AttentionBias& bias = {},
                                                     const SequenceOffsets& offsets = {});

/// Gradients of attention.
struct AttentionGradients {
  Tensor q = {};  ///< of queries
  Tensor k;       ///< of keys, summed over the heads that share them
  Tensor v;       ///< of values, likewise
};
/// From the gradient of the result and, where there is one, of the logsumexp.
TESSERA_API AttentionGradients scaled_dot_product_attention_backward(const AttentionResult& grad, const Tensor& q,
                                                                     const Tensor& k, const Tensor& v,
                                                                     const AttentionResult& forward,
                                                                     const AttentionBias& bias = {},
                                                                     const SequenceOffsets& offsets = {});

}  // namespace tessera::ops
