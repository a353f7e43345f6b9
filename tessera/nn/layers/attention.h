// Multi-head attention with its projections. Between its first and last product it is sharded by heads:
//
//   x [batch, sequence, width] -> q_proj, k_proj, v_proj -> q_norm, k_norm -> rope -> attention -> o_proj
#pragma once

#include <cstdint>
#include <optional>

#include "tessera/base/export.h"
#include "tessera/nn/layer.h"
#include "tessera/nn/layers/linear.h"
#include "tessera/nn/layers/norm.h"
#include "tessera/ops/nn/rope.h"

namespace tessera::nn {

class KvCache;

/// Options of Attention.
struct AttentionOptions {
  std::int64_t width = 0;                        ///< Width of the input and the result.
  std::int64_t heads = 1;                        ///< Query heads.
  std::int64_t kv_heads = 0;                     ///< Key and value heads, a divisor of `heads`. 0: as many as `heads`.
  std::int64_t head_width = 0;                   ///< Width of a head. 0: width / heads.
  bool bias = false;                             ///< Biases of the query, key and value products.
  bool out_bias = false;                         ///< Bias of the last product.
  bool is_causal = true;                         ///< A query attends to no later key.
  std::int64_t window = 0;                       ///< Number of keys that a query attends to, its own included. 0: all.
  std::optional<ops::RopeAttributes> rope = {};  ///< Rotates queries and keys. Unset: no rotation.
  std::optional<double> qk_norm_eps = {};        ///< Normalizes each query and key head. Unset: no norm.
  Init init = {};                                ///< Initial values of the query, key and value products.
  Init out_init = {};                            ///< Initial values of the last product.
};

/// Attention of a sequence to itself.
class TESSERA_API Attention : public Layer<Attention> {
 public:
  /// Throws InvalidArgument if the heads do not fit the width or each other.
  explicit Attention(const AttentionOptions& options);
  /// Returns the attention of x [batch, sequence, width] to itself and, with a cache, to all tokens before it, which it
  /// appends to. If documents are packed (packing.h), each attends only to itself.
  [[nodiscard]] Tensor forward(const Tensor& x, KvCache* cache = nullptr) const;
  /// Returns the options with all defaults resolved.
  [[nodiscard]] const AttentionOptions& options() const { return options_; }

  Linear q_proj;                  ///< [heads * head_width, width]
  Linear k_proj;                  ///< [kv_heads * head_width, width]
  Linear v_proj;                  ///< [kv_heads * head_width, width]
  Linear o_proj;                  ///< [width, heads * head_width]
  std::optional<RMSNorm> q_norm;  ///< [head_width], if used
  std::optional<RMSNorm> k_norm;  ///< [head_width], if used

 private:
  [[nodiscard]] Tensor heads_of(const Tensor& rows, std::int64_t heads, const std::optional<RMSNorm>& norm) const;
  [[nodiscard]] Tensor rotated(const Tensor& heads, KvCache* cache) const;

  AttentionOptions options_;
};

}  // namespace tessera::nn
