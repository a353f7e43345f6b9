// Attention of new tokens to the tokens of their sequences, whose keys and values are in pages:
//
//   keys [pages, kv heads, page tokens, d]   values [pages, kv heads, page tokens, e]
//   tables [batch, columns] (i64)            pages of each sequence: position p is in page tables[b, p / page tokens]
//   starts [batch] (i64)                     tokens of each sequence before the new ones
//
// Sequences of different lengths share the pages, and grow without being copied. Token i of the rows of sequence b has
// position starts[b] + i. Write the keys and values of new tokens first:
//
//   write_pages_(keys, k, tables, starts);
//   write_pages_(values, v, tables, starts);
//   Tensor out = paged_attention(q, keys, values, tables, starts);
//
// Pages that do not exist are an error on the host. On CUDA, the results of their sequences are nan.
#pragma once

#include <cstdint>

#include "tessera/base/export.h"
#include "tessera/tensor/attributes.h"
#include "tessera/tensor/tensor.h"

namespace tessera::ops {

/// The keys that each query attends to, and the scale of the scores.
struct PagedAttentionAttributes {
  std::int64_t window_left = -1;  ///< keys before the position of the query; negative: all
  double scale = 0;               ///< factor of the scores; 0: 1 / sqrt(d)
  TESSERA_ATTRIBUTES(window_left, scale)
};

/// Writes rows [batch, kv heads, tokens, d] into pages, at the positions from `starts` on. Other elements keep their
/// values. Two rows must not have one place.
TESSERA_API void write_pages_(const Tensor& pages, const Tensor& rows, const Tensor& tables, const Tensor& starts);

/// Returns the causal attention of q [batch, heads, tokens, d] as [batch, heads, tokens, e], with the memory order of
/// q. `heads` is a multiple of kv heads; neighboring heads share keys and values. Has no gradient.
TESSERA_API Tensor paged_attention(const Tensor& q, const Tensor& keys, const Tensor& values, const Tensor& tables,
                                   const Tensor& starts, const PagedAttentionAttributes& how = {});

}  // namespace tessera::ops
