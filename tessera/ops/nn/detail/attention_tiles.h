// Attention by tiles: scores of a panel of queries against a block of keys are products, turned into probabilities,
// and multiplied again before the next block overwrites them (attention_kernels.h).
//
// Forward: a task is some queries of one head of one sequence; it walks the keys with a running maximum and sum.
// Backward: a task is some keys of one kv head of one sequence, for all query heads that share it. Scores are computed
// once; gradients of queries are added over tasks in the order of the keys. Tasks depend on shapes and offsets alone,
// and each is computed in one order on one thread: the same bits for any number of threads.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "tessera/ops/nn/attention.h"
#include "tessera/ops/nn/detail/rows.h"

namespace tessera::ops::detail {

/// A tensor [batch, heads, sequence, width] by its strides.
struct AttentionOperand {
  AttentionOperand() = default;
  explicit AttentionOperand(const Tensor& tensor);

  std::byte* data = nullptr;
  DType dtype = DType::kF32;
  std::int64_t batch = 0;
  std::int64_t head = 0;
  std::int64_t row = 0;
  std::int64_t col = 1;
};

/// All that a run needs.
struct AttentionCall {
  std::string_view op;  // named in errors
  AttentionOperand q, k, v, out, logsumexp;
  AttentionOperand grad, grad_logsumexp, dq, dk, dv;  // backward; grad_logsumexp: may have no data
  Rows offsets_q, offsets_k;
  std::int64_t batch = 0, heads = 0, kv_heads = 0, queries = 0, keys = 0, d = 0, e = 0;
  AttentionBias bias;
};

/// Computes out and logsumexp; T is float or double.
template <class T>
void run_attention(const AttentionCall& call);
/// Computes dq, dk and dv.
template <class T>
void run_attention_backward(const AttentionCall& call);

}  // namespace tessera::ops::detail
