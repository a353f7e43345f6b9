// Attention by tiles: products yield the scores of a panel of queries and a block of keys. These become probabilities
// and are multiplied with the values before the next block overwrites them (attention_kernels.h).
//
// Forward: a task is some queries of one head of one sequence; it iterates over the keys with a running maximum and
// sum. Backward: a task is some keys of one kv head of one sequence, for all query heads that share it. Scores are
// computed once; gradients of queries are added over tasks in the order of the keys. Tasks depend only on shapes and
// offsets, and one thread computes each task in a fixed order, so that results have the same bits for any number of
// threads.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "tessera/ops/nn/attention.h"
#include "tessera/ops/nn/detail/rows.h"

namespace tessera::ops::detail {

/// The address and strides of a tensor [batch, heads, sequence, width].
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

/// Operands and parameters of one run.
struct AttentionCall {
  std::string_view op;  // named in errors
  AttentionOperand q, k, v, out, logsumexp;
  AttentionOperand grad, grad_logsumexp, dq, dk, dv;  // backward; grad_logsumexp may be empty
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
